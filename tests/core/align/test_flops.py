"""FLOPs of single calls, against loops over every multiply-add and torch's own signatures."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align import flops_attention, flops_convolution
from chopper_jupyter.core.align.flops import flops_of, has_formula

torch = pytest.importorskip("torch")


def flops(name, shapes, written=None):
    found = flops_of(name, json.dumps(shapes), None if written is None else json.dumps(written))
    return None if found is None else found.count


PRODUCTS = [
    ("aten::mm", [[3, 5], [5, 7]], 2 * 3 * 5 * 7),
    ("aten::addmm", [[7], [3, 5], [5, 7], [], []], 2 * 3 * 5 * 7),
    ("aten::bmm", [[2, 3, 5], [2, 5, 7]], 2 * 2 * 3 * 5 * 7),
    ("aten::baddbmm", [[2, 3, 7], [2, 3, 5], [2, 5, 7], [], []], 2 * 2 * 3 * 5 * 7),
    ("aten::linear", [[4, 2, 5], [7, 5], [7]], 2 * 8 * 5 * 7),
    ("aten::linear", [[5], [7, 5], []], 2 * 5 * 7),
    ("aten::mv", [[3, 5], [5]], 2 * 3 * 5),
    ("aten::dot", [[5], [5]], 2 * 5),
    ("aten::_scaled_mm", [[32, 64], [64, 16], [], []], 2 * 32 * 64 * 16),
    ("aten::_grouped_mm", [[96, 7], [4, 7, 20], [4]], 2 * 96 * 7 * 20),
    ("aten::_grouped_mm", [[7, 96], [96, 20], [4]], 2 * 96 * 7 * 20),
    ("aten::_grouped_mm", [[4, 9, 7], [4, 7, 20], []], 2 * 4 * 9 * 7 * 20),
    ("aten::_grouped_mm", [[4, 9, 7], [7, 96], [4]], 2 * 9 * 7 * 96),
]


@pytest.mark.parametrize(("name", "shapes", "expected"), PRODUCTS)
def test_products(name, shapes, expected):
    assert flops(name, shapes) == expected


@given(st.data())
def test_matmul_broadcasts_as_numpy_does(data):
    sizes = st.integers(1, 3)
    batch = data.draw(st.lists(sizes, max_size=2))
    m, k, n = (data.draw(sizes) for _ in "mkn")
    left = [1 if data.draw(st.booleans()) else size for size in batch]
    right = batch[data.draw(st.integers(0, len(batch))) :]
    a, b = [*left, m, k], [*right, k, n]
    if data.draw(st.booleans()):
        a = [k]
    elif data.draw(st.booleans()):
        b = [k]
    product = np.matmul(np.ones(a), np.ones(b))
    assert flops("aten::matmul", [a, b]) == 2 * product.size * k


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mm", [[3, 5], [6, 7]]),
        ("aten::mm", [[3, 5]]),
        ("aten::mm", [[], []]),
        ("aten::mm", [["3", 5], [5, 7]]),
        ("aten::matmul", [[2, 3, 5], [3, 5, 7]]),
        ("aten::linear", [[4, 5], [7, 6], []]),
        ("aten::conv2d", [[1, 3, 8, 8], [4, 3, 3, 3]]),
        ("aten::relu", [[3, 5]]),
        ("aten::mm", {"a": 1}),
    ],
)
def test_what_does_not_fit_is_unknown(name, shapes):
    assert flops(name, shapes) is None
    assert flops_of(name, None, None) is None


# --- Attention ----------------------------------------------------------------------------


def visible(queries, keys, diagonal):
    """Pairs a causal mask leaves; one on the diagonal counts half, as s^2 / 2 does."""
    shift = 0 if diagonal == flops_attention.TOP_LEFT else keys - queries
    pairs = itertools.product(range(queries), range(keys))
    return sum(1 if j < i + shift else 0.5 if j == i + shift else 0 for i, j in pairs)


@given(st.integers(1, 7), st.integers(1, 7), st.sampled_from(["False", "True"]), st.booleans())
def test_attention_counts_the_pairs_it_may_see(queries, keys, causal, backward):
    q, k, v = [2, 6, queries, 8], [2, 3, keys, 8], [2, 3, keys, 4]
    name = "aten::_scaled_dot_product_flash_attention" + ("_backward" if backward else "")
    written = [""] * 15
    written[11 if backward else 4] = causal
    shapes = [[2, 6, queries, 4], q, k, v] if backward else [q, k, v]
    pairs = visible(queries, keys, flops_attention.TOP_LEFT) if causal == "True" else queries * keys
    size = 3 * 8 + 2 * 4 if backward else 8 + 4
    assert flops(name, shapes, written) == 2 * 2 * 6 * pairs * size


@given(st.integers(1, 7), st.integers(0, 7))
def test_the_diagonal_of_flash_attention_ends_at_the_last_key(queries, more):
    keys = queries + more
    q, k = [2, queries, 6, 8], [2, keys, 3, 8]
    written = [""] * 15
    written[8] = "True"
    found = flops("aten::_flash_attention_forward", [q, k, k, [], []], written)
    assert found == 2 * 2 * 6 * visible(queries, keys, flops_attention.BOTTOM_RIGHT) * 16


def test_backward_is_two_and_a_half_times_forward():
    q, k = [2, 8, 64, 16], [2, 2, 64, 16]
    forward = flops(
        "aten::_scaled_dot_product_flash_attention", [q, k, k], ["", "", "", "0.", "True"]
    )
    written = [""] * 11 + ["True"]
    back = flops("aten::_scaled_dot_product_flash_attention_backward", [q, q, k, k], written)
    assert forward == 2 * 2 * 64**2 * 8 * 16
    assert back == 5 * 2 * 64**2 * 8 * 16


def test_unknown_causality_counts_in_full_and_says_so():
    shapes = json.dumps([[2, 8, 32, 8]] * 3)
    found = flops_of("aten::scaled_dot_product_attention", shapes, None)
    assert (found.count, found.certain) == (4 * 2 * 8 * 32**2 * 8, False)
    found = flops_of("FlashAttnFunc", json.dumps([[2, 32, 8, 8]] * 3), '["","","","0.","True"]')
    assert (found.count, found.certain) == (4 * 2 * 8 * 32**2 * 8, False)


@pytest.mark.parametrize(("mask", "diagonal"), [("1", "top left"), ("2", "bottom right")])
def test_kinds_of_masks_of_memory_efficient_attention(mask, diagonal):
    q, k = [2, 4, 6, 8], [2, 7, 6, 8]
    written = [""] * 9 + [mask]
    found = flops("aten::_efficient_attention_forward", [q, k, k], written)
    assert found == 2 * 2 * 6 * visible(4, 7, diagonal) * 16


def test_sequences_in_a_row_count_only_if_they_are_equally_long():
    shapes = [[32, 6, 8]] * 3 + [[5], [5]]
    equal = ["", "", "", "", "", "8", "8", "0.", "True"]
    assert flops("aten::_flash_attention_forward", shapes, equal) == 2 * 4 * 6 * 32 * 16
    longer = ["", "", "", "", "", "9", "9", "0.", "True"]
    assert flops("aten::_flash_attention_forward", shapes, longer) is None
    assert flops("aten::_flash_attention_forward", shapes[:3], equal) is None


def test_a_window_hides_keys_that_nobody_counts():
    shapes = [[2, 32, 6, 8]] * 3
    written = ["", "", "", "0.", "0.125", "True", "-1", "0"]
    assert flops("flash_attn::_flash_attn_forward", shapes, written) == 2 * 2 * 6 * 512 * 16
    written[6] = "16"
    assert flops("flash_attn::_flash_attn_forward", shapes, written) is None


def arguments(name):
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"))
    overload = packet.default if "default" in packet.overloads() else packet.input
    return [argument.name for argument in overload._schema.arguments]


@pytest.mark.parametrize("name", [n for n in flops_attention._FORMS if n.startswith("aten::")])
def test_arguments_of_attention_are_where_torch_has_them(name):
    form, names = flops_attention._FORMS[name], arguments(name)
    assert names[form.query : form.query + 3] == ["query", "key", "value"]
    assert names[form.causal] in ("is_causal", "custom_mask_type")
    if form.lengths is not None:
        lengths = names[form.lengths : form.lengths + 4]
        assert lengths[0] in ("cum_seq_q", "cu_seqlens_q")
        assert lengths[2] in ("max_q", "max_seqlen_q")


# --- Convolutions -------------------------------------------------------------------------


@pytest.mark.parametrize("name", flops_convolution._FORMS)
def test_arguments_of_convolutions_are_where_torch_has_them(name):
    form, names = flops_convolution._FORMS[name], arguments(name)
    assert (names[form.stride], names[form.padding]) == ("stride", "padding")
    assert form.dilation is None or names[form.dilation] == "dilation"
    assert isinstance(form.transposed, bool) or names[form.transposed] == "transposed"


def test_arguments_of_the_backward_are_where_torch_has_them():
    names = arguments("aten::convolution_backward")
    assert names[:3] == ["grad_output", "input", "weight"]
    assert names[flops_convolution._BACKWARD_TRANSPOSED] == "transposed"
    assert names[flops_convolution._BACKWARD_MASK] == "output_mask"


@given(st.data())
def test_convolutions_count_every_multiply_add_of_the_real_output(data):
    small = st.integers(1, 3)
    spatial = data.draw(small)
    stride, padding, dilation, groups = (data.draw(small) for _ in range(4))
    kernel = [data.draw(small) for _ in range(spatial)]
    given_shape = [2, groups * data.draw(small), *[data.draw(st.integers(7, 9))] * spatial]
    convolve = [torch.conv1d, torch.conv2d, torch.conv3d][spatial - 1]
    weight = [groups * 2, given_shape[1] // groups, *kernel]
    out = convolve(
        torch.zeros(given_shape), torch.zeros(weight), None, stride, padding, dilation, groups
    )
    expected = 2 * out.numel() * int(np.prod(weight[1:]))
    written = ["", "", "", f"[{stride}]", f"[{padding}]", f"[{dilation}]", str(groups)]
    assert flops(f"aten::conv{spatial}d", [given_shape, weight], written) == expected
    whole = [*written[:6], "False", "[0]", str(groups)]
    assert flops("aten::convolution", [given_shape, weight], whole) == expected
    shapes = [list(out.shape), given_shape, weight]
    for mask, times in (("[True, True, False]", 2), ("[False, True, True]", 1)):
        backward = ["", "", "", "", *whole[3:8], "1", mask]
        assert flops("aten::convolution_backward", shapes, backward) == times * expected


def test_transposed_convolutions_count_by_their_input():
    given_shape, weight = [2, 6, 5, 5], [6, 4, 3, 3]
    out = torch.conv_transpose2d(torch.zeros(given_shape), torch.zeros(weight), stride=2)
    expected = 2 * 2 * 25 * 6 * 4 * 9
    written = ["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"]
    assert flops("aten::conv_transpose2d", [given_shape, weight], written) == expected
    assert flops("aten::convolution", [given_shape, weight], written) == expected
    backward = ["", "", "", "", *written[3:], "[True, False, False]"]
    shapes = [list(out.shape), given_shape, weight]
    assert flops("aten::convolution_backward", shapes, backward) == expected


def test_padding_by_word():
    shapes = [[2, 3, 9, 9], [4, 3, 3, 3]]
    same = ["", "", "", "[1]", "same", "[1]", "1"]
    valid = ["", "", "", "[1]", "valid", "[1]", "1"]
    assert flops("aten::conv2d", shapes, same) == 2 * 2 * 81 * 4 * 27
    assert flops("aten::conv2d", shapes, valid) == 2 * 2 * 49 * 4 * 27


def test_lists_in_the_place_of_sizes_are_unknown():
    assert flops("aten::matmul", [[[]], [[]]]) is None
    assert flops("aten::mm", [[2, 3], [3, [4]]]) is None


@given(
    st.sampled_from(["aten::mm", "aten::matmul", "aten::conv2d", "aten::convolution_backward",
                     "aten::_flash_attention_forward", "aten::scaled_dot_product_attention"]),
    st.recursive(st.integers(-2, 9) | st.none() | st.text(max_size=2),
                 lambda inner: st.lists(inner, max_size=4)),
    st.lists(st.sampled_from(["", "True", "[1, 1]", "[0]", "same", "x", "[", "-1"]), max_size=12),
)  # fmt: skip
def test_nonsense_is_unknown_or_a_number(name, shapes, written):
    found = flops(name, shapes, written)
    assert found is None or isinstance(found, int)


def test_every_formula_says_that_it_is_there():
    assert all(has_formula(name) for name, _, _ in PRODUCTS)
    assert not has_formula("aten::relu")
