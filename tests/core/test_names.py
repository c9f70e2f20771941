"""Names of kernels, operators and ranges as real recordings of both vendors spell them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.names import (
    LONGEST_SHORT_NAME,
    collective_of,
    kernel_family,
    short_name,
)
from chopper_jupyter.core.schema import FAMILIES, KERNEL_KINDS

NATIVE = "void at::native::"
ADD = (
    NATIVE + "elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
    "CUDAFunctor_add<float> >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)"
    "::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<...>)"
)
COPY = (
    NATIVE + "unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#3}::operator()() const, std::array<char*, 2ul>, 4, "
    "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)"
)
FOREACH = (
    NATIVE + "(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, "
    "0>, std::multiplies<float>, float>(at::native::TensorListMetadata<1>)"
)
ADAM = "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(int)"
TENSILE = (
    "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_AFC1_ISA942_IU1.kd"
)
CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>"
    "(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8::Params)"
)
WGRAD = (
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_"
    "tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_execute_kernel_cudnn"
)
MANGLED_NORM = "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassEEEEvv"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, "
    "false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params) [clone .kd]"
)
NCCL = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, 10, true>(float*)"
LAYER_NORM = NATIVE + "(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)"


@pytest.mark.parametrize(
    ("name", "family", "short"),
    [
        (
            "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn",
            "gemm",
            "gemm bf16 256x128",
        ),
        ("volta_sgemm_128x64_nn", "gemm", "gemm fp32 128x64"),
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "gemm", "gemm bf16 144x128"),
        ("nvjet_hsh_192x192_64x3_2x1_v_bz_TNT", "gemm", "gemm fp16 192x192"),
        (
            WGRAD,
            "gemm",
            "conv_wgrad tf32 128x128",
        ),
        (TENSILE, "gemm", "gemm bf16 256x192"),
        (CUTLASS, "gemm", "gemm bf16 32x32"),
        (
            "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex0_bt128x128x32_wt32x32x8_ws1x1_wr2x2",
            "gemm",
            "conv_fprop fp16 128x128",
        ),
        ("cudnn_infer_volta_scudnn_128x64_relu_xregs_large_nn_v1", "gemm", "conv fp32 128x64"),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(float*)",
            "gemm",
            "gemvx",
        ),
        (FLASH, "attention", "flash_fwd"),
        ("attn_fwd.kd", "attention", "attn_fwd"),
        ("bwd_kernel_fuse.kd", "attention", "bwd_kernel_fuse"),
        ("bwd_preprocess.kd", "attention", "bwd_preprocess"),
        (
            "void fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::Params)",
            "attention",
            "fmha_cutlassF_bf16_aligned_64x128_rf_sm80",
        ),
        (LAYER_NORM, "norm", "vectorized_layer_norm"),
        (MANGLED_NORM, "norm", "Rmsnorm2dFwd"),
        ("MIOpenBatchNormBwdSpatial", "norm", "MIOpenBatchNormBwdSpatial"),
        (
            "triton_red_fused_add_mean_mul_pow_rsqrt_0",
            "norm",
            "triton_red_fused_add_mean_mul_pow_rsqrt_0",
        ),
        ("triton_poi_fused_mul_silu_2", "elementwise", "triton_poi_fused_mul_silu_2"),
        (ADD, "elementwise", "elementwise add"),
        (SOFTMAX, "elementwise", "softmax_warp_forward"),
        (COPY, "copy", "elementwise direct_copy"),
        (FOREACH, "optimizer", "multi_tensor mul"),
        (ADAM, "optimizer", "multi_tensor adam"),
        ("aten::mm", "gemm", "aten::mm"),
        ("aten::addmm", "gemm", "aten::addmm"),
        ("aten::convolution_backward", "gemm", "aten::convolution_backward"),
        ("aten::mkldnn_convolution", "gemm", "aten::mkldnn_convolution"),
        (
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            "attention",
            "aten::_scaled_dot_product_flash_attention_for_c…",
        ),
        ("aten::native_layer_norm", "norm", "aten::native_layer_norm"),
        ("aten::copy_", "copy", "aten::copy_"),
        ("aten::_foreach_addcdiv_", "optimizer", "aten::_foreach_addcdiv_"),
        ("aten::_foreach_copy_", "copy", "aten::_foreach_copy_"),
        ("aten::mul", "elementwise", "aten::mul"),
        ("aten::sum", "elementwise", "aten::sum"),
        ("aten::_log_softmax", "elementwise", "aten::_log_softmax"),
    ],
)
def test_compute_kernel_has_a_family_and_a_short_name(name, family, short):
    assert kernel_family(name, "compute") == family
    assert short_name(name) == short


def test_kind_decides_before_the_name():
    assert kernel_family("aten::mm", "memset") == "copy"
    assert kernel_family("aten::mm", "collective") == "communication"


def test_small_kernels_of_an_optimizer_step_belong_to_the_optimizer():
    assert kernel_family("aten::addcdiv_", "compute") == "elementwise"
    assert kernel_family("aten::addcdiv_", "compute", "optimizer_step") == "optimizer"
    assert kernel_family("aten::mm", "compute", "optimizer_step") == "gemm"


def test_softmax_of_a_math_attention_is_attention():
    op = "aten::scaled_dot_product_attention"
    assert kernel_family(SOFTMAX, "compute", op) == "attention"


def test_argument_types_do_not_mislead():
    split = "void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>, float const*)"
    finish = "void moe::dev::finalize::finalizeKernel<KernelParams<cutlass::bfloat16_t, 4> >(int)"
    fbgemm = "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*)"
    assert kernel_family(split, "compute") == "gemm"
    assert kernel_family(finish, "compute") == "elementwise"
    assert kernel_family(fbgemm, "compute") == "copy"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (NCCL, "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "reduce_scatter"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce"),
        ("ncclKernel_Reduce_RING_LL_Sum_float(ncclWorkElem)", "reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "send_recv"),
        ("ncclDevKernel_Generic_1(ncclDevComm*, channelMasks, ncclWork*)", "collective"),
        ("void rcclGenericKernel<1, false>(ncclDevComm*)", "collective"),
        ("nccl:all_reduce", "all_reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:send 0->1", "send"),
        ("nccl:coalesced", "collective"),
        ("gloo:all_gather", "all_gather"),
        ("gloo:broadcast", "broadcast"),
        ("c10d::allreduce_", "all_reduce"),
        ("c10d::_allgather_base_", "all_gather"),
        ("c10d::_reduce_scatter_base_", "reduce_scatter"),
        ("c10d::alltoall_base_", "all_to_all"),
        ("c10d::barrier", "barrier"),
        ("c10d::gather_", "gather"),
        ("_c10d_functional::reduce_scatter_tensor", "reduce_scatter"),
        ("record_param_comms", "collective"),
        ("allreduce", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("broadcast", "broadcast"),
        ("send", "send"),
        ("recv", "recv"),
        ("barrier", "barrier"),
        ("scatter", "scatter"),
        ("void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>(RankData*)", "all_reduce"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
         "all_reduce"),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*)", "all_to_all"),
        ("void deep_ep::internode_ll::combine<true, 7168>(void*)", "all_to_all"),
        ("FSDP::all_gather (layers.0)", "all_gather"),
        ("vllm::all_reduce", "all_reduce"),
    ],
)  # fmt: skip
def test_communication_is_recognised(name, kind):
    assert collective_of(name) == kind


@pytest.mark.parametrize(
    "name",
    [
        "aten::scatter_",
        "aten::gather",
        "aten::broadcast_to",
        "aten::sum",
        NATIVE + "reduce_kernel<512, 1, at::native::ReduceOp<float> >(at::native::ReduceOp<float>)",
        NATIVE + "vectorized_gather_kernel<16, long>(char*, char*, long*)",
        "fsdp::all_gather_copy_in",
        "FSDP::all_gather_copy_out (layers.0)",
        "torch.distributed.ddp.reducer::copy_bucket_to_grad",
        "void deep_ep::internode::get_dispatch_layout<256>(long const*)",
        "autograd::engine::evaluate_function: All2All_Pooled_ReqBackward",
        "chopper::module::Model::all_reduce_norm::Norm",
        "## all2all_data:kjt lengths ##",
        "_c10d_functional::wait_tensor",
        "wait",
        "",
    ],
)
def test_what_only_sounds_like_communication_is_not(name):
    assert collective_of(name) is None


@given(st.text(max_size=80) | st.from_regex(r"_Z[N0-9A-Za-z]{0,40}", fullmatch=True))
def test_any_text_is_a_name(name):
    assert len(short_name(name)) <= LONGEST_SHORT_NAME
    assert collective_of(name) != ""
    for kind in KERNEL_KINDS:
        assert kernel_family(name, kind) in FAMILIES


@pytest.mark.parametrize(
    "name", ["void f<", "a<b<c", "_Z99x", "(((", "f(int", "{lambda", "_ZN", "<>", "_Z" + "9" * 9999]
)
def test_cut_names_are_still_names(name):
    assert short_name(name)
    assert kernel_family(name, "compute") in FAMILIES


def test_a_very_long_name_costs_no_more_than_its_length():
    name = "void f<" + "g<" * 5000 + ">" * 5000 + "(int)"
    assert short_name(name) == "f"
