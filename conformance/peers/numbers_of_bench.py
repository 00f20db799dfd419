"""The inputs of conformance/bench, number for number: SplitMix64 on the GPU, and the digest that results are compared by.

Knows nothing of workloads.  `Numbers` mirrors bench/src/numbers.rs, `digest` bench/src/digest.rs.
"""

import math

import torch

PERIOD = 4_194_301
SAMPLES = 1024
SUMMED = 32 << 20


def signed(word):
    """A 64-bit word as torch's int64 holds it."""
    return word - (1 << 64) if word >= 1 << 63 else word


GAMMA = signed(0x9E37_79B9_7F4A_7C15)
FIRST = signed(0xBF58_476D_1CE4_E5B9)
SECOND = signed(0x94D0_49BB_1331_11EB)


def shifted(words, by):
    """A logical shift to the right: torch's own keeps the sign."""
    return (words >> by) & ((1 << (64 - by)) - 1)


class Numbers:
    """SplitMix64 (Steele, Lea and Flood, 2014): the n-th word is a function of seed + n·γ."""

    def __init__(self, seed, device="cuda"):
        self.seed, self.drawn, self.device = seed, 0, device

    def words(self, count):
        at = torch.arange(self.drawn + 1, self.drawn + 1 + count, dtype=torch.int64, device=self.device)
        self.drawn += count
        z = at * GAMMA + self.seed
        z = (z ^ shifted(z, 30)) * FIRST
        z = (z ^ shifted(z, 27)) * SECOND
        return z ^ shifted(z, 31)

    def floats(self, shape, low, high):
        """Uniform over low..high, every number drawn."""
        unit = shifted(self.words(math.prod(shape)), 40).to(torch.float32) / (1 << 24)
        return (unit * (high - low) + low).reshape(shape)

    def of(self, dtype, shape, low, high):
        """The same in another type; beyond PERIOD the numbers come again."""
        count = math.prod(shape)
        drawn = self.floats([min(count, PERIOD)], low, high)
        return drawn.repeat(-(-count // drawn.numel()))[:count].reshape(shape).to(dtype)

    def integers(self, shape, below):
        words = self.words(math.prod(shape))
        return ((shifted(words, 1) % below * 2 + (words & 1)) % below).reshape(shape)


def digest(result):
    """Sums over all of a result, and values spread over it; what is not finite is None."""
    shape = list(result.shape) or [1]
    flat = result.detach().reshape(-1)
    values = flat[:: max(1, -(-flat.numel() // SUMMED))].to(torch.float64)
    weights = (torch.arange(values.numel(), device=values.device) % 127 - 63).to(torch.float64) / 63.0
    step = max(1, -(-values.numel() // SAMPLES)) | 1
    samples = torch.cat([values[::step], values[-1:]]).tolist()
    known = lambda x: x if math.isfinite(x) else None
    return {
        "shape": shape,
        "sum": known(values.sum().item()),
        "magnitude": known(values.abs().sum().item()),
        "weighted": known((values * weights).sum().item()),
        "samples": [known(x) for x in samples],
    }
