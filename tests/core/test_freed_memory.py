import platform
import subprocess
import sys

import pytest

from chopper_jupyter.core import freed_memory, read
from chopper_jupyter.core.freed_memory import give_back

SCRIPT = """
import numpy as np, psutil
from chopper_jupyter.core.freed_memory import give_back

def resident():
    return psutil.Process().memory_info().rss

before = resident()
blocks = [np.ones(64 << 10, np.uint8) for _ in range(1000)]
last = blocks[-1]  # keeps the others from being at the end, where freeing is enough
del blocks
held = resident() - before
give_back()
print(held, resident() - before, last.all())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries keep nothing")
def test_memory_between_what_is_still_used_goes_back_to_the_system():
    # In a process of its own: there is no free space from before that would be used again.
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    held, left, _ = done.stdout.split()
    assert int(held) > 40e6
    assert int(left) < 20e6


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
