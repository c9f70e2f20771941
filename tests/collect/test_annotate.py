"""Module ranges: names that a reader can rely on, whatever is done to the modules."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import threading

import models
import pytest
import torch
from collect import recorded
from torch import nn
from torch.utils.checkpoint import checkpoint

from chopper_jupyter import profile
from chopper_jupyter.collect.module_names import ModuleNames

ROW = torch.ones(2, 4)


def label(names, module, *running):
    return names.label(module, list(running)).removeprefix("chopper::module::")


def test_paths_are_relative_to_the_outermost_module():
    names, model = ModuleNames(), nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.ReLU())
    assert label(names, model) == "Sequential::::Sequential"
    assert label(names, model[0], model) == "Sequential::0::Sequential"
    assert label(names, model[0][0], model, model[0]) == "Sequential::0.0::Linear"


def test_a_block_called_without_its_parents_keeps_its_name():
    names, model = ModuleNames(), nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.ReLU())
    label(names, model)
    label(names, model[1], model)
    assert label(names, model[0]) == "Sequential::0::Sequential"
    assert label(names, model[0][0], model[0]) == "Sequential::0.0::Linear"


def test_further_roots_of_a_class_are_numbered():
    names, first, second = ModuleNames(), nn.ReLU(), nn.ReLU()
    assert label(names, first) == "ReLU::::ReLU"
    assert label(names, second) == "ReLU#2::::ReLU"
    assert label(names, first) == "ReLU::::ReLU"


def test_a_number_is_free_again_when_its_module_is_gone():
    names = ModuleNames()
    for _ in range(3):  # as in loss = nn.MSELoss()(x, y)
        assert label(names, nn.MSELoss()) == "MSELoss::::MSELoss"
        gc.collect()


def test_nothing_is_kept_of_modules_that_are_gone():
    names, model = ModuleNames(), nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    label(names, model)
    label(names, model[0], model)
    del model
    gc.collect()
    assert [len(entries) for entries in vars(names).values()] == [0] * len(vars(names))


def test_a_shared_module_has_its_first_name():
    names, shared = ModuleNames(), nn.Linear(1, 1)
    model = nn.ModuleDict({"a": shared, "b": shared})
    label(names, model)
    assert label(names, shared, model) == "ModuleDict::a::Linear"


def test_a_module_that_no_running_one_contains_is_a_root():
    names, model, loose = ModuleNames(), nn.Sequential(nn.ReLU()), nn.Linear(1, 1)
    label(names, model)
    assert label(names, loose, model) == "Linear::::Linear"


class Wrapper(nn.Module):
    """As DistributedDataParallel: the model is its only child, called ``module``."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def test_wrappers_do_not_show():
    names = ModuleNames()
    inner = nn.Sequential(nn.Linear(1, 1))
    model = Wrapper(inner)
    assert label(names, model) == "Sequential::::Wrapper"
    assert label(names, inner, model) == "Sequential::::Sequential"
    assert label(names, inner[0], model, inner) == "Sequential::0::Linear"


def record(folder, run, **options):
    with profile(folder, **{"telemetry": False, "warmup": 0, "iterations": 3} | options):
        run()
    return recorded.modules(folder)


def test_every_call_of_a_model_is_there(tmp_path):
    model = models.Llama(layers=2)
    tokens, _ = models.batch()
    called = record(tmp_path, lambda: model(tokens))
    expected = {path for path, _ in model.named_modules()} - {"layers"}
    assert {path for _, path, _ in called} == expected
    assert set(called.values()) == {1}
    assert {root for root, _, _ in called} == {"Llama"}


@pytest.mark.parametrize("kind", ["reentrant", "non-reentrant"])
def test_recomputation_has_the_same_names(tmp_path, kind):
    model = models.Llama(layers=2, recompute=kind)
    tokens, targets = models.batch()
    called = record(tmp_path, lambda: models.cross_entropy(model(tokens), targets).backward())
    assert called["Llama", "layers.1.attn.q_proj", "Linear"] == 2
    assert called["Llama", "lm_head", "Linear"] == 1


def test_errors_and_interrupts_leave_names_right(tmp_path):
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.error = KeyboardInterrupt

        def forward(self, x):
            x = self.inner(x)
            if self.error:
                raise self.error
            return x

    model, good = Fails(), nn.Linear(4, 1)

    def run():
        for error in (KeyboardInterrupt, ValueError, None):
            model.error = error
            with contextlib.suppress(ValueError, KeyboardInterrupt):
                model(ROW)
        good(ROW)

    called = record(tmp_path, run, iterations=9)
    assert called == {
        ("Fails", "", "Fails"): 3,
        ("Fails", "inner", "Linear"): 3,
        ("Linear", "", "Linear"): 1,
    }


def test_calls_that_go_other_ways_still_work(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))

    def run():
        expected = model(ROW)
        weights = dict(model.named_parameters())
        assert torch.equal(torch.func.functional_call(model, weights, (ROW,)), expected)
        assert torch.equal(copy.deepcopy(model)(ROW), expected)
        assert torch.equal(pickle.loads(pickle.dumps(model))(ROW), expected)  # noqa: S301
        assert torch.equal(torch.fx.symbolic_trace(model)(ROW), expected)
        gradients = torch.func.grad(lambda w: torch.func.functional_call(model, w, (ROW,)).sum())
        assert gradients(weights).keys() == weights.keys()
        assert torch.equal(torch.export.export(model, (ROW,)).module()(ROW), expected)

    assert record(tmp_path, run, iterations=99)["Sequential", "0", "Linear"] > 1


@pytest.mark.parametrize("whole", [True, False])
def test_compiled_models_do_not_break_or_recompile(tmp_path, whole):
    torch._dynamo.reset()
    compilations = []

    def counting(graph, inputs):
        compilations.append(graph)
        return torch._dynamo.lookup_backend("eager")(graph, inputs)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x)

    model = nn.Sequential(Block(), nn.Linear(4, 1))
    if whole:
        compiled = torch.compile(model, backend=counting, fullgraph=True)
    else:
        compiled = model
        model[0].compile(backend=counting, fullgraph=True)
    compiled(ROW)  # compiled without us
    with profile(tmp_path, telemetry=False, warmup=0, iterations=2):
        for _ in range(4):  # with us, and after our window
            compiled(ROW).sum().backward()
    compiled(ROW)
    assert len(compilations) == 1
    called = recorded.modules(tmp_path)
    assert called["Sequential", "0", "Block"] == (0 if whole else 2)


def test_threads_do_not_mix_their_names(tmp_path):
    pair = [nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 2), nn.ReLU())]

    def run():
        pair[0](ROW)
        threads = [threading.Thread(target=model, args=(ROW,)) for model in pair for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    called = record(tmp_path, run, iterations=99)
    by_path = {(path, cls): 0 for _, path, cls in called}
    for (_, path, cls), count in called.items():
        by_path[path, cls] += count
    assert by_path == {
        ("", "Sequential"): 9,
        ("0", "Linear"): 9,
        ("1", "ReLU"): 4,
    }


def test_modules_that_are_not_hashable(tmp_path):
    class Odd(nn.Module):
        __hash__ = None

        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x):
            return self.inner(x)

        def parameters(self, **_):
            return self.inner.parameters()

        def named_modules(self, **_):
            yield "", self
            yield "inner", self.inner

    model = Odd()
    assert record(tmp_path, lambda: model(ROW))["Odd", "inner", "Linear"] == 1


def test_checkpoint_of_a_function_over_several_blocks(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = model

        def forward(self, x):
            return checkpoint(lambda y: self.body[2](self.body[1](y)), self.body[0](x),
                              use_reentrant=False)  # fmt: skip

    outer = Outer()
    called = record(tmp_path, lambda: outer(ROW).sum().backward())
    assert called["Outer", "body.2", "Linear"] == 2
