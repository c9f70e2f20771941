"""Training with the truth written into the recording, and taken out again before it is read.

Each piece of work runs inside a range ``truth::<iteration>|<phase>|<layer>|<op>|...``. In the
forward the test opens it around leaf modules and direct operations, from the table of what is
expected. In the backward, hooks before and after every autograd node open it, by the identity of
the node: sequence numbers and flows, which the reader goes by, play no part.
"""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import models
import torch
from json_walk import ns
from torch.autograd.profiler import record_function

PREFIX = "truth::"
BACKWARD = "backward"


class Place(NamedTuple):
    iteration: int | None
    phase: str | None
    layer: str | None
    op: str | None
    micro_batch: int | None = None
    recompute: bool = False


class Row(NamedTuple):
    """A truth range: a place, or None for the backward as a whole."""

    start: int
    end: int
    place: Place | None


class Teller:
    """Opens truth ranges while a model is trained; the loop sets ``iteration`` and the like.

    ``expected`` says layer and op of a module's path. Modules ``whole`` are judged as one.
    ``sharded`` parameters are made anew: what accumulates is claimed where it is met.
    """

    def __init__(self, model, *, expected=None, whole=(), sharded=False):
        self.model = model
        self.expected = expected or of_llama
        self.whole, self.sharded = set(whole), sharded
        self.kept = []  # Python objects of autograd nodes, whose identity is the truth
        self.known = set()
        self.iteration = self.micro_batch = None
        self._layer = None

    @contextmanager
    def installed(self):
        accumulation = nullcontext() if self.sharded else self._accumulation()
        with models.listening(self._direct), self._leaves(), accumulation:
            yield

    def forget(self):
        self.kept.clear()
        self.known.clear()

    def tell(self, place, call, inputs):
        """Run a piece of forward work, or its recomputation, and claim the nodes it makes."""
        again = torch._C._current_graph_task_id() != -1
        if again:
            place = ("backward", *place[1:])
        with self.range(*place, recompute=again):
            out = call()
        if torch.is_grad_enabled():
            self._claim(out if isinstance(out, tuple | list) else (out,), inputs, place)
        return out

    def loss(self, logits, targets, scale=lambda loss: loss):
        """Compute the loss, run its backward, and return it."""
        place = ("forward", None, "loss")
        loss = self.tell(place, lambda: models.cross_entropy(logits, targets), (logits,))
        scaled = self.tell(place, lambda: scale(loss), (loss,))
        with record_function(PREFIX + BACKWARD):
            scaled.backward()
        return loss

    def _direct(self, name, call, inputs):
        if torch.compiler.is_compiling():
            return call()
        return self.tell(("forward", self._layer, name), call, inputs)

    @contextmanager
    def _leaves(self):
        """Wrap the forward of leaf modules; the others say which layer direct work is in."""
        wrapped = []
        for path, module in list(self.model.named_modules()):
            if any(path != part and path.startswith(part) for part in self.whole):
                continue
            forward = module.forward
            if path in self.whole or (path and not list(module.children())):
                module.forward = self._leaf(path, module, forward)
            elif path:
                module.forward = self._block(path, forward)
            else:
                continue
            wrapped.append((module, forward))
        try:
            yield
        finally:
            for module, forward in wrapped:
                module.forward = forward

    def _leaf(self, path, module, forward):
        place = ("forward", *self.expected(path))

        def run(*inputs):
            # Where parameters are views of something sharded, the view is the sharding's work.
            views = [p for p in vars(module).values() if isinstance(p, torch.Tensor)]
            return self.tell(place, lambda: forward(*inputs), (*inputs, *views))

        return run

    def _block(self, path, forward):
        def run(*inputs):
            before, self._layer = self._layer, self.expected(path)[0]
            try:
                return forward(*inputs)
            finally:
                self._layer = before

        return run

    @contextmanager
    def _accumulation(self):
        """Claim the AccumulateGrad node of every parameter for its module."""
        handles = []
        for path, parameter in self.model.named_parameters():
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
            handles += self._hook(node, self.expected(path.rpartition(".")[0]))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _claim(self, outputs, inputs, place):
        before = [t.grad_fn for t in inputs if isinstance(t, torch.Tensor) and t.grad_fn]
        self.kept += before
        stop = {id(node) for node in before}
        todo = [t.grad_fn for t in outputs if isinstance(t, torch.Tensor) and t.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or id(node) in stop or id(node) in self.known:
                continue
            self.known.add(id(node))
            self.kept.append(node)
            if "AccumulateGrad" in node.name() and not self.sharded:
                continue
            self._hook(node, place[1:])
            todo += [following for following, _ in node.next_functions]

    def _hook(self, node, place):
        opened = []

        def before(_gradients):
            opened.append(self.range("backward", *place))
            opened[-1].__enter__()

        def after(*_gradients):
            opened.pop().__exit__(None, None, None)

        return [node.register_prehook(before), node.register_hook(after)]

    def range(self, phase, layer, op, *, recompute=False):
        """Return a range that says where the work inside it belongs."""
        micro = None if phase == "optimizer" else self.micro_batch
        place = (self.iteration, phase, layer, op, micro, recompute or None)
        told = ["" if part is None else str(part) for part in place]  # no quotes: Kineto keeps them
        return record_function(PREFIX + "|".join(told))


def of_llama(path):
    """Return layer and op of a module of the small Llama."""
    parts = path.split(".")
    if parts[0] == "layers":
        return ".".join(parts[:2]), ".".join(parts[2:]) or None
    return path or None, path or None


COMMUNICATION = ("FSDP::", "fsdp::", "FullyShardedDataParallel._", "c10d::", "torch.distributed.")
SHARDING = Place(None, None, None, "communication")
"""Where work belongs that sharding or its collectives do inside somebody's forward or backward."""


def take_out(path):
    """Take the truth out of a rank file; what is left knows nothing of it.

    Returns the rows, those of sharding and its collectives among them.
    """
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
    rows, kept = [], []
    for event in document["traceEvents"]:
        name = str(event.get("name", ""))
        told = name.startswith(PREFIX)
        if event["ph"] == "X" and (told or name.startswith(COMMUNICATION)):
            start = document["baseTimeNanoseconds"] + ns(event["ts"])
            place = _place(name.removeprefix(PREFIX)) if told else SHARDING
            rows.append(Row(start, start + ns(event["dur"]), place))
        if not told:
            kept.append(event)
    document["traceEvents"] = kept
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return rows


def _place(name):
    if name == BACKWARD:
        return None
    iteration, phase, layer, op, micro_batch, recompute = (part or None for part in name.split("|"))
    numbers = [None if n is None else int(n) for n in (iteration, micro_batch)]
    return Place(numbers[0], phase, layer, op, numbers[1], recompute is not None)
