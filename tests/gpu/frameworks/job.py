"""One PyTorch job of a list: training or inference with host phases, and about so much memory.

    job.py train|infer GIB STEPS SEED [PAUSE]     PAUSE: seconds for which it is idle after every fourth step
"""

import math
import sys
import time

import torch

from digest import show


def model(gib):
    """A network whose weights, with what training keeps of them, take about so many GiB."""
    # Weights, gradients and two moments of Adam, 4 bytes each, in three square layers.
    width = int(math.sqrt(gib * (1 << 30) / 16 / 3))
    width = max(256, width // 64 * 64)
    torch.manual_seed(7)
    layers = [layer for _ in range(3) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers), width


def main():
    kind, gib, steps, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    pause = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
    torch.use_deterministic_algorithms(True, warn_only=True)
    generator = torch.Generator().manual_seed(seed)
    net, width = model(gib if kind == "train" else gib * 4)
    net = net.cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4) if kind == "train" else None
    losses = []
    for step in range(steps):
        if step % 4 == 3:
            time.sleep(pause)
        # The host phase: data is made, as a loader would.
        began, batch = time.perf_counter(), None
        while time.perf_counter() - began < 0.15:
            batch = torch.randn(256, width, generator=generator) if batch is None else batch.clone().mul_(1.0)
        batch = batch.cuda()
        if optimizer is None:
            with torch.no_grad():
                losses.append(net(batch).square().mean().item())
        else:
            optimizer.zero_grad()
            loss = net(batch).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    show(" ".join(sys.argv[1:5]), losses)


if __name__ == "__main__":
    main()
