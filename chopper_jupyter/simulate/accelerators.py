"""The accelerators a run can be simulated on: peaks and what limits real kernels and links.

Peaks are the vendors' published ones. The simulator keeps its own small table: it must not take
its answers from the code that is tested with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from chopper_jupyter.core.errors import unknown_name


@dataclass(frozen=True)
class Accelerator:
    """One GPU model.

    Parameters
    ----------
    product : str
        Name that the driver gives.
    vendor : {"amd", "nvidia"}
        HIP names and rocprofv3 counters, or CUDA names.
    units, simds, dies : int
        Compute units, SIMDs in each, and accelerator dies.
    matrix_tflops : float
        Dense bf16 peak in TFLOP/s at ``clock_mhz``.
    clock_mhz, memory_clock_mhz : float
        Clock of the matrix peak; memory clock.
    memory_gb_s : float
        Peak memory bandwidth in GB/s.
    memory_gib : float
        Memory in GiB.
    link_gb_s : float
        Bandwidth of a GPU to all others of its host, each direction, in GB/s.
    power_w : float
        Board power limit in W.
    """

    product: str
    vendor: str
    units: int
    simds: int
    dies: int
    matrix_tflops: float
    clock_mhz: float
    memory_clock_mhz: float
    memory_gb_s: float
    memory_gib: float
    link_gb_s: float
    power_w: float

    @property
    def amd(self) -> bool:
        """Whether it is programmed by HIP."""
        return self.vendor == "amd"

    @property
    def peak_flops(self) -> float:
        """Dense bf16 peak in FLOP/s."""
        return self.matrix_tflops * 1e12

    @property
    def flops_per_clock(self) -> float:
        """Bf16 FLOPs of the whole GPU in one clock."""
        return self.peak_flops / (self.clock_mhz * 1e6)


ACCELERATORS = {
    "MI300X": Accelerator(
        "AMD Instinct MI300X", "amd", 304, 4, 8, 1307.4, 2100, 1300, 5300, 192, 448, 750
    ),
    "H100": Accelerator(
        "NVIDIA H100 80GB HBM3", "nvidia", 132, 4, 8, 989.4, 1830, 2619, 3350, 80, 450, 700
    ),
}  # fmt: skip


def accelerator(name: str) -> Accelerator:
    """Return an accelerator by its short name.

    Examples
    --------
    >>> accelerator("MI300X").units
    304
    """
    if name not in ACCELERATORS:
        raise unknown_name(what="simulated hardware", name=name, known=ACCELERATORS)
    return ACCELERATORS[name]
