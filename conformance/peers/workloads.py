"""The workloads of conformance/bench in PyTorch: what each computes, on the same numbers.

A workload is a function of nothing that makes the inputs and gives what is called with them: a function and its
arguments.
"""

import math

import torch
from torch.nn import functional as F

import gpt2
from numbers_of_bench import Numbers

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
SIDE = 4096


def gelu_bias():
    numbers = Numbers(1)
    x, b = numbers.of(F16, [8192, 4096], -3, 3), numbers.of(F16, [1, 4096], -0.5, 0.5)

    def run(x, b):
        x = x + b
        return x * 0.5 * (torch.erf(x / math.sqrt(2)) + 1.0)

    return run, (x, b)


def chain():
    numbers = Numbers(2)
    x, y, z = (numbers.of(F32, [64 << 20], -2, 2) for _ in range(3))
    return lambda x, y, z: (torch.tanh(x * y + z) * torch.sigmoid(x) - y).abs().sqrt() + torch.exp(z), (x, y, z)


def swiglu():
    numbers = Numbers(6)
    a, b = (numbers.of(BF16, [16384, 11008], -4, 4) for _ in range(2))
    return lambda a, b: F.silu(a) * b, (a, b)


def transpose_add():
    x = Numbers(7).of(BF16, [8192, 8192], -1, 1)
    # Else the result would lie as the operand does, and nothing would be turned.
    return lambda x: (x.t() + 1.0).contiguous(), (x,)


def softmax(shape, dtype):
    def prepare():
        x = Numbers(11).of(dtype, shape, -5, 5)
        return lambda x: torch.softmax(x, 1), (x,)

    return prepare


def layer_norm(shape):
    def prepare():
        x, width = Numbers(14).of(BF16, shape, -1, 3), shape[1:]
        gamma, beta = torch.ones(width, dtype=BF16, device=x.device), torch.zeros(width, dtype=BF16, device=x.device)
        return lambda x, gamma, beta: F.layer_norm(x, width, gamma, beta, 1e-5), (x, gamma, beta)

    return prepare


def rms_norm(shape):
    def run(x, gamma):
        wide = x.to(F32)
        return (wide / ((wide * wide).mean(1, keepdim=True) + 1e-6).sqrt()).to(BF16) * gamma

    def prepare():
        numbers = Numbers(15)
        return run, (numbers.of(BF16, shape, -2, 2), numbers.of(BF16, [1, shape[1]], 0.5, 1.5))

    return prepare


def of(shape, dtype, call):
    def prepare():
        return call, (Numbers(22).of(dtype, shape, -0.5, 1.5),)

    return prepare


def matmul(left, right, dtype):
    def prepare():
        numbers = Numbers(31)
        a, b = numbers.of(dtype, left, -0.5, 1), numbers.of(dtype, right, -0.5, 1)
        return lambda a, b: a @ b, (a, b)

    return prepare


def linear_gelu():
    numbers = Numbers(32)
    x = numbers.of(BF16, [8192, 4096], -1, 1)
    linear = torch.nn.Linear(4096, 16384, device=x.device)
    with torch.no_grad():
        gpt2.draw(linear.weight, numbers, transposed=True)
        gpt2.draw(linear.bias, numbers, transposed=False)
    weight, bias = linear.weight.detach().to(BF16), linear.bias.detach().to(BF16)
    return lambda x, weight, bias: F.gelu(F.linear(x, weight, bias)), (x, weight, bias)


def conv_relu():
    numbers = Numbers(33)
    x = numbers.of(BF16, [64, 128, 56, 56], -1, 1)
    conv = torch.nn.Conv2d(128, 128, 3, padding=1, device=x.device)
    with torch.no_grad():
        gpt2.draw(conv.weight, numbers, transposed=False)
        gpt2.draw(conv.bias, numbers, transposed=False)
    weight, bias = conv.weight.detach().to(BF16), conv.bias.detach().to(BF16)
    return lambda x, weight, bias: F.relu(F.conv2d(x, weight, bias, padding=1)), (x, weight, bias)


def attention(batch, heads, length, width, causal):
    def prepare():
        numbers = Numbers(41)
        args = tuple(numbers.of(BF16, [batch, heads, length, width], -1, 1) for _ in range(3))
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), args

    return prepare


SQUARES = {
    f"matmul/{n}/bf16": (matmul([n, n], [n, n], BF16), ["eager", "max"]) for n in (512, 1024, 2048, 4096, 8192)
}
FUSED = ["eager", "compile"]

# Name: how to set it up, and what is measured of it.  What is a library's own call in eager has nothing to be compiled.
WORKLOADS = {
    "gelu-bias/8192x4096/f16": (gelu_bias, FUSED),
    "chain/64Mi/f32": (chain, FUSED),
    "swiglu/16384x11008/bf16": (swiglu, FUSED),
    "transpose-add/8192/bf16": (transpose_add, FUSED),
    "softmax/1823x781/f32": (softmax([1823, 781], F32), FUSED),
    "softmax/4096x4096/bf16": (softmax([4096, 4096], BF16), FUSED),
    "softmax/16384x1024/bf16": (softmax([16384, 1024], BF16), FUSED),
    "softmax/256x262144/bf16": (softmax([256, 262_144], BF16), FUSED),
    "layer-norm/16384x4096/bf16": (layer_norm([16384, 4096]), FUSED),
    "rms-norm/16384x4096/bf16": (rms_norm([16384, 4096]), FUSED),
    "softmax/2048x32000/bf16": (softmax([2048, 32_000], BF16), FUSED),
    "layer-norm/16384x5120/bf16": (layer_norm([16384, 5120]), FUSED),
    "rms-norm/8192x8192/bf16": (rms_norm([8192, 8192]), FUSED),
    "sum-last/4096x50304/bf16": (of([4096, 50304], BF16, lambda x: x.sum(1, keepdim=True)), FUSED),
    "sum-first/50304x4096/bf16": (of([50304, 4096], BF16, lambda x: x.sum(0, keepdim=True)), FUSED),
    "sum-all/256Mi/f32": (of([16384, 16384], F32, lambda x: x.sum()), FUSED),
    "argmax-first/50304x4096/bf16": (of([50304, 4096], BF16, lambda x: x.argmax(0, keepdim=True)), FUSED),
    "cumsum-last/8192/bf16": (of([8192, 8192], BF16, lambda x: x.cumsum(1)), FUSED),
    **SQUARES,
    "matmul/4096/f32": (matmul([SIDE, SIDE], [SIDE, SIDE], F32), ["eager", "tf32"]),
    "linear-gelu/8192x4096x16384/bf16": (linear_gelu, ["eager", "compile", "max"]),
    "skinny/16x4096x4096/bf16": (matmul([16, SIDE], [SIDE, SIDE], BF16), ["eager", "max"]),
    "gemv/4096x11008/bf16": (matmul([4096, 11008], [11008, 1], BF16), ["eager", "max"]),
    "conv-relu/64x128x56x56/bf16": (conv_relu, FUSED),
    "attention/b4h32n1024d64-causal/bf16": (attention(4, 32, 1024, 64, True), ["eager"]),
    "attention/b4h32n4096d128-causal/bf16": (attention(4, 32, 4096, 128, True), ["eager"]),
    "attention/b4h32n4096d128/bf16": (attention(4, 32, 4096, 128, False), ["eager"]),
    "gpt2-forward/8x1024/bf16": (lambda: gpt2.forward(Numbers(61), 8, 1024), ["eager", "compile", "graphs"]),
    "gpt2-forward/1x128/bf16": (lambda: gpt2.forward(Numbers(61), 1, 128), ["eager", "compile", "graphs"]),
    "gpt2-train/8x1024/bf16": (lambda: gpt2.Training(Numbers(62), 8, 1024), ["eager", "compile"]),
}

# Compiling these takes longer than all else together: only with --heavy.
HEAVY = {("gpt2-train/8x1024/bf16", "compile")}
HEAVY_VARIANTS = {"max"}
