"""A small Llama trained by several ranks, with its truth; knows nothing of the recording.

Run as a script by ``torchrun``, or started by ``torch.multiprocessing``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import models
import torch
from collect import truth
from torch import distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

ITERATIONS = 3


def main(rank, kinds, folder, store=None, killed=None):
    """Train as one rank of two, each kind in turn; write the losses into the folder.

    Rank 1 does not survive the iteration ``killed``.
    """
    address = {"init_method": f"file://{store}", "rank": rank, "world_size": 2} if store else {}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", **address)
    for kind in kinds.split():
        losses = train(kind, killed)
        if dist.get_rank() == 0:
            text = json.dumps([loss.hex() for loss in losses])
            Path(folder, f"{kind}.losses").write_text(text, encoding="utf-8")
    dist.destroy_process_group()
    # Gloo's threads may need the interpreter to let go of their last work, which torch's reducer
    # waits for without letting go of it.
    time.sleep(0.5)


def train(kind, killed=None):
    """Return the losses of a few iterations."""
    torch.manual_seed(0)
    model = models.Llama(layers=2, length=8)
    teller = truth.Teller(model, sharded=True)
    tokens, targets = models.batch(rows=1, length=8)
    losses = []
    with teller.installed():
        wrapped = WRAP[kind](model)
        adam = torch.optim.AdamW(wrapped.parameters(), lr=1e-3, foreach=False)
        for number in range(ITERATIONS):
            teller.iteration = number
            logits = wrapped(tokens)
            if number == killed and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            loss = teller.loss(logits, targets)
            with teller.range("optimizer", None, "optimizer_step"):
                adam.step()
            with teller.range("optimizer", None, "zero_grad"):
                adam.zero_grad()
            teller.forget()
            losses.append(loss.item())
    return losses


def _fully_shard(model):
    for block in model.layers:
        fully_shard(block)
    return fully_shard(model)


def _fully_sharded(model):
    policy = ModuleWrapPolicy({models.Block})
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=torch.device("cpu"))


WRAP = {"ddp": DistributedDataParallel, "fsdp2": _fully_shard, "fsdp1": _fully_sharded}

if __name__ == "__main__":
    main(None, *sys.argv[1:])
