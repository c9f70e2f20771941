"""Gives memory back to the system that was freed, but that C libraries keep for later use.

Reading a large file fills many small arrays and frees them again; without this, a notebook that
read a trace would hold twice what the trace takes for as long as it runs.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa

WORTH_IT = 4 << 20
"""Bytes of (compressed) files from which giving back is worth its milliseconds."""


def give_back() -> None:
    """Give back what nothing uses any more, of Arrow and, with glibc, of everything else."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, TypeError, AttributeError):  # no glibc: nothing to be done
        ctypes.CDLL(None).malloc_trim(0)
