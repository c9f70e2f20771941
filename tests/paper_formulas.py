"""Formulas (6) to (10) of the Chopper paper, written down with loops over instances and kernels."""

from __future__ import annotations

TPT_PEAK = 2048 * 304 * 2.1e9  # FLOP/s of a MI300X in bf16
FREQ_PEAK = 2.1e9
INSTANCE = ("gpu", "iteration", "phase", "layer", "op")


def paper(rows, *, units=304, dies=8, peak=TPT_PEAK, clock=FREQ_PEAK):
    """Every instance of the paper's breakdown, straight from the formulas; times in seconds."""
    instances = {}
    for row in rows:
        if row.get("kind", "compute") == "compute":
            instances.setdefault(tuple(row.get(n) for n in INSTANCE), []).append(row)
    found = {}
    for key, kernels in instances.items():
        start = min(k["start_ns"] for k in kernels)
        end = max(k["start_ns"] + k["dur_ns"] for k in kernels)
        communication = 0
        for other in rows:
            if other.get("kind") == "collective" and other["gpu"] == key[0]:
                first = max(start, other["start_ns"])
                communication += max(0, min(end, other["start_ns"] + other["dur_ns"]) - first)
        elapsed = end - start
        found[key] = {
            "elapsed": elapsed * 1e-9,
            "ratio": min(communication / elapsed, 1) if elapsed else 0,
            "start": start,
            "kernels": kernels,
        }
    return {
        key: one | _breakdown(key, found, units, dies, peak, clock) for key, one in found.items()
    }


def _breakdown(key, found, units, dies, peak, clock):
    kernels = found[key]["kernels"]
    d_act = sum(k["dur_ns"] for k in kernels) * 1e-9
    f_gemm = sum(k["flops"] or 0 for k in kernels)
    gui = _sum(kernels, "GRBM_GUI_ACTIVE")
    d_peak = None if gui is None else gui / dies / clock
    same = [
        (one["ratio"], one["start"], one["elapsed"])
        for other, one in found.items()
        if (other[0], other[2], other[4]) == (key[0], key[2], key[4])
    ]
    same.sort()
    ranks = [100 * (i + 1) / len(same) for i in range(len(same))]
    middle = min(range(len(same)), key=lambda i: (round(abs(ranks[i] - 50), 9), i))
    overlap = 1.0
    if same[middle][0] > 0 and same[0][2] > 0:
        overlap = max(same[middle][2] / same[0][2], 1.0)
    made = dict.fromkeys(("D_thr", "Ovr_inst", "Ovr_util", "Ovr_freq"))
    made |= {"D_act": d_act, "D_peak": d_peak, "Ovr_overlap": overlap}
    if not f_gemm:
        return made
    made["D_thr"] = f_gemm / peak
    mops, busy = (_sum(kernels, f"SQ_{n}") for n in ("INSTS_VALU_MFMA_MOPS_BF16",
                                                    "VALU_MFMA_BUSY_CYCLES"))  # fmt: skip
    if mops:
        made["Ovr_inst"] = 512 * mops / f_gemm
    if busy and gui is not None:
        made["Ovr_util"] = 1 / (busy / (4 * units * gui / dies))
    if d_peak:
        made["Ovr_freq"] = d_act / d_peak / overlap
    return made


def _sum(kernels, counter):
    values = [k["counters"].get(counter) for k in kernels]
    return None if None in values else sum(values)
