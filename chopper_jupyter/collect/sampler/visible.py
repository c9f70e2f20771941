"""Which GPUs the training process sees, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CUDA = ("CUDA_VISIBLE_DEVICES",)
HIP = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def visible(
    environment: Mapping[str, str], variables: Sequence[str], uuids: Sequence[str]
) -> list[int]:
    """Return the indices of the visible GPUs, in the order in which a process counts them.

    Parameters
    ----------
    environment : mapping
        Environment of the training process.
    variables : sequence of str
        Variables that limit the GPUs; the first that is set decides.
    uuids : sequence of str
        Identity of every GPU of the machine, by index.

    Notes
    -----
    As the drivers do: entries are indices or beginnings of UUIDs, and the list ends at the first
    that names no GPU. Instances of a GPU (MIG) are none.

    Examples
    --------
    >>> visible({"CUDA_VISIBLE_DEVICES": "2,0"}, CUDA, ["GPU-a", "GPU-b", "GPU-c"])
    [2, 0]
    >>> visible({"CUDA_VISIBLE_DEVICES": "GPU-b,7,0"}, CUDA, ["GPU-a", "GPU-b"])
    [1]
    >>> visible({}, CUDA, ["GPU-a", "GPU-b"])
    [0, 1]
    """
    setting = next((environment[name] for name in variables if name in environment), None)
    if setting is None:
        return list(range(len(uuids)))
    found = []
    for entry in setting.split(","):
        index = _index(entry.strip(), uuids)
        if index is None:
            break
        found.append(index)
    return found


def _index(entry: str, uuids: Sequence[str]) -> int | None:
    if entry.isdigit():
        return int(entry) if int(entry) < len(uuids) else None
    matches = [i for i, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
