"""Simulates the training of a Llama and writes everything that tools would have recorded."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.errors import CollectError
from chopper_jupyter.core.run_folder import RUN_FILE, rank_file, write_run
from chopper_jupyter.simulate.accelerators import Accelerator, accelerator
from chopper_jupyter.simulate.injections import Injections
from chopper_jupyter.simulate.iteration.kernel_catalog import Catalog
from chopper_jupyter.simulate.iteration.training_step import training_step
from chopper_jupyter.simulate.model_shape import ModelShape
from chopper_jupyter.simulate.output import ncu_csv
from chopper_jupyter.simulate.output.counter_passes import Replay, Told, counted, write_counters
from chopper_jupyter.simulate.output.counter_truth import write_counter_truth
from chopper_jupyter.simulate.output.event_text import Process, stream_numbers
from chopper_jupyter.simulate.output.kineto import BASE_NS, about_rank, rank_times, write_trace
from chopper_jupyter.simulate.output.telemetry import write_telemetry
from chopper_jupyter.simulate.output.truth import FACTS_FILE, write_truth
from chopper_jupyter.simulate.timing.durations import Durations, Place, durations
from chopper_jupyter.simulate.timing.schedule import Times, schedule

if TYPE_CHECKING:
    import os

    from chopper_jupyter.simulate.iteration.script import Script

FIRST_PID, PID_STEP = 41_000, 137

NOTE = "This run is simulated: a performance model wrote it, no GPU ran."


@dataclass(frozen=True)
class Simulation:
    """A run that has been worked out and not been written yet."""

    shape: ModelShape
    place: Place
    injected: Injections
    warmup: int
    script: Script
    work: Durations
    times: Times
    processes: list[Process]

    def host(self, rank: int) -> str:
        """Return the name of the host of a rank."""
        return f"simulated-{rank * self.place.hosts // self.place.ranks}"


def llama_fsdp(  # noqa: PLR0913  every one is a dimension of the run
    folder: str | os.PathLike[str],
    *,
    version: int = 2,
    batch: int = 2,
    sequence: int = 4096,
    layers: int = 32,
    ranks: int = 8,
    hosts: int = 1,
    iterations: int = 10,
    warmup: int = 2,
    hardware: str = "MI300X",
    injections: Injections | None = None,
    seed: int = 0,
) -> Path:
    """Simulate training Llama 3 8B under FSDP and write a complete run folder.

    A performance model, not a measurement: the folder, and every display made from it, says
    ``simulated``. What the model was told to suffer from is in ``truth.json``, what that did to
    each kernel in ``truth.parquet``.

    Parameters
    ----------
    folder : path-like
        Folder to write; it must not exist, be empty, or be an earlier simulated run's.
    version : {1, 2}
        FSDP version 1 or 2. Version 2 copies more, and holds higher and steadier clocks.
    batch, sequence : int
        Sequences per GPU, and tokens of each.
    layers : int
        Layers of the model, at least 2; the sizes inside are those of Llama 3 8B.
    ranks, hosts : int
        GPUs in all, and hosts that they are spread over evenly.
    iterations, warmup : int
        Recorded iterations, and those before them that only the counter runs hold.
    hardware : {"MI300X", "H100"}
        The GPU.
    injections : Injections, optional
        Disturbances; none by default.
    seed : int
        Seed of all randomness: the same arguments give the same files.

    Returns
    -------
    pathlib.Path
        The run folder: ``run.json``, one trace per rank, counters, telemetry, and the truth.

    Raises
    ------
    CollectError
        If the folder holds something else.
    ValueError
        If the arguments describe no run.
    SchemaError
        If the hardware is not known.

    Examples
    --------
    >>> import tempfile
    >>> from chopper_jupyter import read_trace
    >>> run = llama_fsdp(tempfile.mkdtemp(), layers=2, ranks=2, iterations=1, sequence=512)
    >>> read_trace(run).info.simulated
    True
    """
    injected = injections or Injections()
    shape = ModelShape(batch, sequence, layers)
    place = Place(accelerator(hardware), version, ranks, hosts, iterations)
    _check(shape, place, injected, warmup)
    target = _empty_folder(Path(folder))
    rng = np.random.default_rng(seed)
    catalog = Catalog(amd=place.hardware.amd)
    script = training_step(shape, catalog, version, ranks)
    work = durations(script.launches, place, injected, rng)
    times = schedule(script, work, place, injected)
    processes = [_process(rank, place) for rank in range(ranks)]
    run = Simulation(shape, place, injected, warmup, script, work, times, processes)
    _write(target, run, seed)
    return target


def _check(shape: ModelShape, place: Place, injected: Injections, warmup: int) -> None:
    counts = {"batch": shape.batch, "sequence": shape.sequence, "ranks": place.ranks,
              "hosts": place.hosts, "iterations": place.iterations}  # fmt: skip
    wrong = [f"{name}={value}" for name, value in counts.items() if value < 1]
    wrong += [f"warmup={warmup}"] if warmup < 0 else []
    wrong += [f"layers={shape.layers} (at least 2)"] if shape.layers < 2 else []  # noqa: PLR2004
    wrong += [f"version={place.version} (1 or 2)"] if place.version not in (1, 2) else []
    if not wrong and place.ranks % place.hosts:
        wrong.append(f"ranks={place.ranks} is no multiple of hosts={place.hosts}")
    named = [*injected.clock_offset_ns, *(injected.straggler or ())[:1]]
    wrong += [f"there is no rank {r}" for r in named if not 0 <= r < place.ranks]
    if wrong:
        msg = f"no such run: {', '.join(wrong)}"
        raise ValueError(msg)


def _empty_folder(folder: Path) -> Path:
    """Make the folder; of an earlier simulated run remove what it wrote."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            _remove_simulated(folder)
    except OSError as error:
        msg = f"cannot write the run folder: {error}"
        raise CollectError(msg) from error
    return folder


def _remove_simulated(folder: Path) -> None:
    try:
        run = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
        simulated = bool(run["simulated"])
    except (OSError, ValueError, KeyError, TypeError):
        simulated = False
    if not simulated:
        msg = f"{folder} holds something else than a simulated run; give another folder"
        raise CollectError(msg)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


def _process(rank: int, place: Place) -> Process:
    pid = FIRST_PID + PID_STEP * rank
    device = rank % (place.ranks // place.hosts)
    streams = stream_numbers(amd=place.hardware.amd)
    return Process(rank, place.ranks, device, pid, pid + 61, streams, place.hardware.amd)


def _write(folder: Path, run: Simulation, seed: int) -> None:
    gpus = run.place.ranks // run.place.hosts
    for process in run.processes:
        rank = process.rank
        offset = run.injected.clock_offset_ns.get(rank, 0)
        about = about_rank(process, run.place.hardware, run.host(rank), gpus)
        write_trace(rank_file(folder, rank), run.script, rank_times(run.times, rank, offset),
                    process, about, run.warmup)  # fmt: skip
    write_telemetry(folder, run, seed)
    write_truth(folder, run.script, run.work, run.times, run.processes, run.warmup)
    changed = write_counter_truth(folder, run, _write_counters(folder, run, seed))
    facts = {**_facts(run, seed), "kernels_changed": changed}
    (folder / FACTS_FILE).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    write_run(folder, _description(run))


def _write_counters(folder: Path, run: Simulation, seed: int) -> list[Told]:
    """Write the counter runs; they have randomness of their own, so the timed run stays."""
    ranks = range(run.place.ranks)
    replay = Replay(
        run.warmup + run.place.iterations,
        {process.rank: process.device for process in run.processes},
        {rank: run.host(rank) for rank in ranks},
    )
    kernels = counted(run.script.launches, run.work, run.place.hardware)
    rng = np.random.default_rng([seed, 1])
    hardware, injected = run.place.hardware, run.injected
    if hardware.amd:
        return write_counters(folder, kernels, hardware, replay, injected, rng)
    return ncu_csv.write_counters(
        folder, run.script.launches, kernels, hardware, replay, injected, rng
    )


def _facts(run: Simulation, seed: int) -> dict[str, Any]:
    injected = asdict(run.injected)
    injected["clock_loss"] = [
        {"key": key, "factor": factor} for key, factor in run.injected.clock_loss.items()
    ]
    offsets = {r: run.injected.clock_offset_ns.get(r, 0) for r in range(run.place.ranks)}
    straggler = run.injected.straggler
    return {
        "simulated": True,
        "seed": seed,
        "base_ns": BASE_NS,
        "clock_offset_ns": offsets,
        "straggler": straggler and {"rank": straggler[0], "late_ns": straggler[1]},
        "clock_mhz": run.work.clock.T.tolist(),
        "peak_clock_mhz": run.place.hardware.clock_mhz,
        "injections": injected,
    }


def _description(run: Simulation) -> dict[str, Any]:
    place, shape = run.place, run.shape
    tokens = shape.tokens * place.ranks
    return {
        "name": f"Llama 3 8B, FSDP{place.version}, b{shape.batch} s{shape.sequence} (simulated)",
        "simulated": True,
        "simulation": {
            "model": asdict(shape), "hardware": _product(place.hardware),
            "version": place.version, "ranks": place.ranks, "hosts": place.hosts,
        },
        "created_ns": BASE_NS,
        "host": run.host(0),
        "device_kind": "gpu",
        "options": {"warmup": 0, "iterations": place.iterations, "tokens": tokens},
        "recorded_iterations": place.iterations,
        "world_size": place.ranks,
        "ranks": {str(rank): "complete" for rank in range(place.ranks)},
        "notes": [NOTE],
    }  # fmt: skip


def _product(hardware: Accelerator) -> str:
    return hardware.product
