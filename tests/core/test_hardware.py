import dataclasses

import pytest

from chopper_jupyter.core import hardware
from chopper_jupyter.core.errors import SchemaError

FOUND = {
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI300X VF": "MI300X",
    "MI300X_A1": "MI300X",
    "MI300X VF": "MI300X",
    "AMD Instinct MI210": "MI210",
    "AMD Instinct MI250X": "MI250X (per GCD)",
    "AMD INSTINCT MI250 (MCM) OAM AC MBA": "MI250 (per GCD)",
    "AMD Instinct MI300A": "MI300A",
    "AMD Instinct MI355X": "MI355X",
    "gfx908": "MI100",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H200": "H200",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
    "Tesla V100-SXM2-16GB": "V100 SXM2",
    "NVIDIA B200": "B200",
    "NVIDIA GB200": "GB200 (per GPU)",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    "NVIDIA L40": "L40",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA A10": "A10",
    "NVIDIA RTX A6000": "RTX A6000",
}

UNKNOWN = [
    None,
    "",
    "cpu",
    "NVIDIA H100",
    "AMD Instinct MI250X/MI250",
    "AMD Radeon Graphics",
    "gfx942",
    "gfx90a",
    "MI350",
    "NVIDIA A100-PG509-200",
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    "NVIDIA A10G",
    "NVIDIA GH200 480GB",
    "NVIDIA H200 NVL",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce GTX 1650",
    "Tesla V100-DGXS-32GB",
]


@pytest.fixture(autouse=True)
def no_added_rows():
    yield
    hardware._added.clear()


@pytest.mark.parametrize(("name", "key"), FOUND.items())
def test_a_product_name_finds_its_row(name, key):
    found = hardware.find(name)
    assert found is not None
    assert found.gpu == key
    assert hardware.named(key) is found


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_that_says_too_little_finds_nothing(name):
    assert hardware.find(name) is None


@pytest.mark.parametrize("key", hardware.known())
def test_peak_units_and_clock_agree(key):
    row = hardware.named(key)
    peak = row.peak_flops("bf16") or row.peak_flops("fp16")
    per_clock = row.flops_per_clock_per_unit
    if peak is None or per_clock is None:
        return
    assert peak == pytest.approx(row.units * per_clock * row.matrix_clock_hz, rel=1e-9)


@pytest.mark.parametrize("key", hardware.known())
def test_every_row_finds_itself_and_says_its_source(key):
    row = hardware.named(key)
    assert hardware.find(row.gpu) in (row, None)
    assert all(hardware.find(part) in (row, None) for part in row.match)
    assert row.source
    assert row.grade in "ABC"
    assert row.unit_kind == {"amd": "CU", "nvidia": "SM"}[row.vendor]


def test_the_clock_of_the_peak_is_not_the_top_clock():
    row = hardware.named("H100 SXM")
    assert row.peak_flops("bf16") == pytest.approx(989.4e12, rel=1e-3)
    assert (row.matrix_clock_hz, row.peak_clock_mhz) == (1830e6, 1980)


def test_a_clock_that_nobody_states_follows_from_the_peak():
    assert hardware.named("GB200 (per GPU)").matrix_clock_hz == pytest.approx(2.5e15 / 148 / 8192)
    assert hardware.named("H20").matrix_clock_hz is None


def test_unknown_numbers_are_none():
    row = hardware.named("MI100")
    assert row.peak_flops("fp8") is None
    assert hardware.named("MI300A").link_gb_s is None
    assert dataclasses.replace(row, hbm_gb_s=None).bandwidth is None


def test_added_rows_are_found_first(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(
        "gpu,vendor,arch,units,bf16_tflops,tensor_clock_mhz,match\n"
        "H100 custom,nvidia,sm_90,132,900,1700,h100\n"
    )
    assert hardware.add(str(file)) == ["H100 custom"]
    found = hardware.find("NVIDIA H100 80GB HBM3")
    assert (found.gpu, found.peak_flops("bf16"), found.hbm_gb_s) == ("H100 custom", 9e14, None)
    assert hardware.find("AMD Instinct MI300X").gpu == "MI300X"
    assert "H100 custom" in hardware.known()


def test_a_row_replaces_the_one_of_its_key():
    hardware.add([{"gpu": "MI300X", "vendor": "amd", "arch": "gfx942", "units": 38, "dies": 1}])
    assert hardware.named("MI300X").units == 38
    assert hardware.find("AMD Instinct MI300X").units == 38


def test_wrong_rows_say_what_is_wrong():
    good = {"gpu": "X", "vendor": "amd", "arch": "gfx942", "units": 8}
    with pytest.raises(SchemaError, match="did you mean 'bf16_tflops'"):
        hardware.add([good | {"bf16_tflop": 1}])
    with pytest.raises(SchemaError, match="needs units"):
        hardware.add([good | {"units": ""}])
    for value in (-1, "many", float("nan"), 0):
        with pytest.raises(ValueError, match="'X' must be a positive number"):
            hardware.add([good | {"bf16_tflops": value}])
    with pytest.raises(SchemaError, match="no GPU in the hardware table named 'MI300Y'"):
        hardware.named("MI300Y")
    assert hardware._added == {}
