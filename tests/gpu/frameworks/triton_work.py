"""Triton: a kernel of one's own, and torch.compile."""

import torch
import triton
import triton.language as tl

from digest import show


@triton.jit
def scale(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 3 + 1, mask=at < n)


def main():
    x = torch.arange(100_000, device="cuda", dtype=torch.float32)
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), block=1024)
    show("triton", y)
    compiled = torch.compile(lambda a, b: torch.relu(a * b + 1).sum(0))
    show("compile", compiled(x.reshape(100, 1000), y.reshape(100, 1000)))


main()
