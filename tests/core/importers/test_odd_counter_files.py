"""Counter files as other programs, other places and full disks leave them: told, never guessed."""

from __future__ import annotations

import pytest
from counter_files import HEADER, by_kernel, compute_csv, counted, ncu_row, raw_page, rocprof_csv
from profiler_files import database

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counters import read_counters

ROW = counted(1, "A", 2)
NAME = "7_counter_collection.csv"


def replaced(row, old, new):
    assert old in row
    return row.replace(old, new)


def text(*rows, head=HEADER):
    return "\n".join([head, *rows]) + "\n"


REFUSED = {
    "empty": ("", "is empty"),
    "only line ends": ("\n\n", "is empty"),
    "only a header": (text(), "holds no counted kernels"),
    "no values": (
        text(head=HEADER.replace(",Counter_Value", "")),
        "its columns are correlation_id",
    ),
    "no kernels": (text(ROW, head=HEADER.replace("Kernel_Name", "K")), "no column 'kernel_name'"),
    "semicolons": (text(ROW, head=HEADER.replace(",", ";")), "separates its fields by ';'"),
    "tabs": (text(ROW, head=HEADER.replace(",", "\t")), r"separates its fields by '\\t'"),
    "decimal commas": (text(replaced(ROW, "2.000000", '"2,5"')), "no count that is a number"),
    "thousands": (text(replaced(ROW, "2.000000", '"1,234,567"')), "no count that is a number"),
    "no numbers": (text(replaced(ROW, "2.000000", "N/A")), "no count that is a number"),
    "a page": ("<html><body>404</body></html>\n", "its columns are <html>"),
    "old line ends": (text(ROW).replace("\n", "\r"), "holds no counted kernels"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_read_is_refused_for_its_reason(what, tmp_path):
    content, reason = REFUSED[what]
    path = tmp_path / NAME
    path.write_bytes(content.encode())
    with pytest.raises(TraceFormatError, match=reason) as refusal:
        read_counters(path)
    assert NAME in str(refusal.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(text(ROW).encode("utf-16"), "UTF-16"), (bytes(range(256)) * 8, "is no text")],
)
def test_what_is_no_text_is_refused(data, reason, tmp_path):
    path = tmp_path / NAME
    path.write_bytes(data)
    with pytest.raises(TraceFormatError, match=reason):
        read_counters(path)


def test_nothing_given_is_refused():
    with pytest.raises(TraceFormatError, match="no file or folder"):
        read_counters([])


def test_a_file_that_was_left_empty_is_told_of(tmp_path):
    """The tool died, or the disk was full: a GPU of the pass would silently be missing."""
    rocprof_csv(tmp_path / "7_counter_collection.csv", [ROW])
    (tmp_path / "8_counter_collection.csv").touch()
    (tmp_path / "notes.txt").touch()  # as empty, but nothing is lost with it
    (run,) = read_counters(tmp_path)
    assert run.skipped == {"8_counter_collection.csv is empty": 1}


def test_counts_below_zero_are_none(tmp_path):
    rows = [replaced(ROW, "2.000000", "-2"), counted(1, "B", 3)]
    (run,) = read_counters(rocprof_csv(tmp_path / NAME, rows))
    assert by_kernel(run)[0, 7, 1] == {"B": 3, COUNTED_DURATION: 500}
    assert run.skipped == {"counts below zero: left out": 1}


def test_times_that_run_backwards_are_counted(tmp_path):
    rows = [replaced(ROW, "2000,2500", "2500,2000"), counted(2, "A", 3)]
    (run,) = read_counters(rocprof_csv(tmp_path / NAME, rows))
    assert by_kernel(run) == {(0, 7, 1): {"A": 2}, (0, 7, 2): {"A": 3, COUNTED_DURATION: 500}}
    assert run.repairs == {"kernels that end before they start: duration left out": 1}


def test_a_header_in_the_middle_is_no_kernel(tmp_path):
    """Files that were joined with cat."""
    (run,) = read_counters(rocprof_csv(tmp_path / NAME, [ROW, HEADER, counted(2, "A", 3)]))
    assert set(by_kernel(run)) == {(0, 7, 1), (0, 7, 2)}
    assert sum(run.skipped.values()) == 1


# --- Nsight Compute -------------------------------------------------------------------------

TIMED = {"gpu__time_duration.sum": "us", "ops.sum": ""}


def page(tmp_path, content):
    path = tmp_path / "ncu.csv"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_page_without_units_is_refused(tmp_path):
    """Microseconds would be taken for nanoseconds."""
    head, _, *rows = raw_page(TIMED, ncu_row(0, "1.5", "3")).splitlines()
    with pytest.raises(TraceFormatError, match="no row of units"):
        read_counters(page(tmp_path, "\n".join([head, *rows]) + "\n"))


def test_a_time_of_an_unknown_unit_is_none(tmp_path):
    content = raw_page(TIMED | {"gpu__time_duration.sum": "moment"}, ncu_row(0, "1.5", "3"))
    (run,) = read_counters(page(tmp_path, content))
    assert list(by_kernel(run).values()) == [{"ops.sum": 3}]
    assert run.repairs == {"times of an unknown unit: left out": 1}


def test_a_time_below_zero_is_none(tmp_path):
    (run,) = read_counters(page(tmp_path, raw_page(TIMED, ncu_row(0, "-1.5", "3"))))
    assert list(by_kernel(run).values()) == [{"ops.sum": 3}]
    assert sum(run.skipped.values()) == 1


def test_a_page_that_another_program_saved_is_refused(tmp_path):
    content = raw_page(TIMED, ncu_row(0, "1,5", "3")).replace('","', '";"')
    with pytest.raises(TraceFormatError, match="separates its fields by ';'"):
        read_counters(page(tmp_path, content))


# --- rocprof-compute and databases ----------------------------------------------------------


def test_a_pass_of_rocprof_compute_counts_numbers_only(tmp_path):
    rows = [{"A": -1, "B": 3}, {"A": "x", "B": 4, "Dispatch_ID": 1}]
    (run,) = read_counters(compute_csv(tmp_path / "SQ_A.csv", rows))
    found = [{n: v for n, v in k.items() if n in "AB"} for k in by_kernel(run).values()]
    assert found == [{"B": 3}, {"B": 4}]
    assert sorted(run.skipped.values()) == [1, 1]  # one below zero, one no number
    with pytest.raises(TraceFormatError, match="no count that is a number"):
        read_counters(compute_csv(tmp_path / "none" / "SQ_A.csv", [{"A": "x"}]))


def test_a_database_of_texts_is_refused(tmp_path):
    path = database(
        tmp_path / "results.db",
        {
            "counters_collection": (
                "guid, dispatch_id, pid, kernel_name, counter_name, value",
                [("g", 1, "seven", "gemm", "A", 3.0)],
            )
        },
    )
    with pytest.raises(TraceFormatError, match=r"results\.db .* cannot be read"):
        read_counters(path)
