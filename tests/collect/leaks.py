"""A plain loop, and everything in a process that a recording of it may not leave changed."""

from __future__ import annotations

import os
import re
import signal
import sys

import torch
from torch import nn
from torch.autograd import profiler as autograd_profiler
from torch.optim import optimizer as optimizer_module

from chopper_jupyter.collect.segment import profiler_running

ROW = torch.ones(2, 4)


def train(turns=4, model=None, then=lambda _: None):
    model = model or nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for turn in range(turns):
        model(ROW).sum().backward()
        optimizer.step()
        then(turn)


OF_OTHERS = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR")
HOOKED = (optimizer_module, nn.modules.module)
LAUNCHERS = (torch.multiprocessing, sys.modules["torch.multiprocessing.spawn"])


def replaceable():
    """Everything a recording replaces for a while."""
    return {
        "call": vars(nn.Module)["__call__"],
        "prepare": vars(autograd_profiler.profile)["_prepare_trace"],
        "exit": vars(autograd_profiler.profile)["__exit__"],
        "engine": torch.autograd._engine_run_backward,
        "scaler": vars(torch.amp.GradScaler)["step"],
        "hooks": [
            dict(vars(owner)[name])
            for owner in HOOKED
            for name in sorted(vars(owner))
            if re.fullmatch(r"_global.*_hooks\w*", name)
        ],
        "started": [vars(owner)["start_processes"] for owner in LAUNCHERS],
        "sigterm": signal.getsignal(signal.SIGTERM),
        "environment": {k: v for k, v in os.environ.items() if k not in OF_OTHERS},
        "path": (list(sys.path), list(sys.meta_path)),
        "running": profiler_running(),
        "sigint": signal.getsignal(signal.SIGINT),
        "kineto": os.environ.get("KINETO_LOG_LEVEL"),
    }
