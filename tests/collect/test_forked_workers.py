"""Processes that a training loop forks while it is recorded."""

from __future__ import annotations

import subprocess
import sys

from collect import recorded


def test_forked_loader_workers_do_not_touch_the_recording(tmp_path):
    """In a process of its own: forking one that has run many tests is slow and fragile."""
    script = """
import sys, torch
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from chopper_jupyter import profile
class Rows(torch.utils.data.Dataset):
    scale = nn.Linear(4, 4)
    def __len__(self): return 16
    def __getitem__(self, i): return self.scale(torch.ones(4)).detach()
model = nn.Linear(4, 1)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(sys.argv[1], warmup=0, iterations=3) as recording:
    for row in torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2):
        model(row).sum().backward()
        sgd.step()
assert recording.recorded_iterations == 3, recording.recorded_iterations
"""
    subprocess.run([sys.executable, "-c", script, tmp_path], check=True, timeout=300)
    assert recorded.marks(tmp_path) == [0, 1, 2]
