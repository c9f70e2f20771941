"""A small Llama trained by several ranks, with its truth; knows nothing of the recording.

Run as a script by ``torchrun``, or started by ``torch.multiprocessing``.
"""

from __future__ import annotations

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
from torch.autograd.profiler import record_function
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

ITERATIONS = 3


def main(rank, kind, store, killed=None):
    """Train as one rank of two; ``killed`` names an iteration that rank 1 does not survive."""
    address = {"init_method": f"file://{store}", "rank": rank, "world_size": 2} if store else {}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", **address)
    torch.manual_seed(0)
    model = models.Llama(layers=2, length=8)
    teller = truth.Teller(model, sharded=True)
    tokens, targets = models.batch(rows=1, length=8)
    with teller.installed():
        wrapped = WRAP[kind](model)
        adam = torch.optim.AdamW(wrapped.parameters(), lr=1e-3, foreach=False)
        losses = []
        for number in range(ITERATIONS):
            teller.iteration = number
            logits = wrapped(tokens)
            if number == killed and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            loss = teller.tell(
                ("forward", None, "loss"),
                lambda logits=logits: models.cross_entropy(logits, targets),
                (logits,),
            )
            with record_function(truth.PREFIX + truth.BACKWARD):
                loss.backward()
            with teller.range("optimizer", None, "optimizer_step"):
                adam.step()
            with teller.range("optimizer", None, "zero_grad"):
                adam.zero_grad()
            teller.forget()
            losses.append(loss.item())
    if dist.get_rank() == 0:
        print("losses", *(loss.hex() for loss in losses), flush=True)  # noqa: T201  an output
    dist.destroy_process_group()
    # Gloo's threads may need the interpreter to let go of their last work, which torch's reducer
    # waits for without letting go of it.
    time.sleep(0.5)


def _fully_shard(model):
    for block in model.layers:
        fully_shard(block)
    return fully_shard(model)


def _fully_sharded(model):
    policy = ModuleWrapPolicy({models.Block})
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=torch.device("cpu"))


WRAP = {"ddp": DistributedDataParallel, "fsdp2": _fully_shard, "fsdp1": _fully_sharded}

if __name__ == "__main__":
    main(None, sys.argv[1], None)
