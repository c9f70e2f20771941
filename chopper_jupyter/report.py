"""A report of one run: the document one sends to a colleague, or pastes into an issue."""

from __future__ import annotations

import html
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chopper_jupyter import charts
from chopper_jupyter._version import __version__
from chopper_jupyter.charts.chart import Chart, table_html
from chopper_jupyter.core.analysis.compare import compare
from chopper_jupyter.core.analysis.findings import findings
from chopper_jupyter.core.analysis.headline import headline
from chopper_jupyter.core.analysis.sharing import sharing
from chopper_jupyter.core.analysis.summary import summarize
from chopper_jupyter.core.errors import MissingDataError, SchemaError
from chopper_jupyter.widgets.explorer import Explorer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    import pandas as pd

    from chopper_jupyter.core.trace import Trace

TOP = 12
"""Ops of the table."""

COLUMNS = (
    "phase", "op", "time_ms", "time_ms_std", "share_percent", "kernels", "overlap_percent",
)  # fmt: skip

_HOME = re.compile(r"(/home/|/Users/|/root\b/?|[A-Za-z]:\\Users\\)[^\s/\\\"':]*")
_NOTHING = (
    "Nothing stood out: no cause of idle time, no communication, GPU, clock or iteration is "
    "beyond the threshold from which it would be named."
)
_METHOD = (
    "Times are means per iteration and GPU after warm-up. Kernels are linked to their launch, "
    "operator, layer and phase by the recording's own ids; idle time belongs to the kernel that "
    "ends it. Definitions follow Kurzynski et al., arXiv 2512.08242 (2025), where they are named "
    "chopper; the analyses' docstrings say where and why ours differ."
)
_STYLE = (
    "body{font:14px/20px system-ui,sans-serif;max-width:1080px;margin:24px auto;padding:0 16px;"
    "color:#1b1f24;background:#fff}h1{font-size:22px}h2{font-size:16px;margin:28px 0 8px}"
    "pre{background:#f7f8fa;padding:8px;overflow:auto}td,th{font-variant-numeric:tabular-nums}"
)


class Report:
    """Headline, findings, pictures, tables, code and data quality of a run in one document.

    It needs no Jupyter kernel, no GPU and no network to be read. What the recording holds no
    data for is left out: overheads need shapes, and counters for all of their causes.

    Parameters
    ----------
    trace : Trace
        The run.
    compare_to : Trace, optional
        Another run; differences are ``trace`` less this one.
    title : str, optional
        Heading of the document, by default the name of the run.
    private : bool, optional
        Keep host names and home folders; by default they are left out.

    Examples
    --------
    >>> Report(trace).save("fsdp2.html")  # doctest: +SKIP
    """

    def __init__(
        self,
        trace: Trace,
        compare_to: Trace | None = None,
        *,
        title: str | None = None,
        private: bool = False,
    ) -> None:
        self._trace, self._before, self._private = trace, compare_to, private
        self._title = title or trace.info.name

    def __repr__(self) -> str:
        return f"<Report of {self._trace.info.name!r}>"

    def _repr_html_(self) -> str:
        return self._body(with_bokeh=None)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file that needs no network."""
        target = Path(path)
        title = html.escape(self._redacted(f"{self._title}: where the GPU time went"))
        page = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
            f"<body>{self._body(with_bokeh=True)}</body></html>"
        )
        target.write_text(page, encoding="utf-8")
        return target

    def to_markdown(self) -> str:
        """Return headline, findings, longest ops and data quality as Markdown, for issues."""
        with sharing(self._trace):
            return self._redacted("\n".join(self._markdown_lines())) + "\n"

    def _markdown_lines(self) -> list[str]:
        lines = [f"### {self._title}", "", "```", *headline(self._trace).lines, "```", ""]
        said = [f"{i}. {_markdown(line)}" for i, line in enumerate(self._findings(), 1)]
        lines += said or [_NOTHING]
        top = self._top()
        lines += ["", _markdown_table(top)]
        if self._before is not None:
            lines += ["", f"Compared with {self._before.info.name}:", ""]
            lines.append(_markdown_table(self._differences(self._before)))
        return [*lines, "", *[f"- {line}" for line in self._data()]]

    def _body(self, *, with_bokeh: bool | None) -> str:
        with sharing(self._trace):
            return self._redacted("".join(self._parts(with_bokeh=with_bokeh)))

    def _parts(self, *, with_bokeh: bool | None) -> list[str]:
        trace = self._trace
        return [
            f"<h1>{html.escape(self._title)}{' (simulated)' * self._unsaid_simulation()}</h1>",
            headline(trace)._repr_html_(),
            f"<h2>Findings</h2>{_list(self._findings(), 'ol') or f'<p>{_NOTHING}</p>'}",
            "<h2>Explore</h2>",
            Explorer(trace)._repr_html_(),
            *self._figures(with_bokeh=with_bokeh),
            f"<h2>Longest ops</h2>{table_html(self._top(), TOP)}",
            *self._comparison(),
            *self._code(),
            f"<h2>Data</h2>{_list(self._data())}",
            f"<h2>Method</h2><p>{_METHOD}</p>",
        ]

    def _data(self) -> list[str]:
        return [*self._trace.quality.lines(), *self._facts()]

    def _unsaid_simulation(self) -> bool:
        return self._trace.info.simulated and "simulated" not in self._title

    def _findings(self) -> list[str]:
        """Say what stood out, what costs most first, and what to do about it."""
        return [
            f"{row.title} ({row.value}): {row.detail}."
            for row in findings(self._trace).itertuples()
        ]

    def _figures(self, *, with_bokeh: bool | None) -> Iterator[str]:
        for heading, draws in self._sections().items():
            made = [chart for chart in map(_if_possible, draws) if chart is not None]
            if made:
                yield f"<h2>{heading}</h2>"
            for chart in made:
                yield chart.to_html(with_bokeh=with_bokeh)
                with_bokeh = None if with_bokeh is None else False

    def _sections(self) -> dict[str, list[Callable[[], Chart]]]:
        """Return how each figure is drawn, by the heading it stands below."""
        trace, before = self._trace, self._before
        runs = trace if before is None else {before.info.name: before, trace.info.name: trace}
        difference = [] if before is None else [lambda: charts.compare_waterfall(before, trace)]
        return {
            "Where an iteration goes": [lambda: charts.end_to_end(runs), *difference],
            "From theoretical to actual time": [
                lambda: charts.overhead_breakdown(runs),
                lambda: charts.roofline(runs),
            ],
            "Communication": [
                lambda: charts.communication(runs),
                lambda: charts.collectives(runs),
            ],
            "Idle time": [lambda: charts.idle_causes(runs), lambda: charts.launch_overhead(runs)],
            "Clocks, power and processors": [
                lambda: charts.frequency_power(runs),
                lambda: charts.cpu_utilization(trace),
            ],
        }

    def _top(self) -> pd.DataFrame:
        rows = summarize(self._trace, ["phase", "op"])
        return rows[[name for name in COLUMNS if name in rows]].head(TOP)

    def _differences(self, before: Trace) -> pd.DataFrame:
        names = ["phase", "op", "side", "time_a_ms", "time_b_ms", "difference_ms"]
        return compare(before, self._trace, ["phase", "op"])[names].head(TOP)

    def _comparison(self) -> list[str]:
        if self._before is None:
            return []
        title = f"Compared with {self._before.info.name}"
        return [f"<h2>{html.escape(title)}</h2>{table_html(self._differences(self._before), TOP)}"]

    def _code(self) -> list[str]:
        source = self._trace.info.run.get("cell_source")
        return [f"<h2>Code</h2><pre>{html.escape(source)}</pre>"] if source else []

    def _facts(self) -> list[str]:
        """Say what ran where and when."""
        run = self._trace.info.run
        versions = {k: v for k, v in (run.get("versions") or {}).items() if v}
        facts = [f"{name} {version}" for name, version in versions.items()]
        lines = [f"recorded with {', '.join(facts)}"] if facts else []
        if run.get("git_commit"):
            lines.append(f"commit {run['git_commit']}")
        if run.get("created_ns"):
            when = datetime.fromtimestamp(run["created_ns"] / 1e9, tz=timezone.utc)
            lines.append(f"recorded {when:%Y-%m-%d %H:%M} UTC")
        return [*lines, f"report by chopper_jupyter {__version__}"]

    def _redacted(self, text: str) -> str:
        if self._private:
            return text
        hosts = {h for h in self._trace.gpus["host"].to_pylist() if h}
        hosts |= {str(h) for h in [self._trace.info.run.get("host")] if h}
        for host in sorted(hosts, key=len, reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(html.escape(host))}(?![\w-])", "[host]", text)
        return _HOME.sub("~", text)


def _if_possible(draw: Callable[[], Chart]) -> Chart | None:
    try:
        return draw()
    except (MissingDataError, SchemaError):
        return None


def _list(lines: list[str], tag: str = "ul") -> str:
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<{tag}>{items}</{tag}>" if lines else ""


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _markdown_table(table: pd.DataFrame) -> str:
    def cell(value: Any) -> str:
        text = f"{value:.3g}" if isinstance(value, float) else str(value)
        text = "" if text in ("nan", "<NA>", "None") else text
        return _markdown(text)

    rows = [list(table.columns), ["---"] * len(table.columns), *table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(cell(v) for v in row) + " |" for row in rows)
