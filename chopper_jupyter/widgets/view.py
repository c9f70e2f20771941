"""The live view: an anywidget that hands the payload over and answers the browser's questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from chopper_jupyter.widgets import front_end
from chopper_jupyter.widgets.protocol import reply_to

if TYPE_CHECKING:
    from chopper_jupyter.widgets.sources import Sources


class ExplorerWidget(anywidget.AnyWidget):  # type: ignore[misc]  # it has no annotations
    """The explorer in a notebook front end; made by ``Explorer.widget``.

    Parameters
    ----------
    sources : Sources
        What the browser's questions are answered from.
    **state
        Initial values of the synced traits.

    Raises
    ------
    FrontEndMissingError
        If the front end was not built.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    uid = traitlets.Unicode(help="ties the static page and the widget together").tag(sync=True)
    payload = traitlets.Unicode(help="packed description of the trace").tag(sync=True)
    selection = traitlets.List(help="pairs of level and label; null is None").tag(sync=True)
    level_order = traitlets.List(traitlets.Unicode(), help="levels, outermost first").tag(sync=True)
    metric = traitlets.Unicode("time", help="metric that sizes and sorts").tag(sync=True)
    size = traitlets.Unicode("time_ns", help="measure that sizes the icicle").tag(sync=True)
    filters = traitlets.Dict(help="what the explorer is restricted to").tag(sync=True)
    theme = traitlets.Enum(["", "light", "dark"], default_value="").tag(sync=True)

    def __init__(self, sources: Sources, **state: Any) -> None:
        self._sources = sources
        # Its contents have no width of their own, so a row box would squeeze it to nothing.
        state = {"layout": {"width": "100%"}} | state
        super().__init__(_esm=front_end.read(front_end.WIDGET_FILE), **state)
        self.on_msg(self._reply)

    def show(self, sources: Sources, payload: str) -> None:
        """Show another part of the trace: answers come from it from now on."""
        self._sources = sources
        self.payload = payload

    def _reply(self, _widget: Any, message: Any, _buffers: Any) -> None:
        # What answers come from never changes, so replies need no lock, even among threads.
        reply = reply_to(message, self._sources)
        if reply is not None:
            self.send(reply)
