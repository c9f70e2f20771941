"""The rules that every explorer payload keeps, checked field by field."""

from __future__ import annotations

from chopper_jupyter.core.schema import FAMILIES, LEVELS

TEXT = str
RULES = {
    "version": int, "title": TEXT, "device_kind": TEXT, "simulated": bool, "included": TEXT,
    "facts": [{"label": TEXT, "value": TEXT}],
    "quality": {"phrase": TEXT, "good": bool, "lines": [TEXT]},
    "instances": {"gpus": int, "iterations": int},
    "iteration_numbers": [int], "order": [TEXT],
    "families": [{"name": TEXT, "title": TEXT}],
    "measures": [{"name": TEXT, "title": TEXT, "unit": TEXT, "meaning": TEXT}],
    "breakdown": [{"name": TEXT, "title": TEXT, "ns": int}],
    "dictionaries": {
        "gpu": [{"label": TEXT, "value": int}], "iteration": [{"label": TEXT, "value": int}],
        "phase": [{"label": TEXT}], "layer": [{"label": TEXT, "short": TEXT}],
        "op": [{"label": TEXT}], "kernel": [{"label": TEXT, "short": TEXT, "family": TEXT}],
    },
}  # fmt: skip


def check_payload(payload):
    """Raise AssertionError, naming the place, where a payload breaks a rule."""
    check(payload, RULES, "payload")
    assert sorted(payload["order"]) == sorted(LEVELS)
    assert [f["name"] for f in payload["families"]] == list(FAMILIES)
    names = [m["name"] for m in payload["measures"]]
    assert set(payload["totals"]) == {*names, "wall_ns"}
    assert sum(p["ns"] for p in payload["breakdown"]) == payload["totals"]["wall_ns"]
    for metric in payload["metrics"]:
        known = {*names, "instances", "total_time_ns", "one", "time_each_ns", "other_time_each_ns"}
        assert known >= {*metric["numerator"], *metric["denominator"]}, metric["name"]
    numbers = [member["value"] for member in payload["dictionaries"]["iteration"]]
    assert payload["iteration_numbers"] == numbers
    for level, members in payload["dictionaries"].items():
        labels = [member["label"] for member in members]
        assert len(set(labels)) == len(labels), f"labels of {level} are not distinct"
    for cube in payload["cubes"]:
        check_cube(cube, payload, names)


def check_cube(cube, payload, measures):
    assert set(cube) == {"levels", "codes", "measures", "coarse"}
    assert len(cube["codes"]) == len(cube["levels"])
    assert list(cube["measures"]) == measures
    rows = {len(column) for column in [*cube["codes"], *cube["measures"].values()]}
    assert len(rows) == 1, "columns of a cube have one length"
    for level, codes in zip(cube["levels"], cube["codes"], strict=True):
        assert all(-1 <= code < len(payload["dictionaries"][level]) for code in codes)
    cells = list(zip(*cube["codes"], strict=True))
    assert len(set(cells)) == len(cells), "each combination of codes is one row"
    for name in measures:
        assert sum(cube["measures"][name]) == payload["totals"][name], (cube["levels"], name)


def check(value, rule, place):
    if isinstance(rule, dict):
        for key, inner in rule.items():
            assert key in value, f"{place} lacks {key}"
            check(value[key], inner, f"{place}.{key}")
    elif isinstance(rule, list):
        assert isinstance(value, list), place
        for i, item in enumerate(value):
            check(item, rule[0], f"{place}[{i}]")
    else:
        assert type(value) is rule, f"{place} is {type(value).__name__}"
