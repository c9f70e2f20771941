"""On a machine with a GPU: record a small Llama, look at what came back, and print a table.

Runs the magic's recording with telemetry, and one counter pass where a counter tool answers. Each
line says what was checked, what was found, and whether it makes sense. At most eight minutes;
without a GPU it says so and ends well.
"""

from __future__ import annotations

import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch

if TYPE_CHECKING:
    from chopper_jupyter import Trace

WIDTH, LAYERS, BATCH, SEQUENCE, VOCABULARY = 2048, 8, 4, 1024, 32000
ITERATIONS = 10
SCRIPT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "tests")!r})
import models, torch
from chopper_jupyter.collect.replay import limit
model = models.Llama(vocab={VOCABULARY}, width={WIDTH}, hidden={4 * WIDTH}, layers={LAYERS},
                     heads=16, kv_heads=4, length={SEQUENCE}).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
tokens, targets = (t.cuda() for t in models.batch({BATCH}, {SEQUENCE}, {VOCABULARY}))
limit.begin(warmup=1, iterations=1)
for _ in range(4):
    models.cross_entropy(model(tokens), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class Line(NamedTuple):
    what: str
    found: str
    good: bool


def main() -> int:
    if not torch.cuda.is_available():
        print("no GPU: nothing to check here")
        return 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        trace = record(run)
        lines = [*levels(trace), *sensors(trace), *counters(run)]
    name = torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, {time.monotonic() - begun:.0f} s")
    for line in lines:
        print(f"{'ok ' if line.good else 'BAD'} {line.what:44} {line.found}")
    return 0 if all(line.good for line in lines) else 1


def record(run: Path) -> Trace:
    import models

    from chopper_jupyter import profile

    torch.manual_seed(0)
    model = models.Llama(
        vocab=VOCABULARY, width=WIDTH, hidden=4 * WIDTH, layers=LAYERS, heads=16, kv_heads=4,
        length=SEQUENCE,
    ).cuda().bfloat16()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens, targets = (t.cuda() for t in models.batch(BATCH, SEQUENCE, VOCABULARY))

    def step() -> None:
        models.cross_entropy(model(tokens), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    torch.cuda.synchronize()
    with profile(run, warmup=2, iterations=ITERATIONS, tokens=BATCH * SEQUENCE) as recording:
        time.sleep(1.5)  # the sampler starts
        for _ in range(2 * ITERATIONS):
            step()
        torch.cuda.synchronize()
    return recording.trace


def levels(trace: Trace) -> list[Line]:
    from chopper_jupyter import launch_overhead, summarize

    linked = trace.quality.linked
    lines = [
        Line("GPU recorded", str(trace.gpus["name"].to_pylist()), trace.info.device_kind == "gpu"),
        Line("iterations", str(len(trace.iterations)), len(trace.iterations) == ITERATIONS + 2),
    ]
    for level, least in {"launch": 0.99, "op": 0.97, "phase": 0.97, "iteration": 0.97}.items():
        share = linked.get(level, 0.0)
        lines.append(Line(f"kernel time with {level}", f"{share:.1%}", share >= least))
    phases = summarize(trace, "phase", ["time"]).set_index("phase")["time_ms"]
    ratio = float(phases["backward"] / phases["forward"])
    lines.append(Line("backward over forward", f"{ratio:.2f}", 1.5 < ratio < 3))  # noqa: PLR2004
    early = launch_overhead(trace).attrs["counts"]["started_before_launch"]
    lines.append(Line("kernels that start before their launch", str(early), early == 0))
    return lines


def sensors(trace: Trace) -> list[Line]:
    from chopper_jupyter import ChopperError, energy, frequency

    try:
        row = frequency(trace, None).iloc[0]
        clock, power = float(row["gpu_clock_mhz"]), float(row["power_w"])
        joules = float(energy(trace)["power_w"].iloc[0])
    except (ChopperError, KeyError) as error:
        return [Line("GPU sensors", textwrap.shorten(str(error), 100), good=False)]
    limits = torch.cuda.get_device_properties(0)
    top = getattr(limits, "clock_rate", 3_000_000) / 1000
    return [
        Line("mean GPU clock", f"{clock:.0f} MHz", 100 < clock <= 1.1 * top),  # noqa: PLR2004
        Line("mean power", f"{power:.0f} W", 20 < power < 1500),  # noqa: PLR2004
        Line("power by energy", f"{joules:.0f} W", 0.7 < joules / power < 1.3),  # noqa: PLR2004
    ]


def counters(run: Path) -> list[Line]:
    from chopper_jupyter import ChopperError, read_trace
    from chopper_jupyter.collect.replay.request import collect_counters

    script = run / "replay.py"
    script.write_text(SCRIPT, encoding="utf-8")
    try:
        collect_counters(run, script, ["matrix"], agreed=True, say=print)
    except ChopperError as error:
        return [Line("counters: none", textwrap.shorten(str(error), 160), good=True)]
    trace = read_trace(run, cache=False)
    counted = len(set(trace.counters["kernel_id"].to_pylist()))
    share = counted / max(1, trace.kernels.num_rows)
    return [Line("kernels with counters", f"{counted} ({share:.0%})", counted > 0)]


if __name__ == "__main__":
    sys.exit(main())
