"""Names of kernels in the spellings of Kineto, rocprofv3, rocprof-compute and Nsight Compute."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align.kernel_names import normal_name, same_names

FILL = "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, {} >(int, {})"
KINETO = "void " + FILL.format("std::array<char*, 1ul>", "at::native::FillFunctor<float>")
COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
    "{lambda()#4}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&, float const&)"
    "::{lambda(int)#1}>(int, float)"
)
COPY_NCU = (
    "void elementwise_kernel<(int)128, (int)4, void gpu_kernel_impl_nocast<direct_copy_kernel_cuda"
    "(TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::[lambda() (instance 4)]"
    "::operator ()() const::[lambda(float) (instance 1)]>(TensorIteratorBase &, const T1 &)::"
    "[lambda(int) (instance 1)]>(int, T3)"
)
COPY_LLVM = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::'lambda1'()::operator()() const::'lambda2'()"
    "::operator()() const::'lambda'(float)>(at::TensorIteratorBase&, float const&)::'lambda'(int)>"
    "(int, float)"
)
MANGLED = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_"
    "T1_.kd"
)
TENSILE = (
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1"
    "_ASEM1_CLR1_CADS0_DTLA0_DTLB0_DTVA0_DTVB0_EPS0_FDSI0_GRPM1"
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gemm", "gemm.kd"),
        (TENSILE, TENSILE + ".kd"),
        (KINETO, KINETO + " [clone .kd]"),
        (KINETO, KINETO + " (.kd)"),
        (KINETO, KINETO.replace("> >", ">>")),
        (KINETO, "void " + FILL.format("at::detail::Array<char*, 1>", "float")),
        (KINETO, "void " + FILL.format("std::array<char*, (unsigned long)1>", "float")),
        (COPY, COPY_NCU),
        (COPY, COPY_LLVM),
        ("void (anonymous namespace)::k<int>(int)", "void <unnamed>::k<int>(int)"),
        ("void f<true, false>(int*)", "f<(bool)1, (bool)0>(int *)"),
        ("void at::native::softmax<float, 5>(int)", "softmax<float, (int)5>(int)"),
        ("void f<unsigned int>(int)", "void f< unsigned  int >( int )"),
        (KINETO, "at::native::vectorized_elementwise_kernel"),
        (KINETO, "vectorized_elementwise_kernel"),
        (KINETO, MANGLED),
        (TENSILE, TENSILE[:80]),
        (KINETO, KINETO[:70]),
        ("triton_poi_fused_add_mul_17", "triton_poi_fused_…"),
    ],
)  # fmt: skip
def test_spellings_of_one_kernel_are_the_same(one, other):
    for counted, traced in ((one, other), (other, one)):
        found = same_names([counted], [traced])
        assert found.counted == found.traced


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gemm", "gemv"),
        ("triton_poi_fused_add_1", "triton_poi_fused_add_10"),
        (KINETO, KINETO.replace("float", "double").replace("FillFunctor", "AddFunctor")),
        (TENSILE, TENSILE.replace("MT128x128", "MT256x128")),
        ("void f<true>(int*)", "f<(bool)0>(int *)"),
        (COPY, COPY.replace("{lambda()#4}", "{lambda()#7}")),
        ("a::f<int>", "b::g<int>"),
    ],
)
def test_different_kernels_stay_apart(one, other):
    found = same_names([one], [other])
    assert found.counted != found.traced


def test_names_that_agree_only_in_part_are_marked_and_those_known_exactly_are_not_drawn_in():
    traced = ["void f<int>(int)", "void f<float>(float)", "void g<int>(int)"]
    found = same_names(["void f<int>(int) [clone .kd]", "g"], traced)
    assert found.counted[0] == found.traced[0] != found.traced[1]
    assert found.counted[1] == found.traced[2]
    assert found.similar == {found.traced[2]}


def test_a_truncated_name_stands_for_all_that_are_left():
    found = same_names(["f"], ["void f<int>(int)", "void f<float>(float)"])
    assert {*found.counted, *found.traced} == found.similar
    assert len(found.similar) == 1


def test_the_likest_template_wins():
    traced = ["void f<Add<float>, Loader>(int)", "void f<Mul<float>, Loader>(int)"]
    counted = ["_Z1fI3MulIfE6LoaderEvi", "_Z1fI3AddIfE6LoaderEvi"]
    found = same_names(counted, traced)
    assert found.counted == found.traced[::-1]


def test_a_name_in_another_namespace_is_the_same_only_if_nothing_fits_better():
    found = same_names(["a::f<int>"], ["a::f<int>", "b::f<int>"])
    assert found.counted[0] == found.traced[0] != found.traced[1]
    found = same_names(["f<int>"], ["b::f<int>"])
    assert found.counted == found.traced
    assert not found.similar


@given(st.lists(st.text(string.printable, max_size=30), max_size=6),
       st.lists(st.text(string.printable, max_size=30), max_size=6))  # fmt: skip
def test_any_text_gives_an_answer(counted, traced):
    found = same_names(counted, traced)
    assert [len(found.counted), len(found.traced)] == [len(counted), len(traced)]
    for one, number in zip(counted, found.counted, strict=True):
        for other, its in zip(traced, found.traced, strict=True):
            if one == other:
                assert number == its
            if number == its and number not in found.similar:
                plain = [normal_name(name).rsplit("::", 1)[-1] for name in (one, other)]
                assert plain[0] == plain[1]
