"""The noise samplers against OpenDP, in one process, and against their own cipher (`python benchmarks/noise.py`).

Draws per second, the best of several runs. Rates differ from machine to machine, and a busy one spoils the ratio of two
threads to one; the ratios are what to compare. `--cells` is the size of the array that is drawn in chunks at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ratios import best

from tallytree.private.noise import digits, entropy
from tallytree.private.noise import discrete as noise

KEY = bytes(range(32))
SCALES = (3, 100, 10_000)
BEYOND = (0.01, 10**6, 10**7, 10**9)
DRAWS = 4_000_000
PEER_DRAWS = 50_000
PAIRS = (
    ("discrete Laplace", noise.discrete_laplace, noise.opendp_laplace, digits.sampler_of_laplace),
    ("discrete Gaussian", noise.discrete_gaussian, noise.opendp_gaussian, digits.sampler_of_gaussian),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=10**9)
    arguments = parser.parse_args()
    own = cipher_rate()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    print("## Ciphers, one thread\n\n| cipher | GB/s |\n| --- | --- |")
    print(f"| ChaCha20 in numba (ours) | {8 * own / 1e9:.2f} |")
    for name, rate in library_ciphers():
        print(f"| {name} | {rate / 1e9:.2f} |")
    print("\n## Draws per second\n")
    print("| distribution | scale | one thread | × OpenDP | cipher / draws | two threads × | table | KiB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, ours, theirs, sampler_of in PAIRS:
        for scale in SCALES + BEYOND:
            begin = time.perf_counter()
            sampler = sampler_of.__wrapped__(noise.representable(scale))
            building = time.perf_counter() - begin
            one, two = (rate_of(ours, scale, threads) for threads in (1, 2))
            peer = PEER_DRAWS / best(lambda: theirs(scale, PEER_DRAWS), 2) if scale in SCALES else 0  # noqa: B023
            ratio = f"{one / peer:,.0f}" if peer else "-"
            print(
                f"| {name} | {scale:,} | {one:,.0f} | {ratio} | {own / one:.1f} | {two / one:.2f} | {building:.3f} s "
                f"| {sampler.bytes / 1024:,.0f} |"
            )
    print(f"\n## {arguments.cells:,} cells in chunks of 2^20, scale 100, in a process of its own\n")
    print(in_chunks(arguments.cells))


def rate_of(draw: Callable[..., Any], scale: float, threads: int) -> float:
    draw(scale, 10, KEY)
    return DRAWS / best(lambda: draw(scale, DRAWS, KEY, threads=threads), 7)


def cipher_rate() -> float:
    """Words per second of the key stream alone."""
    blocks, stream = np.arange(128, dtype=np.uint64), np.empty(16 * 128, np.uint32)
    times = 4000
    with entropy.opened(KEY) as key:

        def run() -> None:
            for _ in range(times):
                entropy.keystream(key, np.uint64(0), blocks, stream)

        run()
        return times * 8 * blocks.size / best(run, 7)


def library_ciphers() -> list[tuple[str, float]]:
    """Bytes per second of the ciphers of `cryptography`, where it is installed."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
        from cryptography.hazmat.primitives.ciphers.modes import CTR
    except ModuleNotFoundError:
        return []
    zeros, out = bytes(2**20), bytearray(2**20 + 64)
    rates = []
    for name, cipher in (
        ("ChaCha20 of cryptography", Cipher(ChaCha20(bytes(32), bytes(16)), mode=None)),
        ("AES-256-CTR of cryptography", Cipher(AES(bytes(32)), CTR(bytes(16)))),
    ):
        encryptor = cipher.encryptor()
        rates.append((name, len(zeros) / best(lambda: encryptor.update_into(zeros, out), 50)))  # noqa: B023
    return rates


def in_chunks(cells: int) -> str:
    script = textwrap.dedent(
        f"""
        import time
        from fractions import Fraction
        from pathlib import Path
        import numpy as np
        from tallytree.kinds.measurements import Noise
        from tallytree.private.noise.discrete import noise_at
        noise = Noise('discrete_laplace', Fraction(100))

        def peak():
            # Not getrusage: its maximum begins with that of the process that started this one.
            status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            return int(status["VmHWM"].split()[0]) // 1024

        noise_at(noise, bytes(32), (), np.arange(10))
        before, begin, total = peak(), time.perf_counter(), 0
        for start in range(0, {cells}, 2**20):
            total += int(noise_at(noise, bytes(32), (), np.arange(start, min(start + 2**20, {cells}))).sum())
        seconds = time.perf_counter() - begin
        print(f"{{seconds:.1f}} s; peak memory {{peak()}} MiB, of which {{before}} MiB before the first chunk "
              f"(interpreter, libraries, compiled code); mean {{total / {cells}:.5f}}")
        """
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
