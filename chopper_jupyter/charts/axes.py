"""Plain figures in the look of the explorer, ready to be drawn into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bokeh.models import FactorRange, HoverTool
from bokeh.plotting import figure

from chopper_jupyter.charts.colours import theme

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
WIDTH, HEIGHT, WIDEST = 760, 300, 1000
ROW, AROUND = 17, 96
"""Height of a row of a figure of rows, and of what is around the rows, in pixels."""

NARROW = 470
"""Pixels that a legend can count on: it wraps there rather than being cut."""

LEFT = 66
"""Pixels left of the axes of figures that stand above each other: they begin at one place."""

TICKS = 5


def plain_figure(title: str, *, x: str = "", y: str = "", **settings: Any) -> figure:
    """Return an empty figure as wide as there is room, up to ``WIDEST`` pixels.

    Parameters
    ----------
    title : str
        What it shows.
    x, y : str
        Labels of the axes, with units.
    **settings
        Further settings of ``bokeh.plotting.figure``.
    """
    now = theme()
    made = figure(
        **{
            "title": text(title, 96), "x_axis_label": x, "y_axis_label": y, "height": HEIGHT,
            "width": WIDTH, "sizing_mode": "stretch_width", "max_width": WIDEST, "min_width": 320,
            "tools": "pan,wheel_zoom,box_zoom,reset,save", "toolbar_location": "right",
            "background_fill_color": now.page, "border_fill_color": now.page,
            "outline_line_color": None, **settings,
        }
    )  # fmt: skip
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.toolbar.active_scroll = None  # a page that scrolls must not zoom
    _dress(made)
    return made


def figure_of_rows(
    title: str, factors: Sequence[str | tuple[str, ...]], *, label: str, height: int = 0
) -> figure:
    """Return an empty figure with a horizontal bar to be drawn for each factor, the first on top.

    Rows rather than columns: names of ops and runs are long, and stay readable beside each other.

    Parameters
    ----------
    title : str
        What it shows.
    factors : sequence
        Name of each row, or (group, name).
    label : str
        Label of the x axis, with its unit.
    height : int, optional
        Pixels of a row.
    """
    groups = len({f[0] for f in factors if isinstance(f, tuple)})
    rows = len(factors) + 0.6 * groups
    made = plain_figure(
        title, x=label, height=round(AROUND + rows * (height or ROW)),
        y_range=FactorRange(
            factors=list(factors)[::-1], group_padding=0.6, factor_padding=0.0, range_padding=0.02
        ),
    )  # fmt: skip
    made.ygrid.grid_line_color = None
    made.xgrid.grid_line_color = theme().line
    made.yaxis.major_tick_line_color = None
    made.yaxis.group_label_orientation = "horizontal"
    made.yaxis.separator_line_color = None
    return made


def _dress(made: figure) -> None:
    now = theme()
    made.title.text_color, made.title.text_font, made.title.text_font_size = now.ink, FONT, "13px"
    for axis in made.axis:
        axis.axis_label_text_color = axis.major_label_text_color = now.faint
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.axis_label_text_font_style = "normal"
        axis.axis_line_color = axis.major_tick_line_color = now.line
        axis.minor_tick_line_color = None
        axis.major_label_text_font_size = axis.axis_label_text_font_size = "11px"
        if hasattr(axis, "group_text_color"):
            axis.group_text_color, axis.group_text_font = now.ink, FONT
            axis.group_text_font_size, axis.group_text_font_style = "11px", "normal"
        if hasattr(axis.ticker, "desired_num_ticks"):
            axis.ticker.desired_num_ticks = TICKS
    for grid in made.grid:
        grid.grid_line_color = now.line
    made.xgrid.grid_line_color = None


def text(name: object, longest: int = 28) -> str:
    """Return a name as a label shows it: not too long, and never taken for a formula.

    Examples
    --------
    >>> text("aten::scaled_dot_product_attention")
    'aten::scaled…uct_attention'
    >>> text("$$x$$") == "$$x$$", text("mm")
    (False, 'mm')
    """
    half = longest // 2
    plain = str(name)
    for sign in ("$$", "\\[", "\\]", "\\(", "\\)"):
        plain = plain.replace(sign, f"{sign[0]}\u200b{sign[1]}")
    return plain if len(plain) <= longest else f"{plain[: half - 2]}…{plain[-half + 1 :]}"


def legend_below(made: figure) -> None:
    """Put the legend under the figure, in as many columns as fit a narrow page."""
    now = theme()
    if not made.legend:
        return
    legend = made.legend[0]
    made.add_layout(legend, "below")
    legend.location, legend.border_line_color = "left", None
    legend.orientation = "horizontal"
    legend.ncols = _columns([item.label.value for item in legend.items])
    legend.background_fill_alpha, legend.click_policy = 0, "hide"
    legend.label_text_color, legend.label_text_font = now.faint, FONT
    legend.label_text_font_size, legend.spacing, legend.padding = "11px", 10, 0
    made.height += 18 * (-(-len(legend.items) // legend.ncols) - 1)


def one_legend(drawn: Sequence[figure]) -> None:
    """Keep the legend of the last of several figures of the same runs, unless it is one run."""
    for made in drawn:
        for legend in made.legend:
            legend.visible = False
    last = drawn[-1]
    if last.legend and len(last.legend[0].items) > 1:
        last.legend[0].visible = True
        legend_below(last)
        last.height += 26


def _columns(labels: Iterable[object]) -> int:
    sizes = [38 + 6.2 * len(str(label)) for label in labels]
    for count in range(len(sizes), 1, -1):
        widths = [max(sizes[i::count]) for i in range(count)]
        if sum(widths) <= NARROW:
            return count
    return 1


def hover(made: figure, pairs: Sequence[tuple[str, str]], renderers: Any = None) -> None:
    """Show values under the pointer; texts of a list of pairs are never markup."""
    tool = HoverTool(tooltips=list(pairs))
    if renderers is not None:
        tool.renderers = renderers
    made.add_tools(tool)
