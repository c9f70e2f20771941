"""The gap between theoretical and actual time of ops, broken into its causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from chopper_jupyter.core.analysis.chopper_overheads import chopper_overheads
from chopper_jupyter.core.analysis.measured_overheads import measured_overheads
from chopper_jupyter.core.analysis.op_instances import levels_of
from chopper_jupyter.core.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from chopper_jupyter.core.analysis.included import Include
    from chopper_jupyter.core.trace import Trace

Method = Literal["measured", "chopper"]


def overheads(
    trace: Trace,
    by: str | Iterable[str] | None = ("phase", "op"),
    *,
    method: Method = "measured",
    include: Include = "measured",
) -> pd.DataFrame:
    """Break the gap between the theoretical and the actual time of ops into its causes.

    Everything is worked out for *instances*: one run of an op on one GPU, in one iteration,
    phase and layer (gradient accumulation and recomputation apart).

    Parameters
    ----------
    trace : Trace
        A trace with shapes; counters and the clocks of the GPUs tell more causes.
    by : str or iterable of str, optional
        Levels to keep apart: ``gpu``, ``iteration``, ``phase``, ``layer``, ``op``, or
        ``"instance"`` for all of them, ``micro_batch`` and ``recompute``. Nothing gives one row.
    method : {"measured", "chopper"}
        ``"chopper"`` follows the paper's formulas (6) to (10); ``"measured"`` measures clock and
        overlap instead of leaving them over, and says what remains unexplained.
    include : {"measured", "all"}
        ``"measured"`` leaves out warm-up and what lies outside iterations; ``"all"`` does not.

    Returns
    -------
    pandas.DataFrame
        Arrow-backed, longest time first; null where not known or not applicable.

        With ``method="measured"``, per iteration and GPU, times that add up exactly:
        ``actual_ms`` is ``theoretical_ms`` plus all parts plus ``not_modelled_ms`` (kernels whose
        least time nobody knows).

        - ``theoretical_ms``: useful operations over the peak; of other kernels the roofline;
          of collectives the bytes a link carries over its bandwidth;
        - ``instruction_ms``: operations done beyond the useful ones (padding, masks);
        - ``utilization_ms``: cycles in which the matrix units did not work;
        - ``overlap_ms``: slower beside communication, by regression over all instances;
        - ``frequency_ms``: clock below that of the peak, as sensors saw it in the timed run;
        - ``waiting_ms``: collectives that wait for the last rank; ``latency_ms``: what of them
          does not depend on the bytes, where a kind moved messages of several sizes;
        - ``unexplained_ms``: the rest, with its sign. A part that is known for less than nine
          tenths of the time to which it applies is null, and belongs to the rest;
        - ``_low`` and ``_high`` of each uncertain part: its 95 % interval;
        - ``instruction``, ``utilization``, ``overlap``, ``frequency``: the mean factors;
        - ``clock_mhz``, ``clock_samples`` (fresh readings behind it), ``clock_in_pass_mhz``
          (while counting, never used for the timed run), ``note``: why a part is null.

        With ``method="chopper"``, medians over instances: ``actual_ms`` (sum of kernel times),
        ``theoretical_ms``, the factors ``instruction``, ``utilization``, ``overlap`` (elapsed time
        at the median of the op's overlap ratio over that at its least) and ``frequency`` (all
        that is left), ``peak_ms`` (counted cycles at the clock of the peak), ``elapsed_ms``,
        ``overlap_ratio``, ``instances``, ``counted_instances``, and ``<factor>_ms``: what each
        adds, stacked in this order.

        ``attrs`` holds ``method``, ``notes``, ``units``, ``included``, ``iterations``, ``gpus``.

    Raises
    ------
    SchemaError
        If a level or method does not exist.
    MissingDataError
        If the trace lacks what the method needs.

    Notes
    -----
    Parts in ms are log shares (LMDI): each factor gets its share of the logarithm of actual over
    theoretical time, so that parts do not depend on an order and add up.

    Examples
    --------
    >>> overheads(trace, by=["phase", "op"])[["op", "frequency_ms"]]  # doctest: +SKIP
    """
    if method not in get_args(Method):
        raise unknown_name(what="method", name=method, known=get_args(Method))
    names = levels_of(by)
    if method == "chopper":
        return chopper_overheads(trace, names, include)
    return measured_overheads(trace, names, include)
