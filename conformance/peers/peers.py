#!/usr/bin/env python3
"""Measures PyTorch on the workloads of `kiln-conformance bench`, on the same machine and the same numbers.

    python3 conformance/peers/peers.py --json peers.json [--filter NAME]... [--seconds S] [--heavy]

Needs torch (2.11 was used) and triton.  Writes the JSON that `cargo x peers` lays beside Kiln's.  Two clocks a variant:
`median_ms` is the same as Kiln's (batches of calls closed by one wait, the median of the batches), `bench_ms` is
`triton.testing.do_bench` (each call by itself, caches emptied before it, without the host's time).
"""

import argparse
import json
import sys
import time
import traceback

import torch
import triton

from gpt2 import Training
from numbers_of_bench import digest
from workloads import HEAVY, HEAVY_VARIANTS, WORKLOADS

WARM_UP, BATCHES, ALONE, LEAST, MOST = 4, 7, 7, 8, 400


def batch(call, calls):
    """Milliseconds a call."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3 / calls


def measure(call, seconds):
    torch.cuda.synchronize()
    first = batch(call, 1)
    result = digest(call())
    batch(call, WARM_UP)
    one = batch(call, 1)
    calls = int(min(max(seconds / BATCHES * 1e3 / one, LEAST), MOST))
    times = sorted(batch(call, calls) for _ in range(BATCHES))
    alone = sorted(batch(call, 1) for _ in range(ALONE))
    bench = triton.testing.do_bench(call, warmup=20, rep=80, return_mode="median")
    return {
        "first_ms": first,
        "median_ms": times[BATCHES // 2],
        "least_ms": times[0],
        "calls": calls,
        "alone_ms": alone[ALONE // 2],
        "bench_ms": bench,
        "digest": result,
    }


MODES = {"compile": None, "graphs": "reduce-overhead", "max": "max-autotune-no-cudagraphs"}


def variant(prepare, kind, seconds):
    """Measures a workload as it is (`eager`, `tf32`) or compiled."""
    torch._dynamo.reset()
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    compiled = (lambda run: torch.compile(run, mode=MODES[kind])) if kind in MODES else (lambda run: run)
    prepared = prepare()
    if isinstance(prepared, Training):
        loss = compiled(prepared.loss)
        return measure(lambda: prepared.step(loss), seconds)
    run, args = prepared
    run = compiled(run)

    def call():
        with torch.no_grad():
            return run(*args)

    return measure(call, seconds)


def copy_rate():
    """GB/s read and written by the driver's own copy of 2 GiB."""
    x = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    ms = triton.testing.do_bench(lambda: y.copy_(x), warmup=20, rep=100, return_mode="median")
    return 2 * x.numel() / ms / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", required=True)
    parser.add_argument("--filter", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--heavy", action="store_true", help="max-autotune and the compiled training step: minutes")
    options = parser.parse_args()

    report = {
        "program": f"torch {torch.__version__}, triton {triton.__version__}",
        "device": torch.cuda.get_device_name(),
        "copy_gigabytes_per_second": copy_rate(),
        "workloads": [],
    }
    print(f"{report['device']}: copies at {report['copy_gigabytes_per_second']:.0f} GB/s, read and written", flush=True)
    for name, (prepare, variants) in WORKLOADS.items():
        if options.filter and not any(part in name for part in options.filter):
            continue
        by = {}
        for kind in variants:
            if not options.heavy and (kind in HEAVY_VARIANTS or (name, kind) in HEAVY):
                continue
            try:
                by[kind] = variant(prepare, kind, options.seconds)
                print(f"{name:<40} {kind:<8} {by[kind]['median_ms']:9.4f} ms, do_bench {by[kind]['bench_ms']:9.4f} ms", flush=True)
            except Exception as error:  # One that fails leaves the others their turn.
                traceback.print_exc()
                by[kind] = {"error": str(error).splitlines()[0] if str(error) else type(error).__name__}
            torch.cuda.empty_cache()
        report["workloads"].append({"workload": name, "by": by})
        # What was measured is kept even if the next one ends the process.
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
