"""Real training loops of every shape, recorded: are their iterations found, and closed in time."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from collect import recorded
from torch import nn

from chopper_jupyter import profile

BATCH = torch.ones(2, 4)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.01, **options)


def plain(turns):
    model = net()
    optimizer = sgd(model)
    for _ in range(turns):
        model(BATCH).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def accumulation(turns):
    model = net()
    optimizer = sgd(model)
    for _ in range(turns):
        for _ in range(4):
            model(BATCH).sum().backward()
        optimizer.step()


def criterion(turns):
    model, loss = net(), nn.MSELoss()
    optimizer = sgd(model)
    for _ in range(turns):
        loss(model(BATCH), torch.zeros(2, 1)).backward()
        optimizer.step()


def gan(turns):
    maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
    first, second = sgd(judge), sgd(maker)
    for _ in range(turns):
        judge(maker(BATCH).detach()).sum().backward()
        first.step()
        judge(maker(BATCH)).sum().backward()
        second.step()


def two_optimizers(turns):
    model = net()
    pair = [sgd(model[0]), sgd(model[2])]
    for _ in range(turns):
        model(BATCH).sum().backward()
        for optimizer in pair:
            optimizer.step()


def no_optimizer(turns):
    model = net()
    for _ in range(turns):
        model(BATCH).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.01 * parameter.grad)


def gradients_by_function(turns):
    model = net()
    for _ in range(turns):
        torch.autograd.grad(model(BATCH).sum(), list(model.parameters()))


def inference(turns):
    model = net()
    with torch.no_grad():
        for _ in range(turns):
            model(BATCH)


def evaluation_inside(turns):
    model = net()
    optimizer = sgd(model)
    for _ in range(turns):
        model(BATCH).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for _ in range(3):
                model(BATCH)


def scaler_skips(turns):
    model = net()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu")
    for turn in range(turns):
        bad = float("inf") if turn % 2 else 1.0
        scaler.scale(model(BATCH * bad).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def lbfgs(turns):
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = model(BATCH).pow(2).sum()
        loss.backward()
        return loss

    for _ in range(turns):
        optimizer.step(closure)


def step_in_backward(turns):
    model = net()
    optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(turns):
        model(BATCH).sum().backward()


def raw_tensors(turns):
    weight = torch.ones(4, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    for _ in range(turns):
        (BATCH @ weight).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def raw_tensors_by_hand(turns):
    weight = torch.ones(4, 1, requires_grad=True)
    for _ in range(turns):
        (BATCH @ weight).sum().backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad


LOOPS = [
    plain, accumulation, criterion, gan, two_optimizers, no_optimizer, gradients_by_function,
    inference, evaluation_inside, scaler_skips, lbfgs, step_in_backward, raw_tensors,
    raw_tensors_by_hand,
]  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        # LBFGS and the CPU GradScaler warn of their own; that is not what is tested.
        warnings.filterwarnings("ignore", category=UserWarning, module="torch")
        yield


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_records_the_iterations_asked_for_and_stops(tmp_path, loop):
    with profile(tmp_path, telemetry=False, warmup=1, iterations=2) as recording:
        loop(6)
    assert recording.recorded_iterations == 3
    assert recorded.marks(tmp_path) == [0, 1, 2]
    assert recorded.run(tmp_path)["ranks"] == {"0": "complete"}
    assert recording.trace.iterations == [0, 1, 2]
    assert recording.trace.measured_iterations == [1, 2]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_keeps_what_there_is_when_the_loop_is_short(tmp_path, loop):
    with profile(tmp_path, telemetry=False, warmup=2, iterations=5) as recording:
        loop(2)
    assert recording.recorded_iterations == 2
    assert recorded.marks(tmp_path) == [0, 1]
    assert recording.notes()
    assert recorded.run(tmp_path)["notes"] == recording.notes()
    assert recording.trace.iterations == [0, 1]
    assert recording.trace.measured_iterations == [0, 1]


def test_one_iteration_holds_all_its_micro_batches(tmp_path):
    with profile(tmp_path, telemetry=False, warmup=0, iterations=3):
        accumulation(5)
    root = "chopper::module::Sequential::::Sequential"
    assert recorded.per_iteration(tmp_path, root) == [4, 4, 4]
    assert recorded.per_iteration(tmp_path, "Optimizer.step#SGD.step") == [1, 1, 1]


def test_evaluation_does_not_count(tmp_path):
    with profile(tmp_path, telemetry=False, warmup=0, iterations=3):
        evaluation_inside(5)
    assert recorded.per_iteration(tmp_path, "Optimizer.step#SGD.step") == [1, 1, 1]


def test_accumulation_longer_than_the_window_is_waited_for(tmp_path):
    model = net()
    optimizer = sgd(model)
    with profile(tmp_path, telemetry=False, warmup=0, iterations=2) as recording:
        for _ in range(3):
            for _ in range(8):
                model(BATCH).sum().backward()
            optimizer.step()
    assert recording.recorded_iterations == 2
    assert recorded.per_iteration(tmp_path, "Optimizer.step#SGD.step") == [1, 1]


def test_backwards_only_while_an_optimizer_lies_idle_do_not_record_for_ever(tmp_path):
    model = net()
    optimizer = sgd(model)
    with profile(tmp_path, telemetry=False, warmup=0, iterations=2) as recording:
        for _ in range(100):
            model(BATCH).sum().backward()
    assert optimizer.param_groups
    assert 2 <= recording.recorded_iterations < 80


def test_cell_without_any_module_or_backward_is_one_iteration(tmp_path):
    with profile(tmp_path, telemetry=False) as recording:
        BATCH @ torch.ones(4, 1)
    assert recorded.marks(tmp_path) == [0]
    assert recording.trace.iterations == [0]


def test_what_comes_before_the_first_module_is_left_out(tmp_path):
    with profile(tmp_path, telemetry=False, warmup=0, iterations=1):
        for _ in range(3):
            torch.linalg.det(torch.eye(3))
        plain(2)
    assert recorded.names(tmp_path)["aten::linalg_det"] == 0


def test_data_parallel_helpers_in_other_threads_begin_no_iterations(tmp_path):
    model, helper = net(), nn.Linear(4, 4)
    optimizer = sgd(model)
    with profile(tmp_path, telemetry=False, warmup=0, iterations=3):
        for _ in range(4):
            output = model(BATCH)
            threads = [threading.Thread(target=helper, args=(BATCH,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            output.sum().backward()
            optimizer.step()
    assert recorded.marks(tmp_path) == [0, 1, 2]
    assert recorded.per_iteration(tmp_path, "Optimizer.step#SGD.step") == [1, 1, 1]


def test_a_thread_that_infers_beside_the_training_does_not_count(tmp_path):
    ready, done = threading.Event(), threading.Event()

    def infer():
        helper = net()
        with torch.no_grad():
            helper(BATCH)
            ready.set()
            done.wait()

    with profile(tmp_path, telemetry=False, warmup=0, iterations=3) as recording:
        thread = threading.Thread(target=infer)
        thread.start()
        ready.wait()
        plain(5)
        done.set()
        thread.join()
    assert recording.recorded_iterations == 3
    assert recorded.per_iteration(tmp_path, "Optimizer.step#SGD.step") == [1, 1, 1]


def test_training_in_a_thread(tmp_path):
    with profile(tmp_path, telemetry=False, warmup=0, iterations=3) as recording:
        thread = threading.Thread(target=plain, args=(5,))
        thread.start()
        thread.join()
    assert recording.recorded_iterations == 3
    assert recorded.names(tmp_path)["aten::addmm"] == 6
