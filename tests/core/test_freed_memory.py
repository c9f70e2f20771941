import platform

import numpy as np
import psutil
import pytest

from chopper_jupyter.core import freed_memory, read
from chopper_jupyter.core.freed_memory import give_back

BLOCK = 64 << 10
COUNT = 1000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries keep nothing")
def test_memory_between_what_is_still_used_goes_back_to_the_system():
    before = psutil.Process().memory_info().rss
    blocks = [np.ones(BLOCK, np.uint8) for _ in range(COUNT)]
    last = blocks[-1]  # keeps the others from being at the end, where freeing is enough
    del blocks
    held = psutil.Process().memory_info().rss - before
    give_back()
    left = psutil.Process().memory_info().rss - before
    assert last.all()
    assert held > BLOCK * COUNT / 2
    assert left < BLOCK * COUNT / 4


def test_reading_gives_back_what_only_reading_needed(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(read, "give_back", lambda: calls.append(1))
    how = read._How(cache=False, workers=1, progress=False)
    path = tmp_path / "rank_0.json"
    path.write_text("not json")
    how.load([[path]])
    assert not calls
    monkeypatch.setattr(read, "WORTH_IT", 1)
    how.load([[path]])
    assert calls


def test_where_there_is_no_such_library_nothing_happens(monkeypatch):
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda _: object())
    give_back()
