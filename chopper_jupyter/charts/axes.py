"""Plain figures in the look of the explorer, ready to be drawn into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bokeh.models import FactorRange, HoverTool
from bokeh.plotting import figure

from chopper_jupyter.charts.colours import theme

if TYPE_CHECKING:
    from collections.abc import Sequence

FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
WIDTH, HEIGHT = 760, 320


def plain_figure(title: str, *, x: str = "", y: str = "", **settings: Any) -> figure:
    """Return an empty figure.

    Parameters
    ----------
    title : str
        What it shows.
    x, y : str
        Labels of the axes, with units.
    **settings
        Further settings of ``bokeh.plotting.figure``; ``factors`` makes a categorical x axis,
        ``y_factors`` a categorical y axis.
    """
    now = theme()
    factors, y_factors = settings.pop("factors", None), settings.pop("y_factors", None)
    if factors is not None:
        settings["x_range"] = FactorRange(factors=list(factors), range_padding=0.02)
    if y_factors is not None:
        settings["y_range"] = FactorRange(factors=list(y_factors)[::-1])
    made = figure(
        **{
            "title": title, "x_axis_label": x, "y_axis_label": y, "height": HEIGHT,
            "width": WIDTH, "sizing_mode": "scale_width", "max_width": 1000,
            "tools": "pan,wheel_zoom,box_zoom,reset,save", "toolbar_location": "right",
            "background_fill_color": now.page, "border_fill_color": now.page,
            "outline_line_color": None, **settings,
        }
    )  # fmt: skip
    made.toolbar.logo = None
    made.toolbar.autohide = True
    _dress(made)
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
    for name in ("group_text_color", "subgroup_text_color"):
        for axis in made.xaxis:
            if hasattr(axis, name):
                setattr(axis, name, now.ink)
                setattr(axis, name.replace("color", "font"), FONT)
                setattr(axis, name.replace("color", "font_size"), "11px")
    for grid in made.grid:
        grid.grid_line_color = now.line
    made.xgrid.grid_line_color = None


def tilt(made: figure, factors: Sequence[Any]) -> None:
    """Turn the labels of a categorical axis if they would not fit beside each other."""
    names = [f[-1] if isinstance(f, tuple) else f for f in factors]
    groups = list(dict.fromkeys(f[0] for f in factors if isinstance(f, tuple)))
    if _too_long(names):
        made.xaxis.major_label_orientation = 0.9
    if _too_long(groups):
        made.xaxis.group_label_orientation = 0.9


def _too_long(names: Sequence[str]) -> bool:
    room = (WIDTH - 80) / max(1, len(names))
    return max((len(str(name)) for name in names), default=0) * 6.5 > room


def clipped(name: str, longest: int = 26) -> str:
    """Shorten a name for a label, in its middle.

    Examples
    --------
    >>> clipped("aten::scaled_dot_product_attention")
    'aten::scaled…uct_attention'
    """
    half = longest // 2
    return name if len(name) <= longest else f"{name[: half - 1]}…{name[-half:]}"


def legend_below(made: figure) -> None:
    """Put the legend under the figure, in one row."""
    now = theme()
    if not made.legend:
        return
    legend = made.legend[0]
    made.add_layout(legend, "below")
    legend.orientation, legend.border_line_color = "horizontal", None
    legend.background_fill_alpha, legend.click_policy = 0, "hide"
    legend.label_text_color, legend.label_text_font = now.faint, FONT
    legend.label_text_font_size, legend.spacing, legend.padding = "11px", 10, 0


def hover(made: figure, pairs: Sequence[tuple[str, str]], renderers: Any = None) -> None:
    """Show values under the pointer; texts of a list of pairs are never markup."""
    tool = HoverTool(tooltips=list(pairs))
    if renderers is not None:
        tool.renderers = renderers
    made.add_tools(tool)
