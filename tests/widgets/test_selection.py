import numpy as np
import pytest
from builders import llama_trace, trace_of

from chopper_jupyter.core.analysis.cube import level_codes
from chopper_jupyter.core.errors import SchemaError
from chopper_jupyter.widgets.members import distinct, members_of, short_layers
from chopper_jupyter.widgets.selection import checked, checked_order, from_labels, to_labels


@pytest.fixture(scope="module")
def codes():
    return level_codes(llama_trace(gpus=2, iterations=2, layers=20))


def round_trip(selection, codes):
    members = members_of(codes, "gpu")
    return from_labels(to_labels(checked(selection, codes), members, codes), members, codes)


@pytest.mark.parametrize(
    "selection",
    [
        {},
        {"phase": "forward"},
        {"layer": "model.layers.3", "op": "mlp.gate_proj"},
        {"gpu": 1, "iteration": 0},
        {"layer": None},
        {"kernel": "gemm_forward_bf16_kernel<mlp.gate_proj>"},
    ],
)
def test_a_selection_survives_the_way_to_the_browser_and_back(codes, selection):
    assert dict(round_trip(selection, codes)) == selection


def test_pairs_keep_their_order_and_the_last_value(codes):
    pairs = [("op", "clip"), ("phase", "forward"), ("op", "aten::add")]
    assert checked(pairs, codes) == [("op", "aten::add"), ("phase", "forward")]
    assert checked(None, codes) == []


@pytest.mark.parametrize("gpu", [1, "1", "GPU 1", np.int32(1)])
def test_numbers_may_be_spelt_in_several_ways(codes, gpu):
    assert checked({"gpu": gpu}, codes) == [("gpu", 1)]


def test_labels_are_numbers_for_gpus_and_iterations_and_text_else(codes):
    pairs = checked({"gpu": 1, "iteration": 0, "phase": "backward", "layer": None}, codes)
    labels = to_labels(pairs, members_of(codes, "gpu"), codes)
    assert labels == [["gpu", 1], ["iteration", 0], ["phase", "backward"], ["layer", None]]


def test_long_names_are_selected_by_their_clipped_label():
    rows = [{"name": f"{'k' * 3000}{i}{'k' * 3000}"} for i in range(3)]
    codes = level_codes(trace_of(rows))
    for row in rows:
        assert dict(round_trip({"kernel": row["name"]}, codes)) == {"kernel": row["name"]}


def test_what_the_browser_says_wrongly_is_left_out(codes):
    said = [["phase", "no such"], ["level", 1], ["gpu", 99], ["op", "clip"], ["x", None]]
    assert from_labels(said, members_of(codes, "gpu"), codes) == [("op", "clip")]


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"lyer": "x"}, "did you mean 'layer'"),
        ({"phase": "forwrd"}, "no phase named 'forwrd'; did you mean 'forward'"),
        ({"gpu": 9}, "no gpu named '9'"),
        ({"gpu": "x"}, "no gpu named 'x'"),
        ({"iteration": 1.5}, "no iteration named '1.5'"),
        ({"layer": "model.layers.99"}, "did you mean 'model.layers.9'? 20 exist"),
        ({"phase": None}, "every kernel of this trace has a value for 'phase'"),
    ],
)
def test_what_does_not_exist_is_an_error_with_near_names(codes, selection, said):
    with pytest.raises(SchemaError) as caught:
        checked(selection, codes)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500


def test_an_order_is_completed():
    assert checked_order(["gpu", "gpu"], ["op", "gpu"]) == ["gpu", "op"]
    with pytest.raises(SchemaError, match="did you mean 'phase'"):
        checked_order(["phse"], ["op"])


@pytest.mark.parametrize(
    ("layers", "short"),
    [
        (["lm_head", "model.norm"], ["lm_head", "norm"]),
        (["h.0", "h.1"], ["h.0", "h.1"]),
        (["0", "1"], ["0", "1"]),
        (
            ["m.encoder.layers.0", "m.encoder.layers.1", "m.decoder.layers.0"],
            ["encoder.layers.0", "encoder.layers.1", "decoder.layers.0"],
        ),
        (["a.norm", "b.norm", "norm"], ["a.norm", "b.norm", "norm"]),
        (
            ["layers.0.experts.1", "layers.1.experts.1"],
            ["layers.0.experts.1", "layers.1.experts.1"],
        ),
    ],
)
def test_layers_are_shortened_as_far_as_they_stay_apart(layers, short):
    assert short_layers(layers) == short


def test_labels_stay_distinct_even_against_numbered_ones():
    labels = distinct(["a", "a (2)", "a", "a"])
    assert labels == ["a", "a (2)", "a (3)", "a (4)"]
