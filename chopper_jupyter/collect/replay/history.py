"""Remembers the cells that ran in a notebook, and whether they succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chopper_jupyter.collect.replay.cells import Cell

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell


class History:
    """Cells of one shell; those that ran before ``listen`` are known without their outcome."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cells: dict[int, Cell] = {}

    def listen(self) -> None:
        """Begin to listen."""
        self._shell.events.register("post_run_cell", self._ran)

    def stop(self) -> None:
        """Stop listening."""
        self._shell.events.unregister("post_run_cell", self._ran)

    def cells(self) -> list[Cell]:
        """Return all cells, in the order in which they ran."""
        raw: list[str] = self._shell.history_manager.input_hist_raw
        before = {n: Cell(n, source) for n, source in enumerate(raw) if source.strip()}
        return [cell for _, cell in sorted((before | self._cells).items())]

    def _ran(self, result: ExecutionResult | None) -> None:
        info: Any = getattr(result, "info", None)
        if result is None or info is None or not info.store_history:
            return
        number = result.execution_count or self._shell.execution_count
        identity = getattr(info, "cell_id", None)
        self._cells[number] = Cell(number, info.raw_cell, identity, bool(result.success))
