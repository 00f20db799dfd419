"""GPT-2 small as bench/src/workloads/gpt2.rs has it: the same parts, the same numbers in the same order."""

import math

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, VOCABULARY, CONTEXT = 12, 768, 12, 50_304, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)
        self.expand, self.contract = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = lambda x: x.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        h = self.attention_norm(x)
        q, k, v = (heads(part(h)) for part in (self.query, self.key, self.value))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.contract(F.gelu(self.expand(self.norm(x))))


class Gpt2(nn.Module):
    def __init__(self, numbers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.to(numbers.device)
        with torch.no_grad():
            self.fill(numbers)
        self.to(torch.bfloat16)

    def fill(self, numbers):
        """Burn keeps a linear layer's weight as [from, to]; norms keep their ones and zeros."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                draw(module.weight, numbers, transposed=False)
            elif isinstance(module, nn.Linear):
                draw(module.weight, numbers, transposed=True)
                draw(module.bias, numbers, transposed=False)

    def forward(self, tokens):
        batch, length = tokens.shape
        places = torch.arange(length, device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x).reshape(batch * length, WIDTH), self.tokens.weight)


def draw(parameter, numbers, transposed):
    """±1/√(inputs), inputs being what stands before the last axis, as bench/src/workloads/gpt.rs has it."""
    shape = list(parameter.shape)
    if transposed:
        shape = [shape[1], shape[0], *shape[2:]]
    inputs = shape[0] if len(shape) == 1 else math.prod(shape[:-1])
    most = 1.0 / min(math.sqrt(inputs), 64.0)
    values = numbers.floats(shape, -most, most)
    parameter.copy_(values.transpose(0, 1) if transposed else values)


def forward(numbers, batch, length):
    """The model and its arguments."""
    gpt = Gpt2(numbers).eval().requires_grad_(False)
    return gpt, (numbers.integers([batch, length], VOCABULARY),)


class Training:
    """A step with AdamW; `loss` is what may be compiled."""

    def __init__(self, numbers, batch, length):
        self.gpt = Gpt2(numbers)
        tokens = numbers.integers([batch, length], VOCABULARY)
        self.args = (tokens, numbers.integers([batch * length], VOCABULARY))
        # Burn's defaults: AdamW with a weight decay of 1e-4 and epsilon of 1e-5.
        self.optimizer = torch.optim.AdamW(
            self.gpt.parameters(), lr=1e-4, betas=(0.9, 0.999), eps=1e-5, weight_decay=1e-4, fused=True
        )

    def loss(self, tokens, targets):
        return F.cross_entropy(self.gpt(tokens), targets)

    def step(self, loss):
        value = loss(*self.args)
        value.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return value.detach()
