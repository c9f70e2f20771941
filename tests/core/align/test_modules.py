"""Layers and operation names from module paths."""

from __future__ import annotations

import pytest

from chopper_jupyter.core.align.modules import layer_of, stack_containers
from chopper_jupyter.core.annotations import ModuleRange, strip_wrappers


def calls(*pairs):
    return [ModuleRange("M", path, cls) for path, cls in pairs]


LLAMA = calls(*((f"model.layers.{i}", "Block") for i in range(2)))
RESNET = calls(*((f"layer{n}.{i}", "BasicBlock") for n in (1, 2) for i in (0, 1)))
NESTED = calls(*((f"stages.{i}.{k}", f"Block{k}") for i in range(2) for k in range(2)))
SHARDED = calls(("layers.0", "FSDP"), *((f"layers.{i}", "Block") for i in range(2)))
SEQUENTIAL = calls(("0", "Linear"), ("1", "ReLU"), ("2", "Linear"))


@pytest.mark.parametrize(
    ("made", "path", "layer"),
    [
        (LLAMA, "model.layers.1.self_attn.q_proj", "model.layers.1"),
        (LLAMA, "model.embed_tokens", "model.embed_tokens"),
        (LLAMA, "lm_head", "lm_head"),
        (LLAMA, "model", None),
        (LLAMA, "", None),
        (RESNET, "layer2.1.conv1", "layer2.1"),
        (RESNET, "layer2.0.downsample.0", "layer2.0"),
        (RESNET, "conv1", "conv1"),
        (NESTED, "stages.1.0.fc", "stages.1"),
        (SHARDED, "layers.0.fc", "layers.0"),
        (SEQUENTIAL, "2", "2"),
        (calls(("head.0", "Linear"), ("head.1", "ReLU")), "head.0", "head"),
    ],
)
def test_layer_of(made, path, layer):
    assert layer_of(path, stack_containers(made)) == layer


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("module.layers.0.mlp", "layers.0.mlp"),
        ("_fsdp_wrapped_module.layers.0._fsdp_wrapped_module.mlp", "layers.0.mlp"),
        ("_orig_mod.layers.0", "layers.0"),
        ("layers.0._checkpoint_wrapped_module", "layers.0"),
        ("encoder.module.fc", "encoder.module.fc"),
        ("module", ""),
    ],
)
def test_wrappers_leave_no_trace_in_paths(path, plain):
    assert strip_wrappers(path) == plain
