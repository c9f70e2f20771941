"""The explorer: where the time of a trace went, from the whole run down to single kernels."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import pyarrow as pa

from chopper_jupyter.core.analysis.metrics import find_metrics
from chopper_jupyter.core.errors import unknown_name
from chopper_jupyter.widgets import front_end
from chopper_jupyter.widgets.headless import display_mode
from chopper_jupyter.widgets.packing import pack, to_json
from chopper_jupyter.widgets.payload import ORDER, SIZES, payload_of
from chopper_jupyter.widgets.selection import (
    Selection,
    checked,
    checked_order,
    from_labels,
    to_labels,
)
from chopper_jupyter.widgets.sources import Sources
from chopper_jupyter.widgets.static import data_budget, page, static_html
from chopper_jupyter.widgets.top_ops import top_ops_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chopper_jupyter.core.trace import Trace
    from chopper_jupyter.widgets.view import ExplorerWidget

THEMES = ("light", "dark")

_SHOWN: Counter[str] = Counter()
"""How often each static page was shown by this process; equal pages need different ids."""


@dataclass
class _State:
    """What the view shows, while no widget holds it; the names are those of its traits."""

    selection: list[list[Any]]
    level_order: list[str]
    metric: str
    size: str
    filters: dict[str, Any]
    theme: str


class Explorer:
    """Drill down a trace: an icicle of the levels, a table, and GPU by iteration.

    As the last line of a cell it shows itself: live in JupyterLab, Notebook and the like, and
    as a static page in headless runs. A saved notebook stays explorable without Python.

    Parameters
    ----------
    trace : Trace
        The trace to explore; restrict it by ``trace.filter`` first if it is too much.
    compare_to : Trace, optional
        Another trace to compare with. Parts are matched by phase, layer and op; the explorer
        colours by the change of their time and lists what is unmatched on both sides.
    level_order : iterable of str, optional
        Levels from the outside in; those left out follow in the default order: phase, op,
        layer, kernel, gpu, iteration.
    metric : str, optional
        Name of the metric that sizes and sorts; ``"time"`` by default.
    theme : {"light", "dark"}, optional
        By default the explorer follows the notebook's theme.

    Raises
    ------
    SchemaError
        If a level, metric or theme does not exist.
    MissingDataError
        If the trace lacks what the metric needs.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> explorer = Explorer(Trace.from_tables({}), level_order=["layer"])
    >>> explorer.level_order[:2]
    ['layer', 'phase']
    """

    def __init__(
        self,
        trace: Trace,
        *,
        compare_to: Trace | None = None,
        level_order: Iterable[str] | None = None,
        metric: str | None = None,
        theme: Literal["light", "dark"] | None = None,
    ) -> None:
        self.trace = trace
        self.compare_to = compare_to
        self._sources = Sources(trace, compare_to)
        if theme is not None and theme not in THEMES:
            raise unknown_name(what="theme", name=theme, known=THEMES)
        order = checked_order(level_order, ORDER)
        self._state = _State([], order, "time", "time_ns", {}, theme or "")
        self._widget: ExplorerWidget | None = None
        if metric is not None:
            self.metric = metric

    @property
    def selection(self) -> Selection:
        """What is selected: pairs of level and value, in the order of selecting.

        Set it to a dict such as ``{"phase": "forward", "gpu": 3}`` or to such pairs; None as a
        value selects kernels whose level is not known. In a live view it is what the user
        selected last; a static view cannot tell Python, so there it is what Python set.
        """
        return from_labels(self._shown.selection, self._sources.members, self._sources.codes)

    @selection.setter
    def selection(self, value: Mapping[str, Any] | Iterable[tuple[str, Any]] | None) -> None:
        pairs = checked(value, self._sources.codes)
        self._shown.selection = to_labels(pairs, self._sources.members, self._sources.codes)

    @property
    def level_order(self) -> list[str]:
        """Levels from the outside in; levels left out on setting follow in the default order."""
        return list(self._shown.level_order)

    @level_order.setter
    def level_order(self, order: Iterable[str]) -> None:
        self._shown.level_order = checked_order(order, ORDER)

    @property
    def metric(self) -> str:
        """Name of the metric that sizes and sorts."""
        return self._shown.metric

    @metric.setter
    def metric(self, name: str) -> None:
        find_metrics([name], self._sources.codes.measures, self.trace.info.device_kind)
        self._shown.metric = name

    @property
    def size(self) -> str:
        """Name of the measure that sizes the icicle.

        ``"time_ns"``, ``"busy_ns"`` (exclusive time: wall time accounted for, nothing twice),
        ``"idle_ns"``, ``"count"`` and, where recorded, ``"flops"`` and ``"message_bytes"``.
        """
        return self._shown.size

    @size.setter
    def size(self, name: str) -> None:
        known = [size for size in SIZES if size in self._sources.codes.measures]
        if name not in known:
            raise unknown_name(what="measure", name=name, known=known)
        self._shown.size = name

    @property
    def filters(self) -> dict[str, Any]:
        """What the explorer is restricted to: a value, or a list of values, by level.

        Everything it shows is of the filtered trace, as by ``trace.filter``; the selection is
        made within it. Set it to ``{}`` to show everything again.
        """
        return dict(self._shown.filters)

    @filters.setter
    def filters(self, levels: Mapping[str, Any] | None) -> None:
        wanted = dict(levels or {})
        self._sources = Sources(
            self.trace.filter(**wanted),
            None if self.compare_to is None else self.compare_to.filter(**wanted),
        )
        self.__dict__.pop("_static_payload", None)
        kept = from_labels(self._shown.selection, self._sources.members, self._sources.codes)
        self._shown.filters = wanted
        self.selection = kept
        if self._widget is not None:
            self._widget.show(self._sources, self._live_payload())

    def selected_trace(self) -> Trace:
        """Return the trace restricted to what is selected, warm-up left out."""
        levels = dict(self.selection)
        iterations = self._sources.codes.included.iterations
        if iterations:
            levels.setdefault("iteration", list(iterations))
        kept = self._sources.trace.filter(**levels)
        return replace(kept, info=replace(kept.info, warmup=0))

    def selected_kernels(self) -> pd.DataFrame:
        """Return the selected kernels as a table, one row per kernel, in order of their start.

        Returns
        -------
        pandas.DataFrame
            Arrow-backed, with the columns of ``trace.kernels``; warm-up is left out.
            ``attrs["units"]`` gives the unit of each column that has one.
        """
        kernels = self.selected_trace().kernels.sort_by([("start_ns", "ascending")])
        units = {
            field.name: field.metadata[b"unit"].decode()
            for field in kernels.schema
            if field.metadata[b"unit"]
        }
        plain = [
            pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type)
            for f in kernels.schema
        ]
        frame: pd.DataFrame = kernels.cast(pa.schema(plain)).to_pandas(types_mapper=pd.ArrowDtype)
        frame.attrs["units"] = units
        return frame

    @property
    def widget(self) -> ExplorerWidget:
        """The live view as a widget, to be put into a box of ipywidgets; made at first use.

        Raises
        ------
        FrontEndMissingError
            If the front end was not built.
        """
        if self._widget is None:
            from chopper_jupyter.widgets.view import ExplorerWidget  # noqa: PLC0415  heavy

            self._widget = ExplorerWidget(
                self._sources, uid=self._uid, payload=self._live_payload(), **vars(self._state)
            )
        return self._widget

    def to_html(self) -> str:
        """Return the explorer as a whole HTML document that needs no network and no Python."""
        return page(self.trace.info.name, self._static_html(self._digest), self._shown.theme)

    def save(self, path: str | Path) -> Path:
        """Write the explorer as an HTML file that needs no network and no Python.

        Returns
        -------
        pathlib.Path
            The file.
        """
        file = Path(path)
        file.write_text(self.to_html(), encoding="utf-8")
        return file

    def __repr__(self) -> str:
        included = self._sources.codes.included
        lines = [f"Explorer of {self.trace.info.name}: {included.phrase()}"]
        lines += [f"  {level} = {value}" for level, value in self.selection]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self._static_html(self._uid)

    def _ipython_display_(self) -> None:
        """Show the static page first and, where somebody listens, the live view below it.

        The live view hides the page. On a reopened notebook it does not exist and the page
        stays; a view without a text form leaves nothing behind in exported documents.
        """
        from IPython.display import display  # noqa: PLC0415  only where IPython runs

        page_ = {"text/html": self._repr_html_(), "text/plain": repr(self)}
        display(page_, raw=True)
        if display_mode() == "live" and front_end.is_built(front_end.WIDGET_FILE):
            data, metadata = self.widget._repr_mimebundle_()
            view = {kind: value for kind, value in data.items() if kind != "text/plain"}
            display(view, metadata=metadata, raw=True)

    @property
    def _shown(self) -> _State | ExplorerWidget:
        return self._state if self._widget is None else self._widget

    @cached_property
    def _static_payload(self) -> dict[str, Any]:
        return payload_of(self._sources, merge=True, budget=data_budget())

    @cached_property
    def _digest(self) -> str:
        return "cj" + hashlib.sha256(to_json(self._static_payload)).hexdigest()[:12]

    @cached_property
    def _uid(self) -> str:
        """Tie this explorer's page and widget together, apart from all others of a notebook.

        Headless runs number equal pages, so that running a notebook again gives the same file.
        """
        if display_mode() == "live":
            return "cj" + secrets.token_hex(6)
        _SHOWN[self._digest] += 1
        return f"{self._digest}n{_SHOWN[self._digest]}"

    def _live_payload(self) -> str:
        return pack(payload_of(self._sources, merge=False) | {"uid": self._uid})

    def _static_html(self, uid: str) -> str:
        shown = self._shown
        payload = self._static_payload | {
            "uid": uid,
            "selection": list(shown.selection),
            "order": list(shown.level_order),
            "metric": shown.metric,
            "size": shown.size,
            "theme": shown.theme,
        }
        return static_html(payload, top_ops_of(self._sources.codes, self._sources.members))
