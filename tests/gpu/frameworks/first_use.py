"""Holds a tensor, waits for a line on stdin, and then uses libraries for the first time: their code is loaded then."""

import sys

import torch

from digest import show


def main():
    held = torch.ones(64 << 20, device="cuda")
    torch.cuda.synchronize()
    print("holds", flush=True)
    sys.stdin.readline()
    matrix = held[: 1 << 20].view(1024, 1024)
    losses = [(matrix @ matrix).sum().item(), torch.fft.fft(matrix).abs().sum().item(), torch.sort(held)[0][-1].item()]
    show("first use", losses)


if __name__ == "__main__":
    main()
