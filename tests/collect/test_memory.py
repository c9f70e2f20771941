"""``memory=True``: what a loop allocates, against the sizes of the tensors that it makes."""

from __future__ import annotations

import itertools
import json
import threading

import pytest
import torch
from collect import recorded
from torch import nn

from chopper_jupyter import profile, read_trace, summarize
from chopper_jupyter.collect.segment import profiler_running
from chopper_jupyter.core.errors import CollectError

KEPT, PASSING = 3 << 10, 5 << 10
"""Floats that each layer keeps, and that it uses for a moment."""


class Hoarder(nn.Module):
    """Keeps one tensor for the model and drops another one before it returns."""

    def __init__(self, shelf):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.shelf = shelf

    def forward(self, x):
        self.shelf.append(torch.empty(KEPT))
        torch.empty(PASSING)
        return x * self.weight


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.shelf = []
        self.layers = nn.ModuleList(Hoarder(self.shelf) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def train(turns=3):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(turns):
        model.shelf.clear()
        model(torch.ones(1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_rows_are_the_tensors_of_each_layer(tmp_path):
    with profile(tmp_path, warmup=0, iterations=2, telemetry=False, memory=True) as recording:
        train()
    rows = recording.trace.memory.to_pylist()
    large = [r for r in rows if abs(r["bytes"]) >= 4 * KEPT]
    for iteration in (0, 1):
        mine = [r for r in large if r["iteration"] == iteration and r["phase"] == "forward"]
        for layer in ("layers.0", "layers.1"):
            sizes = [r["bytes"] for r in mine if r["layer"] == layer]
            assert sizes == [4 * KEPT, 4 * PASSING, -4 * PASSING]
    found = summarize(recording.trace, ["phase", "layer"], ["peak_allocated"])
    peak = found.set_index(["phase", "layer"])["peak_allocated_bytes"]["forward"]
    assert 4 * KEPT < peak["layers.1"] - peak["layers.0"] < 4 * KEPT + 64  # and one number more
    cleared = [r["layer"] for r in large if r["bytes"] == -4 * KEPT]  # by the loop, in no layer
    assert cleared == [None] * 4
    allocated = [r["allocated_bytes"] for r in rows]
    steps = [r["bytes"] for r in rows]
    assert [b - a for a, b in itertools.pairwise(allocated)] == steps[1:]


def test_it_is_off_by_default_and_leaves_no_trace(tmp_path):
    with profile(tmp_path, warmup=0, iterations=1, telemetry=False) as recording:
        train()
    assert recording.trace.memory.num_rows == 0
    assert not any(e["name"] == "[memory]" for e in recorded.events(tmp_path))
    assert recorded.run(tmp_path)["options"]["memory"] is False


def test_it_says_whose_operators_it_cannot_record(tmp_path):
    with profile(tmp_path, warmup=0, iterations=1, telemetry=False, memory=True):
        train()
    assert recorded.run(tmp_path)["options"]["memory"] is True
    assert "what other threads ran is not" in " ".join(recorded.run(tmp_path)["notes"])


def test_a_loop_in_another_thread_is_an_error_and_leaves_nothing_running(tmp_path):
    """Torch crashes where one thread stops what records the memory of another."""
    losses = []
    thread = threading.Thread(target=lambda: losses.append(train()))

    def train_there():
        thread.start()
        thread.join()

    with (
        pytest.raises(CollectError, match="the loop runs in another"),
        profile(tmp_path, telemetry=False, memory=True),
    ):
        train_there()
    assert losses == [None]
    assert not profiler_running()
    with profile(tmp_path, warmup=0, iterations=1, telemetry=False) as recording:
        train()
    assert recording.trace.iterations == [0]


def test_the_table_survives_saving_and_the_cache(tmp_path):
    with profile(tmp_path / "run", warmup=0, iterations=1, telemetry=False, memory=True) as made:
        train()
    rows = made.trace.memory.to_pylist()
    again = read_trace(tmp_path / "run")
    assert again.memory.to_pylist() == rows
    saved = json.loads((made.trace.save(tmp_path / "saved") / "trace.json").read_text("utf-8"))
    assert saved["schema_version"] >= 2
    assert read_trace(tmp_path / "saved").memory.to_pylist() == rows
    of_first = again.filter(layer="layers.0").memory
    assert of_first.num_rows
    assert set(of_first["layer"].to_pylist()) == {"layers.0"}
