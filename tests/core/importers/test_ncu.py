"""Pages of Nsight Compute: numbers, units, both pages, logs around them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from counter_files import NCU, NVTX, by_kernel, details_page, ncu_line, ncu_row, raw_page
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counters import read_counters
from chopper_jupyter.core.importers.ncu_numbers import exponent_of, numbers_of


def page(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def numbers(*texts):
    return numbers_of(pa.array(texts), np.zeros(len(texts), np.int64)).to_pylist()


class TestNumbers:
    @pytest.mark.parametrize(
        ("unit", "power"),
        [
            ("ns", 0), ("us", 3), ("ms", 6), ("s", 9), ("nsecond", 0), ("usecond", 3),
            ("second", 9), ("byte", 0), ("Kbyte", 3), ("Mbyte", 6), ("Gbyte", 9), ("Tbyte", 12),
            ("hz", 0), ("Mhz", 6), ("Ghz", 9), ("%", 0), ("", 0), ("inst", 0), ("warp", 0),
            ("Tbyte/s", 12), ("Gbyte/second", 9), ("sector/ns", 9), ("sector/us", 6),
            ("sector/ms", 3), ("cycle/nsecond", 9), ("Kbyte/cycle", 3), ("byte/block", 0),
            ("%/Kbyte", -3), ("register/thread", 0), ("inst/cycle", 0), ("gpc", 0), ("SM", 0),
        ],
    )  # fmt: skip
    def test_units_go_to_their_base(self, unit, power):
        assert exponent_of(unit) == power

    def test_one_file_mixes_styles(self):
        assert numbers("1,236,950,581,248", "762.656000", "6,312", "2423808") == [
            1236950581248, 762.656, 6312, 2423808,
        ]  # fmt: skip

    def test_other_locales_swap_separators(self):
        assert numbers("1.236.950", "762,656000", "6.312") == [1236950, 762.656, 6312]

    def test_blanks_and_apostrophes_group_digits(self):
        assert numbers("1\u202f236\u202f950,5", "1 000") == [1236950.5, 1000]
        assert numbers("1'236'950.5") == [1236950.5]

    def test_what_is_not_told_otherwise_is_english(self):
        assert numbers("6,312", "6.312") == [6312, 6.312]

    def test_instances_behind_a_number_are_ignored(self):
        assert numbers("25.5 (10.5; 15)", "7 ()") == [25.5, 7]

    def test_texts_are_no_numbers(self):
        assert numbers("PolicySpread", "no data", "", "nan", "12.8.1", "(1, 2)") == [None] * 6

    def test_both_separators_of_decimals_cannot_be(self):
        with pytest.raises(TraceFormatError, match=r"points \(762.65\) and .*commas \(3,1\)"):
            numbers("762.65", "3,1")

    @given(
        st.lists(st.floats(0, 1e12).map(lambda x: round(x, 6)), min_size=1),
        st.sampled_from([(",", "."), (".", ","), ("", "."), ("\u202f", ",")]),
    )
    def test_every_number_comes_back_in_every_style(self, values, style):
        group, decimal = style
        texts = [
            f"{value:,.6f}".translate({ord(","): group, ord("."): decimal}) for value in values
        ]
        assert numbers(*texts) == values

    @given(st.integers(0, 10**15))
    def test_scaled_whole_numbers_stay_whole(self, count):
        mega = f"{count // 10**6}.{count % 10**6:06d}"
        assert numbers_of(pa.array([mega]), np.array([6])).to_pylist() == [count]


class TestRawPage:
    def test_kernels_metrics_and_durations(self, tmp_path):
        text = raw_page(
            {"gpu__time_duration.sum": "us", "dram__bytes_read.sum": "Mbyte", "share": "%"},
            ncu_row(0, "12.500000", "198.767104", "63.62", name="void k<(int)8>(float)"),
            ncu_row(1, "7.000000", "", "1.00", pid=4712, device=1),
        )
        (run,) = read_counters(page(tmp_path / "x.csv", text))
        assert run.tool == "ncu"
        assert by_kernel(run) == {
            (0, 4711, 0): {"gpu__time_duration.sum": 12_500, "dram__bytes_read.sum": 198_767_104,
                           "share": 63.62, COUNTED_DURATION: 12_500},
            (0, 4712, 1): {"gpu__time_duration.sum": 7000, "share": 1, COUNTED_DURATION: 7000},
        }  # fmt: skip
        assert run.counted["work_items"].to_pylist() == [7680, 7680]
        assert run.counted["group_items"].to_pylist() == [384, 384]
        assert run.counted["device"].to_pylist() == [0, 1]
        assert run.counted["stream"].to_pylist() == [20, 20]
        assert run.counted["dur_ns"].to_pylist() == [12_500, 7000]

    def test_what_describes_the_device_is_no_counter(self, tmp_path):
        names = ("display_name", "multiprocessor_count", "clock_rate")
        metrics = dict.fromkeys([f"device__attribute_{name}" for name in names], "")
        metrics |= {"profiler__replayer_passes": "pass", "a": "", "launch__func": ""}
        text = raw_page(
            metrics, ncu_row(0, "NVIDIA H100", "132", "1,980,000", 9, 1, "PolicySpread")
        )
        (run,) = read_counters(page(tmp_path / "x.csv", text))
        assert by_kernel(run) == {(0, 4711, 0): {"a": 1}}
        assert run.agents == {
            0: {"product_name": "NVIDIA H100", "cu_count": 132, "max_clock_mhz": 1980}
        }
        assert list(run.skipped.values()) == [1]

    def test_columns_of_ranges_are_passed_over(self, tmp_path):
        names = (*NCU[:4], *NVTX, *NCU[4:], "a")
        row = (0, 5, "p", "h", '5  "<default domain>:7:none"', "", "k", 1, 2, "(32, 1, 1)",
               "(1, 1, 1)", 0, "9.0", 3)  # fmt: skip
        text = "\n".join(map(ncu_line, (names, [""] * len(names), row))) + "\n"
        (run,) = read_counters(page(tmp_path / "x.csv", text))
        assert by_kernel(run) == {(0, 5, 0): {"a": 3}}

    def test_output_around_the_rows(self, tmp_path):
        rows = raw_page({"a": ""}, ncu_row(0, 3), "loss 1.5", "==PROF== 50%", ncu_row(1, 4))
        text = "hello\n==PROF== Connected to process 7\n" + rows + "==ERROR== code (1).\nbye\n"
        (run,) = read_counters(page(tmp_path / "x.log", text))
        assert [v["a"] for v in by_kernel(run).values()] == [3, 4]
        assert list(run.skipped.values()) == [2]
        assert any("code (1)" in note for note in run.notes)

    def test_logs_of_several_processes_in_one_file(self, tmp_path):
        text = raw_page({"a": ""}, ncu_row(0, 3)) + raw_page({"b": ""}, ncu_row(0, 4, pid=9))
        (run,) = read_counters(page(tmp_path / "x.csv", text))
        assert sorted(run.counted["process"].to_pylist()) == [9, 4711]
        assert run.values.num_rows == 2

    def test_a_kernel_that_stands_twice_counts_once(self, tmp_path):
        text = raw_page({"a": ""}, ncu_row(0, 3), ncu_row(0, 3))
        (run,) = read_counters(page(tmp_path / "x.csv", text))
        assert run.counted.num_rows == 1
        assert list(run.repairs.values()) == [1]

    def test_two_styles_of_numbers_name_the_file(self, tmp_path):
        text = raw_page({"a": "", "b": ""}, ncu_row(0, "1.25", "1,25"))
        with pytest.raises(TraceFormatError, match=r"x.csv holds numbers with decimal points"):
            read_counters(page(tmp_path / "x.csv", text))


class TestDetailsPage:
    ROWS = (
        ncu_row(0, "GPU Speed Of Light Throughput", "Duration", "us", "762.66"),
        ncu_row(0, "GPU Speed Of Light Throughput", "Memory Throughput", "%", "50.66"),
        ncu_row(0, "SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", "Do better, by 5,3"),
        ncu_row(0, "Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "806.38"),
    )

    def test_metrics_are_named_by_their_section(self, tmp_path):
        (run,) = read_counters(page(tmp_path / "x.csv", details_page(*self.ROWS)))
        assert by_kernel(run)[0, 4711, 0] == {
            "GPU Speed Of Light Throughput / Duration": 762_660,
            "GPU Speed Of Light Throughput / Memory Throughput": 50.66,
            "Memory Workload Analysis / Memory Throughput": 806.38e9,
            COUNTED_DURATION: 762_660,
        }
        assert any("rounded" in note for note in run.notes)

    @pytest.mark.parametrize("one_file", [True, False])
    def test_of_both_pages_the_raw_one_counts(self, tmp_path, one_file):
        raw, details = raw_page({"a": ""}, ncu_row(0, 3)), details_page(*self.ROWS)
        if one_file:
            page(tmp_path / "both.csv", details + raw)
        else:
            page(tmp_path / "a_details.csv", details)
            page(tmp_path / "b_raw.csv", raw)
        (run,) = read_counters(tmp_path)
        assert by_kernel(run) == {(0, 4711, 0): {"a": 3}}
        assert list(run.skipped.values()) == [1]


class TestNothing:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("==PROF== Connected\n==ERROR== The application returned an error code (1).\n",
             r"The application returned an error code \(1\)"),
            ("==PROF== Connected to process 7 (/usr/bin/nvidia-smi)\n", "no kernel was profiled"),
            ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
            (raw_page({"a": ""}), "a header but no kernels"),
            (details_page(), "a header but no kernels"),
            ('"ID","Name"\n"0","k"\n', "without 'Kernel Name'"),
        ],
    )  # fmt: skip
    def test_the_reason_is_quoted(self, tmp_path, text, words):
        with pytest.raises(TraceFormatError, match=words):
            read_counters(page(tmp_path / "x.csv", text))

    def test_every_place_where_the_last_row_may_end(self, tmp_path):
        text = raw_page({"a": "", "b": ""}, ncu_row(0, 3, 4), ncu_row(1, 56, 78))
        first = text.rstrip("\n").rindex("\n") + 2
        for end in range(first, len(text) - 2):
            (run,) = read_counters(page(tmp_path / "x.csv", text[:end]))
            assert by_kernel(run) == {(0, 4711, 0): {"a": 3, "b": 4}}, text[first:end]
            assert sum(run.repairs.values()) == 1
