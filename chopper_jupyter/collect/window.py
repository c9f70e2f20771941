"""The recorded window: opens at the first module call, closes after enough iterations.

Recording starts at once, so that a cell without any module is recorded as a whole. The first
outermost call of a module with state starts it anew: data loading and model building before it
are not part of the window, and a process group made meanwhile gets into the file. The window
closes in the call that begins the first iteration too many; from then on modules are called as
if nothing had ever been here.

A window that waits does not even start the profiler before: it is for processes of which nobody
knows yet whether they train. There the first call of a module with state, or the first backward,
asks whether to record.

Only one thread is listened to: the one that opened the window as soon as it calls a module, until
then the first that does. Others (data-parallel replicas) begin no iterations.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import torch

from chopper_jupyter.collect.annotate import Switch, annotated_calls
from chopper_jupyter.collect.cost import BACKWARD, Pace
from chopper_jupyter.collect.expectation import has_state, step_expected
from chopper_jupyter.collect.foreign_profilers import making_way
from chopper_jupyter.collect.iterations import NOW, Backward, Call, Event, Step
from chopper_jupyter.collect.loop_hooks import loop_hooks
from chopper_jupyter.collect.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn
    from torch.optim import Optimizer

    from chopper_jupyter.collect.tape import Tape

PATIENCE = 64
"""Iterations too many to record while a backward or step that would join them is expected."""

RAW_TENSORS = Call(root=0, grad=True)
"""Stands for a module call in cells that call none."""


class Window:
    """Records one window of iterations; ``open`` it, let the loop run, ``finish`` it.

    Parameters
    ----------
    tape : Tape
        Where it is recorded.
    switch : Switch
        The one the tape uses.
    limit : int
        Iterations to record, warm-up included.
    on_close : callable
        Called once the last segment is on disk.
    may_begin : callable, optional
        Makes the window wait; says when training begins whether it is to be recorded.
    """

    def __init__(
        self,
        tape: Tape,
        switch: Switch,
        limit: int,
        on_close: Callable[[], None],
        may_begin: Callable[[], bool] | None = None,
    ) -> None:
        self.pace = Pace()
        self.complete = False
        self.interrupted = False
        self.failure: Exception | None = None
        self._tape, self._switch, self._limit, self._on_close = tape, switch, limit, on_close
        self._hooks, self._patches = ExitStack(), ExitStack()
        self.modules_seen = self.missed_calls = False
        self._open = self._steps_in_backward = False
        self._step_expected: bool | None = None
        self._may_begin, self._waiting, self._away = may_begin, may_begin is not None, False
        self._pid = os.getpid()
        self._opener = threading.current_thread()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start recording and listening; on an error nothing is left behind."""
        with ExitStack() as undo:
            undo.callback(self._hooks.close)
            undo.callback(self._patches.close)
            self._hooks.enter_context(loop_hooks(self))
            self._patches.enter_context(
                making_way(
                    ours=lambda: self._tape.switching, leave=self._leave, resume=self._resume
                )
            )
            self._patches.enter_context(annotated_calls(self._switch, self._root_call))
            if not self._waiting:
                self._tape.begin()
                self._tape.call(RAW_TENSORS)
            self._switch.watching = self._open = True
            undo.pop_all()

    @property
    def trained(self) -> bool:
        """Whether this process called a module with state, ran a backward or a step."""
        logs = (stretch.log for stretch in self._tape.stretches)
        return self.modules_seen or any(not isinstance(e, Call) for log in logs for e in log)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the profiler while processes start that must not inherit a running one."""
        recording = self._open and self._tape.running and os.getpid() == self._pid
        if recording:
            with self._guarded():
                self._tape.end(keep=self.trained)
        try:
            yield
        finally:
            if recording and self._open and os.getpid() == self._pid:
                with self._guarded():
                    self._tape.begin()
                    if not self.modules_seen:
                        self._tape.call(RAW_TENSORS)

    def restart(self) -> None:
        """Record from the next module call on, and forget what was recorded before."""
        with self._guarded():
            if self._open and not self._waiting:
                self._start_anew()
                self.modules_seen = False

    def abandon(self) -> None:
        """Leave a recording that belongs to the process from which this one was forked."""
        self._open = self._switch.watching = self._switch.recording = False
        self._patches.close()
        self._hooks.close()

    def finish(self) -> None:
        """Stop whatever still records and put everything back where it was."""
        try:
            if self._open:
                with self._guarded():
                    self._close()
        finally:
            self._switch.watching = self._switch.recording = False
            self._patches.close()
            self._hooks.close()
            self._tape.drop()

    # What the loop tells. None of it may let a failure of ours reach the user's code.

    def backward_begins(self) -> None:
        """In a loop without modules, close, or mark the iteration, at its backward at latest.

        Everything since the step before it belongs to the iteration; the reader knows that.
        """
        with self._guarded():
            if self._waiting and not self._awake():
                return
            if self.modules_seen or not self._listening():
                return
            if self._enough_without_modules(ended=Step):
                self._complete()
            else:
                self._tape.call(RAW_TENSORS)

    def backward(self) -> None:
        """Take note of a backward pass; in a loop without modules or steps, something begins."""
        with self._guarded():
            self._note(Backward())
            self._beat(BACKWARD)
            if self.modules_seen or not self._listening():
                return
            if self._enough_without_modules(ended=Backward):
                self._complete()
            else:
                self._tape.call(RAW_TENSORS)

    def step(self, optimizer: Optimizer) -> None:
        """Take note of an optimizer step."""
        with self._guarded():
            self._note(Step(id(optimizer)))
            self._beat(id(optimizer))

    def step_in_backward(self) -> None:
        """Remember that steps will not be heard of: they happen inside the backward."""
        self._steps_in_backward = True

    def _root_call(self, module: nn.Module) -> None:
        with self._guarded():
            if self._waiting and not (has_state(module) and self._awake(by_module=True)):
                return
            self._take_over(module)
            if not self._listening():
                self.missed_calls = self.missed_calls or not self._tape.running
                return
            stateful = has_state(module)
            if stateful and not self.modules_seen:
                self._start_anew()
            call = Call(id(module), grad=torch.is_grad_enabled())
            if self.modules_seen and self._enough(module, call):
                self._complete()
            elif stateful:
                self._tape.call(call)

    def _take_over(self, module: nn.Module) -> None:
        """Turn to the thread that opened the window when it calls its first module."""
        me = threading.current_thread()
        if me is self._opener and self._thread is not me and has_state(module):
            self._thread = me
            if self.modules_seen and self._listening():
                self._start_anew()

    def _note(self, event: Event) -> None:
        if self._listening():
            self._tape.log.append(event)

    def _beat(self, what: object) -> None:
        if self._here():
            self.pace.beat(what, time.perf_counter(), recorded=self._tape.running)

    def _listening(self) -> bool:
        return self._open and self._tape.running and self._here()

    def _here(self) -> bool:
        """Say whether this is the process and the thread that runs the loop."""
        if os.getpid() != self._pid:
            return False
        me = threading.current_thread()
        if self._thread is None or not self._thread.is_alive():
            self._thread = me
        return self._thread is me

    # When it is enough.

    def _enough(self, module: nn.Module, call: Call) -> bool:
        """Say whether all iterations asked for are over as ``call`` begins."""
        stepped, backward = self._seen(Step), self._seen(Backward)
        done = self._tape.completed(NOW if stepped or backward else call)
        if done < self._limit:
            return False
        if stepped or self._steps_in_backward or not (backward or call.grad):
            return True
        if self._step_expected is None:
            self._step_expected = step_expected(module)
        return done >= self._limit + PATIENCE or not self._step_expected

    def _enough_without_modules(self, *, ended: type[Event]) -> bool:
        """Say the same where a step or backward has ended, in a loop that calls no module.

        Without a module nobody can say which optimizer would be waited for, so none is.
        """
        if self._seen(Step) is not (ended is Step):
            return False
        return self._tape.completed(NOW) >= self._limit

    def _seen(self, kind: type[Event]) -> bool:
        return any(isinstance(event, kind) for event in self._tape.log)

    # Opening, closing, making way.

    def _awake(self, *, by_module: bool = False) -> bool:
        """Begin to record where training begins in a process that waited for it."""
        if not self._open or self._away or not self._here():
            return False
        self._waiting = False
        if self._may_begin is None or not self._may_begin():
            self._open = self._switch.watching = False
            return False
        self.modules_seen = by_module
        self._tape.begin()
        return True

    def _start_anew(self) -> None:
        with uninterrupted():
            self._tape.end(keep=False)
            self.modules_seen = True
            self.pace = Pace()
            self._tape.begin()

    def _complete(self) -> None:
        self.complete = True
        self._close()

    def _leave(self) -> None:
        self._away = True
        with self._guarded():
            self.interrupted = self.interrupted or self._tape.running
            self._tape.end()

    def _resume(self) -> None:
        self._away = False
        with self._guarded():
            if self._open and not self._waiting:
                self._tape.begin()

    def _close(self) -> None:
        with uninterrupted():
            self._open = self._switch.watching = False
            self._tape.end()
            if not self.modules_seen:
                self._drop_false_beginnings()
            self._patches.close()
            if self._tape.stretches:
                self._on_close()

    def _drop_false_beginnings(self) -> None:
        """Nothing began where the last backward of a loop without modules and steps ended.

        Nor anywhere, if only somebody else's profiler saw the loop.
        """
        log = self._tape.stretches[-1].log if self._tape.stretches else []
        if len(log) > 1 and isinstance(log[-1], Call):
            log.pop()
        if self.missed_calls:
            for stretch in self._tape.stretches:
                stretch.log.clear()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Give up the recording on an error (a full disk); it is reported at the end."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever it is, it is not the user's error
            self.failure = error
            self._open = self._switch.watching = self._switch.recording = False
            self._patches.close()
