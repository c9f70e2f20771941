"""Rows of rocprofv3's counter files: spelled in many ways, repeated, damaged."""

from __future__ import annotations

import pytest
from counter_files import HEADER, by_kernel, counted, rocprof_csv

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counters import read_counters

ROWS = [counted(1, "A", 2), counted(1, "B", 0.25), counted(2, "A", 3, name="k<a, b>")]
WHOLE = {
    (0, 7, 1): {"A": 2, "B": 0.25, COUNTED_DURATION: 500},
    (0, 7, 2): {"A": 3, COUNTED_DURATION: 500},
}


def quoted(row: str) -> str:
    """Quote every field of a row."""
    fields, inside = [""], False
    for letter in row:
        inside ^= letter == '"'
        if letter == "," and not inside:
            fields.append("")
        elif letter != '"':
            fields[-1] += letter
    return ",".join(f'"{field}"' for field in fields)


SPELLINGS = {
    "as written": lambda text: text,
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "everything quoted": lambda text: "\n".join(map(quoted, text.split("\n")[:-1])) + "\n",
    "headers in lower case": lambda text: text.replace(HEADER, HEADER.lower()),
    "a column before": lambda text: "\n".join(
        (("Guid," if i == 0 else "x-1,") + row) if row else row
        for i, row in enumerate(text.split("\n"))
    ),
    "a column behind": lambda text: "\n".join(
        (row + (",Graph_Exec_Id" if i == 0 else ",0")) if row else row
        for i, row in enumerate(text.split("\n"))
    ),
    "no accumulation registers": lambda text: text.replace(",Accum_VGPR_Count", "").replace(
        ",8,0,16,", ",8,16,"
    ),
    "numbers with exponents": lambda text: text.replace("0.250000", "2.50000000e-01"),
    "an empty line at the end": lambda text: text + "\n",
    "no line end after a whole row": lambda text: text.rstrip("\n"),
}


@pytest.mark.parametrize("how", SPELLINGS)
def test_the_spelling_does_not_matter(tmp_path, how):
    path = rocprof_csv(tmp_path / "x.csv", ROWS)
    path.write_bytes(SPELLINGS[how](path.read_text()).encode())
    (run,) = read_counters(path)
    assert by_kernel(run) == WHOLE
    assert run.counted["name"].to_pylist() == ["void gemm<float>(float*, int)", "k<a, b>"]
    assert not run.repairs
    assert not run.skipped


def test_without_times_there_are_no_durations(tmp_path):
    """ROCm 6.2 and 6.3 write none."""
    rows = [row.rsplit(",", 2)[0] for row in ROWS]
    path = rocprof_csv(tmp_path / "x.csv", rows)
    path.write_text(path.read_text().replace(",Start_Timestamp,End_Timestamp", ""))
    (run,) = read_counters(path)
    assert by_kernel(run)[0, 7, 1] == {"A": 2, "B": 0.25}
    assert run.counted["dur_ns"].null_count == 2


class TestTwice:
    def test_a_counter_that_a_kernel_has_twice_is_averaged(self, tmp_path):
        (run,) = read_counters(rocprof_csv(tmp_path / "x.csv", [*ROWS, counted(1, "A", 4)]))
        assert by_kernel(run)[0, 7, 1]["A"] == 3
        assert list(run.repairs.values()) == [1]

    def test_a_kernel_that_was_replayed_has_no_one_duration(self, tmp_path):
        rows = [*ROWS, counted(1, "A", 4, start=90_000)]
        (run,) = read_counters(rocprof_csv(tmp_path / "x.csv", rows))
        assert by_kernel(run)[0, 7, 1] == {"A": 3, "B": 0.25}
        assert run.counted["dur_ns"].to_pylist() == [None, 500]
        assert sum(run.repairs.values()) == 2

    def test_several_processes_in_one_file(self, tmp_path):
        rows = [*ROWS, counted(1, "A", 9, pid=8, start=70_000)]
        (run,) = read_counters(rocprof_csv(tmp_path / "x.csv", rows))
        assert by_kernel(run)[0, 8, 1]["A"] == 9


class TestCut:
    """Of a killed run the last row may end anywhere: no number may come of half a number."""

    def test_every_place_where_the_last_row_may_end(self, tmp_path):
        whole = rocprof_csv(tmp_path / "x.csv", ROWS).read_bytes()
        first = whole.rstrip(b"\n").rindex(b"\n") + 1
        for end in range(first, len(whole) - 1):
            (tmp_path / "x.csv").write_bytes(whole[:end])
            (run,) = read_counters(tmp_path / "x.csv")
            assert by_kernel(run) == {(0, 7, 1): WHOLE[0, 7, 1]}, whole[first:end]
            assert sum(run.repairs.values()) == (end > first)

    def test_every_place_without_times(self, tmp_path):
        rows = [row.rsplit(",", 2)[0] for row in ROWS]
        path = rocprof_csv(tmp_path / "x.csv", rows)
        path.write_text(path.read_text().replace(",Start_Timestamp,End_Timestamp", ""))
        whole = path.read_bytes()
        first = whole.rstrip(b"\n").rindex(b"\n") + 1
        for end in range(first + 1, len(whole)):
            path.write_bytes(whole[:end])
            (run,) = read_counters(path)
            assert set(by_kernel(run)) == {(0, 7, 1)}
            assert list(run.repairs.values()) == [1]


class TestDamage:
    def test_what_is_no_number_is_left_out_and_counted(self, tmp_path):
        rows = [counted(1, "A", 2), counted(1, "B", 3).replace("3.000000", "N/A"),
                counted(1, "C", 3).replace("3.000000", "nan"),
                counted(3, "A", 3).replace("3,3,", "3,,", 1),
                counted(4, "A", 3, name="")]  # fmt: skip
        (run,) = read_counters(rocprof_csv(tmp_path / "x.csv", rows))
        assert by_kernel(run) == {(0, 7, 1): {"A": 2, COUNTED_DURATION: 500}}
        assert sum(run.skipped.values()) == 4

    def test_an_end_before_the_start_is_no_duration(self, tmp_path):
        rows = [counted(1, "A", 2).replace(",2500", ",1500")]
        (run,) = read_counters(rocprof_csv(tmp_path / "x.csv", rows))
        assert by_kernel(run) == {(0, 7, 1): {"A": 2}}

    def test_bytes_that_are_no_text_are_counted(self, tmp_path):
        path = rocprof_csv(tmp_path / "x.csv", ROWS)
        path.write_bytes(path.read_bytes().replace(b"k<a", b"\xff<a"))
        (run,) = read_counters(path)
        assert run.counted["name"].to_pylist()[1] == "\ufffd<a, b>"
        assert sum(run.repairs.values()) == 1

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (HEADER + "\n", "x.csv holds no counted kernels"),
            (HEADER.replace("Dispatch_Id", "Number") + "\n1\n", "no column 'dispatch_id'"),
            (HEADER + "\n\0\0\0\n", "zero bytes"),
            (HEADER + "\n1,1,1,1", "x.csv holds no counted kernels"),
            (HEADER + "\n" + ROWS[0] + ",more", "x.csv holds no counted kernels"),
        ],
    )
    def test_a_file_without_kernels_is_refused(self, tmp_path, text, words):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(TraceFormatError, match=words):
            read_counters(tmp_path / "x.csv")

    def test_a_damaged_file_of_a_folder_is_named_and_the_others_are_read(self, tmp_path):
        rocprof_csv(tmp_path / "pass_0" / "good.csv", ROWS)
        rocprof_csv(tmp_path / "pass_1" / "header_only.csv", [])
        (tmp_path / "pass_2.csv").write_text("")
        (tmp_path / "notes.txt").write_text("nothing of interest")
        (run,) = read_counters(tmp_path)
        assert by_kernel(run) == WHOLE
        assert [reason for reason in run.skipped if "header_only.csv" in reason]
        assert len(run.skipped) == 1

    def test_a_folder_of_damaged_files_says_why(self, tmp_path):
        rocprof_csv(tmp_path / "header_only.csv", [])
        with pytest.raises(TraceFormatError, match=r"header_only.csv holds no counted kernels"):
            read_counters(tmp_path)
