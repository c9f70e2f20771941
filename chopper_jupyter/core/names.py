"""What a name tells: the family of a kernel, a short readable form, the kind of communication.

Vendors, libraries and compilers each have their own way to name a kernel. Everything that has
to know one of these ways is in this module.
"""

from __future__ import annotations

import re
from functools import lru_cache

from chopper_jupyter.core.cxx_names import (
    clean,
    identifiers,
    mangled_parts,
    qualified_name,
    template_text,
)

LONGEST_SHORT_NAME = 48


# --- Communication ------------------------------------------------------------------------

_UNMISTAKABLE = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("crossdevicereduce", "all_reduce"),  # custom all-reduce of inference engines
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("all2all", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("isendirecv", "send_recv"),
)
"""Words that mean communication wherever they stand in an identifier."""

_IN_CONTEXT = (
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send"),
    ("recv", "recv"),
    ("reduce", "reduce"),
)
"""Words that mean communication only in the name of a communication library's kernel or op."""

_LIBRARY = re.compile(
    r"^(?:nccl|rccl|msccl|gloo:|mpi:|ucc:|xccl:|hccl:|c10d|_c10d_functional|nvshmem|userbuffers"
    r"|record_param_comms$)"
)
_BARE_CALL = re.compile(
    r"_?(?:broadcast|i?send|i?recv|reduce|gather|scatter|barrier|monitored_barrier|all_?barrier"
    r"|broadcast_oop|reduce_oop|recvanysource|coalesced)_?(?:coalesced)?_?"
)
_DEEP_EP = re.compile(r"deep_ep::.*?(dispatch|combine|barrier)(?!_layout)")
_NOT_COMMUNICATION = re.compile(
    r"copy|gemm|matmul|^chopper::|^#|evaluate_function|(?:wait|wrap)_tensor|optimizer\.|work::wait",
    re.IGNORECASE,
)


@lru_cache(maxsize=1 << 16)
def collective_of(name: str) -> str | None:
    """Say which collective a kernel, operator, range or recorded collective name stands for.

    Parameters
    ----------
    name : str
        Name of a kernel (``ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)``), of an operator
        (``c10d::allreduce_``), of a range (``nccl:all_reduce``) or a recorded collective name
        (``_allgather_base``).

    Returns
    -------
    str or None
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``broadcast``,
        ``reduce``, ``send``, ``recv``, ``send_recv``, ``barrier``, ``gather``, ``scatter``;
        ``"collective"`` for communication of unknown kind; None if it is no communication.

    Examples
    --------
    >>> collective_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevComm*)")
    'reduce_scatter'
    >>> collective_of("c10d::_allgather_base_"), collective_of("rcclGenericKernel<1, false>")
    ('all_gather', 'collective')
    >>> collective_of("at::native::reduce_kernel<512, 1>(float)") is None
    True
    """
    head = qualified_name(name)
    if _NOT_COMMUNICATION.search(head):
        return None
    deep = _DEEP_EP.search(head)
    if deep:
        return "barrier" if deep[1] == "barrier" else "all_to_all"
    letters = re.sub(r"[^a-z0-9]", "", head.lower())
    for word, kind in _UNMISTAKABLE:
        if word in letters:
            return kind
    lowered = head.lower()
    if not (_LIBRARY.match(lowered) or _BARE_CALL.fullmatch(lowered)):
        return None
    return next((kind for word, kind in _IN_CONTEXT if word in letters), "collective")


# --- Family -------------------------------------------------------------------------------

_OPTIMIZER_OPS = re.compile(r"optimizer|^(?:clip|zero_grad|unscale)$|_foreach_|_fused_adam")


def _any_of(patterns: str) -> re.Pattern[str]:
    """Compile patterns that white space separates into one."""
    return re.compile("|".join(patterns.split()))


_FAMILIES = (
    ("copy", _any_of("memcpy memset foreach_copy")),
    (
        "optimizer",
        _any_of(r"""multi_?tensor_?apply fused_?(?:adam|sgd|adagrad|lamb|lion) adam(?:w|functor|_|$)
            \blamb _foreach_ distributed_adam amp_update_scale (?:^|_)lion_ radam adafactor"""),
    ),
    (
        "attention",
        _any_of(r"""flash fmha attn attention sdpa scaled_(?:upper_triang_)?(?:masked_)?softmax
            bwd_(?:dkdv|dq|dk_dv) bwd_kernel_(?:d[kqv]|fuse) bwd_preprocess
            paged_kv unified_attention"""),
    ),
    (
        "gemm",
        _any_of(r"""gemm cijk_ xmma cutlass nvjet cublas gemv splitkreduce scudnn cudnn.*conv hcudnn
            wgrad dgrad fprop winograd conv(?:_|olution|olve|1d|2d|3d|$|\d) asmconv matmul
            im2(?:d2)?col col2im fft[12]d (?:^|_|:)(?:add|b|baddb|scaled_|grouped_)*mm(?:_|\d|$)
            (?:^|_|:)(?:mv|addmv|addr|dot|vdot|ger|linear|bilinear|einsum|tensordot)(?:_|$)
            mkldnn_(?:linear|rnn) rocblas (?:^|:)compute\w*offsets reduce_1block magma_.*gemm
            lstm gru_cell group(?:ed)?_?conv pointwise_mult_and_sum"""),
    ),
    (
        "norm",
        _any_of(r"""layer_?norm rms_?norm batch_?norm group_?norm instance_?norm bn_[fb]w \bbn_
            gammabeta gamma_beta rowwise_?moments norm2d norm_?(?:fwd|bwd|forward|backward)
            fusedparamscuda internalgradients rsqrt.*(?:mean|pow) (?:mean|pow).*rsqrt welford
            local_response_norm ln_(?:fwd|bwd|forward|backward)"""),
    ),
    (
        "copy",
        _any_of(r"""copy(?!.*(?:gather|scatter)) catarray (?<!masked_)fill ::_?(?:chunk_)?cat$
            ::clone$ ::(?:_to_)?copy ::zero_ ::zeros ::ones ::full ::to$ ::contiguous transpose
            nchw\w*nhwc nhwc\w*nchw permute ::stack ::concat cnhw"""),
    ),
)
"""Family by the first pattern found in the lower-cased name; what matches none is elementwise."""


@lru_cache(maxsize=1 << 16)
def kernel_family(name: str, kind: str, op: str | None = None) -> str:
    """Say to which family a kernel belongs.

    Parameters
    ----------
    name : str
        Name of a device kernel of any vendor, or of a CPU operator that counts as one.
    kind : {"compute", "collective", "memcpy", "memset"}
        Kind of the kernel.
    op : str, optional
        Operation the kernel belongs to. Inside an optimizer step, clipping, unscaling or
        zeroing, what would be elementwise, norm or copy belongs to the optimizer.

    Returns
    -------
    str
        One of ``schema.FAMILIES``. Softmax and reductions count as elementwise: they are bound
        by memory as these are. A softmax written for attention counts as attention.

    Examples
    --------
    >>> kernel_family("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "compute")
    'gemm'
    >>> kernel_family("aten::mul_", "compute", "optimizer_step")
    'optimizer'
    """
    if kind == "collective":
        return "communication"
    if kind in ("memcpy", "memset"):
        return "copy"
    text = _telling_part(name)
    family = next((family for family, pattern in _FAMILIES if pattern.search(text)), "elementwise")
    if op is None or family in ("gemm", "attention"):
        return family
    if _OPTIMIZER_OPS.search(op):
        return "optimizer"
    return "attention" if "softmax" in text and "attention" in op else family


def _telling_part(name: str) -> str:
    """Return the part of a name that tells what a kernel computes, lower-cased.

    Template arguments are kept only where the function is a mere frame around them:
    argument types such as ``cublasGemvTensor`` or ``LoadWithoutCast`` would mislead.
    """
    text = clean(name)
    head = qualified_name(name)
    last = head.rsplit("::", 1)[-1]
    if mangled_parts(text):
        return text.lower()
    if "elementwise" in last or last == "reduce_kernel":
        return _functor(template_text(text)).lower() or last.lower()
    if "multi_tensor_apply" in last:
        return "foreach_copy" if "copy" in _functor(template_text(text)).lower() else last
    if last in _FRAMES:
        return f"{head} {template_text(text)}".lower()
    return head.lower().replace("fbgemm", "")


# --- Short form ---------------------------------------------------------------------------

_FRAMES = {"kernel", "Kernel", "Kernel2", "device_kernel", "kentry", "kernel_entry", "run_kernel"}
"""Functions that only run what their template argument names."""

_ALGORITHM = re.compile(r"gemm|flash|fmha|attn|norm|conv|reduc|split|softmax|topk", re.IGNORECASE)

_TITLES = {
    "elementwise_kernel": "elementwise",
    "vectorized_elementwise": "elementwise",
    "unrolled_elementwise": "elementwise",
    "legacy_elementwise": "elementwise",
    "index_elementwise": "elementwise",
    "distribution_elementwise": "random",
    "_scatter_gather_elementwise": "scatter_gather",
    "reduce_kernel": "reduce",
    "multi_tensor_apply": "multi_tensor",
}
"""Generic kernels of PyTorch and the word that a display shows for them."""

_FUNCTOR_FRAMES = re.compile(
    r"^(?:[AB]?Unary|Binary)Functor$|^gpu_kernel_impl|^ReduceOp$|^func_wrapper_t$|elementwise_kernel"
    r"|^_cuda_scatter_gather_internal_kernel$|^multi_outputs?_kernel|^ReduceJit|^native$"
)
_FUNCTOR = re.compile(
    r"[Ff]unctor|Ops?$|_kernel|Kernel|copy|^launch_|_gpu$|_impl$|Assign$|_invert$|_out$|_transform$|_invstd$"
)
_STANDARD_WORDS = {
    "plus": "add",
    "minus": "sub",
    "multiplies": "mul",
    "divides": "div",
    "maximum": "maximum",
    "minimum": "minimum",
}
_STANDARD_FUNCTOR = re.compile(rf"std::({'|'.join(_STANDARD_WORDS)})<")
_FUNCTOR_DRESS = (
    re.compile(r"^(?:CUDA)?Functor(?:OnSelf|OnOther)?_"),
    re.compile(r"_?[Ff]unctor(?:_\w+)?$"),
    re.compile(r"(?i:_?(?:cuda_|scalar_|stub_)?kernel(?:_?impl|_?cuda|_?gpu|_?internal)*$)"),
    re.compile(r"CUDA(?:Kernel)?(?:Impl)?$|Ops?$|_gpu$|_impl$"),
    re.compile(r"^launch_|^_+"),
)
"""What the name of a functor carries around the operation, outermost first."""

_DTYPES = (
    ("fp4", _any_of(r"[Ee]2m1 mxfp4 fp4")),
    ("fp8", _any_of(r"[Ee]4m3 [Ee]5m2 [Ff]p8 _F8 [Ff]loat8 ^nvjet_(?:sm\d+_)?[qr]")),
    ("bf16", _any_of(r"bf16 [Bb][Ff]loat16 _B_?BS_ _BB?_?S?_?BH ^nvjet_(?:sm\d+_)?t")),
    (
        "fp16",
        _any_of(r"""fp16 _f16 f16f16 __half half_t c10::Half _HH?_?H?S?_ ^nvjet_(?:sm\d+_)?h
            [_\d]hgemm h\d+gemm _h\d+cudnn _half"""),
    ),
    ("tf32", _any_of(r"tf32 s1688gemm s16816gemm_s _XS")),
    ("fp64", _any_of(r"dgemm double _D_?B_ d884")),
    ("complex", _any_of(r"[zc]gemm")),
    ("int8", _any_of(r"int8 _I8 i8816 imma s8")),
    ("fp32", _any_of(r"sgemm scudnn _S_?B_ float f32 ^nvjet_(?:sm\d+_)?s")),
)
_TILE = (
    re.compile(r"_MT(\d+)x(\d+)"),
    re.compile(r"tilesize(\d+)x(\d+)"),
    re.compile(r"_[bt]?t(\d+)x(\d+)"),
    re.compile(r"GemmShape(?:ILi|<)(\d+)(?:ELi|, )(\d+)"),
    re.compile(r"tile_?shape_?(\d+)x(\d+)"),
    re.compile(r"[_ ](\d{1,3})x(\d{1,3})(?=[_x ]|$)"),
)
_LIBRARY_GEMM = re.compile(
    r"^Cijk_|^nvjet_|xmma_|gemm_[a-z0-9]*_?\d+x\d+|cudnn_.*\d+x\d+|^cutlass_?\d*_"
    r"|(?:ImplicitGemm|GemmUniversal|GemmShape)|[sdhcz]gemm|^igemm_|^bmm_"
)
_CONV_DIRECTIONS = (
    (re.compile(r"wgrad|wrw|bwd_weight"), "conv_wgrad"),
    (re.compile(r"dgrad|bwd_data|igemm_bwd"), "conv_dgrad"),
    (re.compile(r"fprop|igemm_fwd|conv_fwd"), "conv_fprop"),
    (re.compile(r"conv|cudnn"), "conv"),
)


@lru_cache(maxsize=1 << 16)
def short_name(name: str) -> str:
    """Return a short readable form of a kernel's name, at most 48 characters.

    Return type, namespaces, template arguments, parameters and suffixes of tools go; a matrix
    multiplication of a library becomes its precision and tile; a generic frame becomes what it
    was filled with. Distinct kernels may share a short name.

    Examples
    --------
    >>> short_name("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1")
    'gemm bf16 128x128'
    >>> short_name("void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>(int)")
    'elementwise add'
    >>> short_name("aten::mm")
    'aten::mm'
    """
    text = clean(name)
    short = _gemm_form(text) or _communication_form(text) or _frame_form(text) or _plain_form(text)
    short = short or text
    return short if len(short) <= LONGEST_SHORT_NAME else short[: LONGEST_SHORT_NAME - 1] + "…"


def _gemm_form(text: str) -> str | None:
    parts = mangled_parts(text)
    inside = text
    if not parts and qualified_name(text).rsplit("::", 1)[-1] in _FRAMES:
        inside = template_text(text)
    elif not parts:
        inside = qualified_name(text).rsplit("::", 1)[-1]
    if not _LIBRARY_GEMM.search(inside):
        return None
    dtype = next((dtype for dtype, pattern in _DTYPES if pattern.search(inside)), "")
    tile = next((m for m in (pattern.search(inside) for pattern in _TILE) if m), None)
    if tile is None:
        return None
    lowered = inside.lower()
    what = next((kind for pattern, kind in _CONV_DIRECTIONS if pattern.search(lowered)), "")
    what = what or ("bmm" if lowered.startswith("bmm_") else "gemm")
    return " ".join(word for word in (what, dtype, f"{tile[1]}x{tile[2]}") if word)


def _communication_form(text: str) -> str | None:
    """Cut algorithm, protocol and type from the name of a communication kernel."""
    found = re.match(r"(nccl\w*?Kernel_[A-Za-z]+)", text)
    return found[1] if found else None


def _frame_form(text: str) -> str | None:
    """Name a frame by what it was filled with."""
    head = qualified_name(text)
    last = head.rsplit("::", 1)[-1]
    template = template_text(text)
    if last in _FRAMES:
        parts = mangled_parts(text)
        inside = parts[parts.index(last) + 1 :] if last in parts else identifiers(template)
        telling = [word for word in inside if _is_telling(word)]
        if telling:
            best = next((word for word in telling if _ALGORITHM.search(word)), telling[0])
            return _drop_kernel(best)
        return head.rsplit("::", 2)[-2] if "::" in head else None
    for frame, title in _TITLES.items():
        if last.startswith(frame) and template:
            functor = _functor(template)
            return f"{title} {functor}" if functor else title
    return None


def _plain_form(text: str) -> str:
    if re.fullmatch(r"[\w:.#\- ]+", text) and len(text) <= LONGEST_SHORT_NAME:
        return text
    head = qualified_name(text)
    if "<" not in text and "(" not in text and not text.startswith("_Z"):
        return head
    return _drop_kernel(head.rsplit("::", 1)[-1].strip())


def _functor(template: str) -> str:
    """Name the operation that a generic kernel was filled with, in snake case."""
    standard = _STANDARD_FUNCTOR.search(template)
    if standard:
        return _STANDARD_WORDS[standard[1]]
    for word in identifiers(template):
        if _FUNCTOR.search(word) and not _FUNCTOR_FRAMES.search(word):
            for dress in _FUNCTOR_DRESS:
                word = dress.sub("", word)  # noqa: PLW2901  step by step
            if word:
                return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
    return ""


def _is_telling(word: str) -> bool:
    """Say whether an identifier names an algorithm rather than a namespace or a type."""
    return len(word) > 5 and (word[0].isupper() or "_" in word) and not word.startswith("enable_")  # noqa: PLR2004


def _drop_kernel(word: str) -> str:
    short = re.sub(r"(?:_cuda)?(?:_kernel|CUDAKernel|Kernel)$", "", word)
    return short if len(short) > 2 else word  # noqa: PLR2004  never leave a stump
