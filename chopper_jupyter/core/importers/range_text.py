"""What the text of an NVTX or roctx range tells: operator or user range, number, shapes.

PyTorch's ``emit_nvtx`` writes ``aten::mm, seq = 5, op_id = 12, sizes = [[2, 3], [3, 4]]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.importers.event_tables import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.importers.event_tables import Ints, Mask

_PARTS = (
    r"(?s)^(?P<name>.*?)(?:, seq = (?P<seq>\d{1,18}))?(?:, op_id = \d+)?"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = .*)?$"
)
_OPERATOR = (
    r"^(?:[A-Za-z_][\w.]*::|(?:nccl|rccl|gloo|ucc|mpi):|record_param_comms|[A-Z_]\w*Backward\d*$)"
)

LIBRARIES = ("nccl", "rccl", "mpi", "cccl", "cub", "thrust", "cublas", "cudnn", "cusolver",
             "cusparse", "cufft", "cutensor", "cutlass", "nvshmem", "ucx", "pytorch")  # fmt: skip
"""Starts of the NVTX domains in which libraries name their own calls, in lower case."""


def range_columns(
    index: Ints, texts: Sequence[str], library: Mask | None = None
) -> dict[str, object]:
    """Return the columns ``name``, ``kind``, ``seq`` and ``input_shapes`` of ranges.

    Parameters
    ----------
    index : int64 array
        Text of each range as a number into ``texts``.
    texts : sequence of str
        Distinct texts.
    library : bool array, optional
        Ranges that a library made for its own calls: they are operators, whatever their name.

    Examples
    --------
    >>> made = range_columns(np.array([0, 1]), ["aten::mm, seq = 5, op_id = 12", "step 3"])
    >>> [made[c].to_pylist() for c in ("name", "kind", "seq")]
    [['aten::mm', 'step 3'], ['op', 'annotation'], [5, None]]
    """
    parts = pc.extract_regex(pa.array(texts, pa.string()), _PARTS)
    names, seq, sizes = (pc.struct_field(parts, one) for one in ("name", "seq", "sizes"))
    number = pc.if_else(pc.equal(seq, ""), None, seq).cast(pa.int64())
    shapes = pc.if_else(pc.equal(sizes, ""), None, pc.replace_substring(sizes, " ", ""))
    is_op = pc.or_(pc.match_substring_regex(names, _OPERATOR), pc.is_valid(number))
    op = np.asarray(is_op.to_numpy(zero_copy_only=False), bool)[index]
    at = pa.array(index)
    return {
        "name": names_of(index, names.to_pylist()),
        "kind": names_of(np.where(op if library is None else op | library, 0, 1), KINDS),
        "seq": number.take(at),
        "input_shapes": shapes.take(at),
    }


KINDS = ("op", "annotation")


def is_library(domain: str) -> bool:
    """Say whether a domain is that of a library that names its own calls.

    Examples
    --------
    >>> is_library("NCCL"), is_library("my training")
    (True, False)
    """
    return domain.lower().startswith(LIBRARIES)
