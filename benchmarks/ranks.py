"""Many small ranks: one process against two, and the memory of the parent from 8 to 64 ranks.

    python benchmarks/ranks.py [--ranks 64] [--events 20000] [--runs 5]

Each reading runs in a fresh process. CPU seconds are those of the reading process and of its
workers together. Prints medians, and the ratio of the two ways in the same pair of runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from builders import BASE_NS, Rank

READ = """
import json, resource, sys, time
from chopper_jupyter import read_trace
begin = time.perf_counter()
trace = read_trace(sys.argv[1], workers=int(sys.argv[2]), progress=False)
wall = time.perf_counter() - begin
spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
status = dict(line.split(":") for line in open("/proc/self/status"))
print(json.dumps({
    "wall": wall, "cpu": sum(s.ru_utime + s.ru_stime for s in spent),
    "events": trace.quality.events_read, "kernels": trace.kernels.num_rows,
    "tables": sum(t.nbytes for t in trace.tables.values()),
    "peak": 1024 * int(status["VmHWM"].split()[0]),
    "anonymous": 1024 * int(status["RssAnon"].split()[0]),
}))
"""


def write_ranks(folder: Path, ranks: int, events: int) -> int:
    """Write copies of one rank, each with its number and its own clock; return their text size."""
    rank = Rank(rank=0, world_size=ranks)
    seq = 0
    while len(rank.events) < events:
        rank.mark(seq)
        with rank.module("", "Model"):
            for layer in range(8):
                seq += 1
                with rank.module(f"layers.{layer}", "Block"), rank.module(f"layers.{layer}.fc"):
                    with rank.op("aten::linear", seq=seq), rank.op("aten::mm"):
                        rank.launch("gemm_bf16_256x128", dur=9)
                    with rank.op("aten::relu"):
                        rank.launch("elementwise_relu", dur=2)
    document = rank.document()
    body = json.dumps(document.pop("traceEvents"))
    folder.mkdir()
    for number in range(ranks):
        document["distributedInfo"]["rank"] = number
        document["baseTimeNanoseconds"] = BASE_NS + 1000 * number
        text = json.dumps(document)[:-1] + ', "traceEvents": ' + body + "}"
        (folder / f"rank_{number}.json.gz").write_bytes(gzip.compress(text.encode(), 1))
    return ranks * len(text)


def read(folder: Path, workers: int) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder), str(workers)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def speed(folder: Path, runs: int) -> None:
    pairs = [(read(folder, 1), read(folder, 2)) for _ in range(runs)]  # interleaved
    for at, name in enumerate(("1 process", "pool of 2")):
        wall, cpu = (statistics.median(pair[at][key] for pair in pairs) for key in ("wall", "cpu"))
        print(f"  {name}: {wall:6.2f} s wall, {cpu:6.2f} s CPU")
    for key in ("wall", "cpu"):
        ratios = [pair[1][key] / pair[0][key] for pair in pairs]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"  {key} of the pool / one process: {statistics.median(ratios):.2f} ({spread})")


def memory(folder: Path, ranks: int, events: int) -> None:
    print("  ranks  parent's peak  of it private at the end  merged tables (MB)")
    sizes = sorted({max(ranks // 8, 1), max(ranks // 2, 1), ranks})
    for count in sizes:
        part = folder / f"of_{count}"
        write_ranks(part, count, events)
        for workers in (1, 2):
            found = read(part, workers)
            peak, private, tables = (found[k] / 1e6 for k in ("peak", "anonymous", "tables"))
            how = "pool of 2" if workers == 2 else "1 process"  # noqa: PLR2004
            print(f"  {count:5d}  {peak:13.0f}  {private:24.0f}  {tables:13.0f}   {how}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = write_ranks(Path(folder) / "all", options.ranks, options.events)
        print(f"{options.ranks} ranks of {options.events:,} events, {size / 1e6:.0f} MB of text")
        speed(Path(folder) / "all", options.runs)
        memory(Path(folder), options.ranks, options.events)


if __name__ == "__main__":
    main()
