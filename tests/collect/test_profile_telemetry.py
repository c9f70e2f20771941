"""Samples of sensors beside a recording."""

from __future__ import annotations

import time

import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from chopper_jupyter import profile
from chopper_jupyter.collect import telemetry
from chopper_jupyter.core.errors import CollectError
from chopper_jupyter.core.run_folder import telemetry_files


def train(turns):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(turns):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


def fail(_window):
    msg = "no profiler"
    raise RuntimeError(msg)


def test_the_processor_is_sampled_while_the_window_is_open(tmp_path):
    with profile(tmp_path, warmup=0, iterations=2) as recording:
        time.sleep(1.5)  # a sampler takes a while to start
        train(4)
    (path, *_) = [path for *_, path in telemetry_files(recording.run_dir)]
    samples = pq.read_table(path)
    assert "cpu_utilization_ratio" in samples["metric"].to_pylist()
    assert not list((tmp_path / "telemetry").glob(".*"))  # nobody claims to sample any more


def test_it_can_be_left_out(tmp_path):
    with profile(tmp_path, warmup=0, iterations=1, telemetry=False) as recording:
        train(2)
    assert telemetry_files(recording.run_dir) == []


def test_a_sampler_that_fails_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry.sys, "executable", str(tmp_path / "none"))
    with profile(tmp_path / "run", warmup=0, iterations=1) as recording:
        train(2)
    assert any("Telemetry is incomplete" in note for note in recording.notes())


def test_it_ends_when_recording_cannot_begin(tmp_path, monkeypatch):
    monkeypatch.setattr("chopper_jupyter.collect.window.Window.open", fail)
    with pytest.raises(CollectError), profile(tmp_path):
        pass
    assert not list((tmp_path / "telemetry").glob(".*"))
