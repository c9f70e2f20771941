import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from builders import llama_trace, trace_of

from chopper_jupyter.core.analysis.headline import headline
from chopper_jupyter.core.analysis.iteration_time import iteration_time

MS = 1_000_000


def run(**info):
    """Two GPUs, four iterations of 10 ms; GPU 1 idles 2 ms more in iteration 3."""
    rows = [
        {
            "gpu": g, "iteration": i, "op": "mm" if g else "add", "dur_ns": 8 * MS,
            "idle_ns": (4 if (g, i) == (1, 3) else 2) * MS,
        }
        for g in range(2) for i in range(4)
    ]  # fmt: skip
    return trace_of(rows, name="run", **info)


def facts(trace):
    return dict(headline(trace).facts)


def test_iteration_time_is_the_slowest_gpu_and_its_median():
    found = iteration_time(run())
    assert found.wall_ns.tolist() == [10 * MS, 10 * MS, 10 * MS, 12 * MS]
    assert found.median_ns == 10 * MS
    assert facts(run())["Iteration"] == (
        "10.0 ms on the slowest GPU, median of 4 iterations (10.0 to 12.0 ms)"
    )


def test_warm_up_is_left_out_and_said_so():
    said = facts(run(warmup=2))
    assert "11.0 ms on the slowest GPU, median of 2 iterations" in said["Iteration"]
    assert said["Covers"] == "iterations 2 to 3 (2 warm-up left out)"


def test_tokens_per_second_only_if_known():
    assert iteration_time(run(tokens_per_iteration=500)).tokens_per_second == 50_000
    assert facts(run(tokens_per_iteration=500))["Iteration"].endswith("; 50,000 tokens/s")
    assert "tokens" not in str(headline(run()))


def test_time_is_split_and_top_ops_have_shares():
    trace = trace_of(
        [
            {"iteration": 0, "op": "mm", "dur_ns": 60},
            {"iteration": 0, "op": "all_reduce", "kind": "collective", "dur_ns": 40, "busy_ns": 20},
            {"iteration": 0, "op": None, "dur_ns": 10, "idle_ns": 10},
        ]
    )
    said = facts(trace)
    assert said["Time"] == "busy 90.0 % (compute 70.0 %, exposed communication 20.0 %), idle 10.0 %"
    assert said["Top ops"] == "mm 54.5 %, all_reduce 36.4 %, other 9.1 % of kernel time"
    assert said["Iteration"] == "100 ns, one iteration"


def test_the_whole_recording_counts_if_it_has_no_iterations():
    said = facts(trace_of([{"dur_ns": 5 * MS}, {"dur_ns": 5 * MS, "idle_ns": 10 * MS}]))
    assert said["Wall time"] == "20.0 ms"
    assert said["Covers"] == "the whole recording (no iterations found)"


def test_kernels_outside_iterations_are_counted():
    said = facts(trace_of([{"iteration": 0}, {}, {}]))
    assert said["Covers"] == "iteration 0; 2 kernels outside any iteration left out"


def test_without_ops_the_top_kernels_are_named_shortly():
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"
    said = facts(trace_of([{"name": name}]))
    assert "elementwise" in said["Top ops"]
    assert "native" not in said["Top ops"]


def test_a_very_long_op_name_is_shortened_in_the_middle():
    said = facts(trace_of([{"op": "begin" + "x" * 1000 + "end"}]))["Top ops"]
    assert said.startswith("beginxxx")
    assert said.endswith("xxxend 100.0 % of kernel time")
    assert len(said) < 90


def test_an_empty_trace_says_so():
    assert headline(trace_of([])).lines == ["trace: 0 GPUs", "  Data  No kernels recorded"]


def test_a_cpu_recording_speaks_of_cpu_operators():
    text = str(headline(trace_of([{"iteration": 0, "op": "aten::mm"}], device_kind="cpu")))
    assert text.startswith("trace: CPU operators, no GPU recorded")
    assert "of CPU operator time" in text
    assert "kernel" not in text
    assert "communication" not in text


def test_what_recording_cost_missing_ranks_and_simulation_are_said():
    cost = {"stop_s": 0.14, "bytes": 2_000_000, "ratio": 1.5, "recorded_iteration_s": None}
    trace = run(run={"profiler_cost": cost}, missing_ranks=(2, 3), simulated=True)
    said = facts(trace)
    assert said["Recording"] == (
        "iterations took 1.50 times as long; 140 ms to start, stop and write 2.00 MB"
    )
    assert said["Data"] == "good: 100.0 % linked; no recording of ranks 2, 3"
    assert headline(trace).title.endswith("[simulated]")


def test_data_quality_that_is_not_good_shows():
    trace = run()
    poor = replace(trace, quality=replace(trace.quality, linked={"op": 0.5}, repairs={"cut": 2}))
    assert facts(poor)["Data"] == "partial: 50.0 % linked, 2 repairs"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_keeps_to_what_a_sanitizer_lets_through():
    parser = Tags()
    parser.feed(headline(run())._repr_html_())
    assert {tag for tag, _ in parser.found} <= {"div", "table", "tr", "td"}
    assert {name for _, attrs in parser.found for name, _ in attrs} == {"style"}
    assert not parser.open


def test_html_sets_no_colour_so_that_it_reads_in_any_theme():
    assert not re.search("color|background", headline(run())._repr_html_())


def test_names_are_never_markup():
    trace = trace_of([{"iteration": 0, "op": "<img src=x>"}], name="<b>&run</b>")
    shown = headline(trace)._repr_html_()
    assert "<img" not in shown
    assert "<b>" not in shown
    assert "&lt;b&gt;&amp;run&lt;/b&gt;" in shown


def test_a_real_size_headline_is_about_six_lines():
    trace = llama_trace(gpus=2, iterations=2, layers=2)
    assert str(trace.headline()) == str(headline(trace))
    assert 5 <= len(headline(trace).lines) <= 8


@pytest.mark.parametrize("noted", [None, {}, 3, {"note": "text"}])
def test_an_unknown_cost_is_left_out(noted):
    assert "Recording" not in facts(run(run={"profiler_cost": noted}))
