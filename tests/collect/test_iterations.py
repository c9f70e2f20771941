"""The rule that cuts a training loop into iterations, on logs written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.collect.iterations import NOW, Backward, Call, Step, completed, starts

B = Backward()
S, T = Step(1), Step(2)


def log(text):
    """Write a log: letters are modules (small: under no_grad), B backward, 1 and 2 steps."""
    made = []
    for at, letter in enumerate(text.replace(" ", "")):
        if letter == "B":
            made.append(B)
        elif letter.isdecimal():
            made.append(Step(int(letter)))
        else:
            made.append(Call(ord(letter.upper()), grad=letter.isupper(), mark=at))
    return made


def begins(text):
    """Return the log with a bar before each call that begins an iteration."""
    at = {call.mark for call in starts(log(text))}
    return "".join("|" * (i in at) + letter for i, letter in enumerate(text.replace(" ", "")))


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("one optimizer", "|MB1|MB1|MB1"),
        ("accumulation", "|MBMBMBMB1|MBMBMBMB1"),
        ("several calls before a backward", "|MMMB1|MMMB1"),
        ("two optimizers, one after the other", "|MB12|MB12|MB12"),
        ("GAN", "|DB1GDB2|DB1GDB2"),
        ("critic trained more often", "|DB1|DB1|DB1GDB2|DB1"),
        ("no optimizer", "|MB|MB|MB"),
        ("inference", "|m|m|m"),
        ("inference without no_grad", "|M|M|M"),
        ("inference with a criterion that has weights", "|mc|mc|mc"),
        ("evaluation between iterations", "|MB1mmm|MB1mmm|MB1"),
        ("evaluation first", "mmm|MB1|MB1"),
        ("evaluation last", "|MB1|MB1mmm"),
        ("frozen teacher", "|tMB1|tMB1|tMB1"),
        ("teacher after evaluation", "|tMB1mm|tMB1"),
        ("LBFGS: several closures in a step", "|MBMBMB1|MBMB1"),
        ("step after the recording began in mid-iteration", "B1|MB1|MB1"),
        ("last iteration incomplete", "|MB1|MB"),
        ("nothing was trained", ""),
    ],
)
def test_where_iterations_begin(what, expected):
    assert begins(expected.replace("|", "")) == expected


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("M", 0), ("MB", 1), ("MB1", 1), ("MB1M", 1), ("MB1MB1", 2), ("MBMB1", 1)],
)
def test_what_is_complete_now(text, count):
    assert completed(log(text)) == count


def test_an_inference_loop_is_complete_when_its_model_is_called_again():
    again = Call(ord("M"), grad=False)
    assert completed(log("mm"), again) == 2


def test_first_pass_of_a_gan_is_not_taken_for_two_iterations_afterwards():
    assert len(starts(log("DB1GDB2DB1GDB2"))) == 2
    assert completed(log("DB1GDB2DB1")) == 1


@given(st.lists(st.sampled_from([B, S, T, *log("MNmn")]), max_size=30))
def test_laws(events):
    begun = starts(events)
    marks = [call.mark for call in begun]
    calls = [event for event in events if isinstance(event, Call)]
    assert all(call in calls for call in begun)
    assert len(begun) <= len(calls)
    assert len(marks) == len(begun)
    assert 0 <= completed(events, NOW) <= len(begun)
