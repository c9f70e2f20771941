"""Training loops of all kinds, recorded with their truth."""

from __future__ import annotations

from contextlib import nullcontext

import models
import torch
from collect import truth
from collect.odd_models import Zoo, of_zoo, zoo_batch

from chopper_jupyter import profile
from chopper_jupyter.core.run_folder import rank_file

SMALL = {"layers": 2, "iterations": 2}
LAYERS = ("layers.0", "layers.1")
REGION = "Torch-Compiled Region: 0/0"
WORLDS = {
    "plain": {},
    "zero_grad first": {"zero_first": True, "keep_gradients": True, **SMALL},
    "accumulation": {"micro_batches": 4, "keep_gradients": True, **SMALL},
    "checkpoint": {"recompute": "non-reentrant", **SMALL},
    "reentrant checkpoint": {"recompute": "reentrant", **SMALL},
    "odd modules": {"zoo": True, "iterations": 3},
    "foreach": {"adam": {"foreach": True}, "clip": {"foreach": True}, **SMALL},
    "fused": {"adam": {"fused": True}, **SMALL},
    "scaled": {"scaled": True, **SMALL},
    "evaluation": {"evaluate": True, **SMALL},
    "compiled layers": {"compiled": LAYERS, **SMALL},
    "compiled before": {"compiled": ("",), "warm": True, **SMALL},
}


class Loop:
    """One training; ``compilations`` counts the graphs that were compiled for it."""

    def __init__(
        self, *, iterations=3, layers=4, recompute=None, zoo=False, compiled=(), warm=False,
        adam=None, **how,
    ):  # fmt: skip
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.compilations = 0
        self.iterations, self.how = iterations, how
        model = Zoo() if zoo else models.Llama(layers=layers, length=8, recompute=recompute)
        self.inputs, self.targets = zoo_batch() if zoo else models.batch(rows=1, length=8)
        self.model = self._compiled(model, compiled)
        self.teller = truth.Teller(
            self.model,
            expected=of_zoo if zoo else self._expected if compiled else None,
            whole=compiled,
            sharded=bool(compiled),
        )
        options = {"foreach": False} | (adam or {})
        self.adam = torch.optim.AdamW(self.model.parameters(), lr=1e-3, **options)
        self.scaler = torch.amp.GradScaler("cpu", enabled=how.get("scaled", False), init_scale=8.0)
        if warm:
            with self.teller.installed():
                self.model(self.inputs)

    def run(self, recording=None):
        """Train; return the losses."""
        losses = []
        with self.teller.installed(), recording or nullcontext():
            for number in range(self.iterations):
                self.teller.iteration = number
                losses.append(self._iteration())
                self.teller.forget()
        return [loss.item() for loss in losses]

    def _iteration(self):
        how, teller, model = self.how, self.teller, self.model
        if how.get("zero_first"):
            self._zero_grad()
        for teller.micro_batch in range(how.get("micro_batches", 1)):
            loss = teller.loss(model(self.inputs), self.targets, self.scaler.scale)
        if how.get("scaled"):
            with teller.range("optimizer", None, "unscale"):
                self.scaler.unscale_(self.adam)
        with teller.range("optimizer", None, "clip"):
            options = {"foreach": False} | how.get("clip", {})
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, **options)
        with teller.range("optimizer", None, "optimizer_step"):
            self.scaler.step(self.adam)
        with teller.range("optimizer", None, "unscale"):
            self.scaler.update()
        if not how.get("zero_first"):
            self._zero_grad()
        if how.get("evaluate"):
            teller.iteration = teller.micro_batch = None
            with torch.no_grad():
                model(self.inputs)
        return loss

    def _zero_grad(self):
        with self.teller.range("optimizer", None, "zero_grad"):
            self.adam.zero_grad(set_to_none=not self.how.get("keep_gradients"))

    def _compiled(self, model, paths):
        """Compile parts of a model, or all of it, without a graph break."""

        def backend(graph, inputs):
            self.compilations += 1
            return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

        for path in paths:
            made = torch.compile(model.get_submodule(path), backend=backend, fullgraph=True)
            if not path:
                return made
            model.set_submodule(path, made)
        return model

    def _expected(self, path):
        """Of what is compiled no more is known than its layer and region."""
        whole = self.teller.whole
        layer, op = (None, None) if "" in whole else truth.of_llama(path)
        return layer, REGION if layer in whole or "" in whole else op


def record(folder, world):
    """Record a world; return its truth, taken out of the recording, and the loop."""
    loop = Loop(**WORLDS[world])
    losses = loop.run(profile(folder, warmup=1, iterations=loop.iterations - 1, telemetry=False))
    return truth.take_out(rank_file(folder, 0)), losses, loop
