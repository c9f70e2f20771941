"""Groups and their sums as a pandas table that says its units and what it covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.analysis.grouping import Groups, Key
    from chopper_jupyter.core.analysis.included import Included

_TYPES = dict.fromkeys(("gpu", "iteration", "stream", "micro_batch"), pa.int64())
_TYPES["recompute"] = pa.bool_()


def key_columns(keys: Sequence[Key], groups: Groups) -> dict[str, pa.Array]:
    """Return the values of the keys of each group; null stays null."""
    columns = {}
    for key, codes in zip(keys, groups.codes, strict=True):
        kind = _TYPES.get(key.name, pa.string())
        values = pa.array([*key.values, None], kind)  # noqa: PD011  a Key, not pandas
        columns[key.name] = values.take(pa.array(np.where(codes < 0, len(key.values), codes)))
    return columns


def to_frame(table: pa.Table, which: Included, units: dict[str, str]) -> pd.DataFrame:
    """Return Arrow-backed pandas data whose ``attrs`` say its units and what it covers."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    frame.attrs = {
        "units": units,
        "included": which.phrase(),
        "iterations": list(which.iterations),
        "gpus": list(which.gpus),
    }
    return frame
