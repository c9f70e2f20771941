"""What a recording leaves of itself in the process, also after errors: nothing."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
import torch
from collect import recorded
from collect.leaks import ROW, replaceable, train
from torch import nn

from chopper_jupyter import profile
from chopper_jupyter.collect.segment import Segment, profiler_running
from chopper_jupyter.core.errors import CollectError


@pytest.fixture(autouse=True)
def untouched():
    """No test may leave anything behind."""
    before = replaceable()
    yield before
    assert replaceable() == before


def test_after_the_block(tmp_path, untouched):
    with profile(tmp_path):
        assert vars(nn.Module)["__call__"] is not untouched["call"]
        train()


def test_modules_run_untouched_once_the_window_is_closed(tmp_path, untouched):
    seen = []
    with profile(tmp_path, warmup=0, iterations=2):
        train(5, then=lambda _: seen.append(nn.Module.__call__ is untouched["call"]))
        assert not profiler_running()
    assert seen == [False, False, True, True, True]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_errors_pass_through_unchanged(tmp_path, error):
    raised = error("mine")

    def fail():
        train(2)
        raise raised

    with pytest.raises(error) as caught, profile(tmp_path) as recording:
        fail()
    assert caught.value is raised
    assert caught.value.__context__ is None
    assert recording.recorded_iterations == 2
    assert recorded.run(tmp_path)["ranks"] == {"0": "partial"}
    assert recording.trace.iterations == [0, 1]


def test_error_after_the_window_leaves_a_complete_recording(tmp_path):
    def fail(turn):
        if turn == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), profile(tmp_path, warmup=0, iterations=1):
        train(3, then=fail)
    assert recorded.run(tmp_path)["ranks"] == {"0": "complete"}


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_the_users_objects_are_as_they_were(tmp_path, error):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(ROW).sum()
    things = [*model.modules(), sgd, *model.parameters(), loss]

    def state():
        return [
            {k: dict(v) if "hooks" in k and v is not None else type(v) for k, v in made.items()}
            for made in map(vars, things)
        ], [thing._backward_hooks for thing in things if isinstance(thing, torch.Tensor)]

    def loop():
        for turn in range(3):
            model(ROW).sum().backward()
            sgd.step()
            if error and turn:
                raise error

    train(1, model)  # what the first backward and step make for ever
    before = state()
    with contextlib.suppress(ValueError, KeyboardInterrupt), profile(tmp_path, telemetry=False):
        loop()
    assert state() == before


@pytest.mark.parametrize("when", ["starts", "ends"])
def test_a_recording_that_starts_or_ends_while_a_module_runs(tmp_path, when):
    recording = profile(tmp_path, warmup=0, iterations=9, telemetry=False)

    class Switching(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after, self.now = nn.Linear(4, 4), nn.Linear(4, 4), False

        def forward(self, x):
            x = self.before(x)
            if self.now:
                recording.__enter__() if when == "starts" else recording.__exit__(*[None] * 3)
            return self.after(x)

    model = Switching()
    if when == "ends":
        recording.__enter__()
    for model.now in (False, True):
        model(ROW).sum().backward()
    if when == "starts":
        model.now = False
        model(ROW).sum().backward()
        recording.__exit__(None, None, None)
    called = recorded.modules(tmp_path)
    paths = {path for _, path, _ in called}
    assert paths == {"", "before", "after"}
    assert recording.trace.iterations[0] == 0


def test_whoever_patched_over_us_stays(tmp_path, untouched):
    with profile(tmp_path):
        ours = nn.Module.__call__

        def theirs(self, *args, **kwargs):
            return ours(self, *args, **kwargs)

        nn.Module.__call__ = theirs
        train()
    assert nn.Module.__call__ is theirs
    train()  # through our replacement, which does nothing any more
    nn.Module.__call__ = untouched["call"]


def test_when_starting_fails(tmp_path, monkeypatch):
    def broken(_options):
        message = "no profiler today"
        raise RuntimeError(message)

    monkeypatch.setattr("chopper_jupyter.collect.tape.Segment", broken)
    with pytest.raises(CollectError, match="today"), profile(tmp_path):
        pass
    monkeypatch.undo()
    with profile(tmp_path):
        train()


@pytest.mark.parametrize("when", ["opens", "closes"])
def test_interrupt_while_the_window(tmp_path, monkeypatch, when):
    """Ctrl-C gets through, but only after the profiler has stopped and all is saved."""
    real, stops = Segment.stop, []

    def interrupted(segment):
        stops.append(segment)
        if len(stops) == (1 if when == "opens" else 2):
            os.kill(os.getpid(), signal.SIGINT)
        real(segment)

    monkeypatch.setattr(Segment, "stop", interrupted)
    turns = []
    recording = profile(tmp_path, warmup=0, iterations=1)
    with pytest.raises(KeyboardInterrupt), recording:
        train(3, then=turns.append)
    assert turns == ([] if when == "opens" else [0])
    state = "partial" if when == "opens" else "complete"
    assert recorded.run(tmp_path)["ranks"] == {"0": state}
    assert recording.trace.iterations == turns
