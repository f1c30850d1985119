"""PyTorch: a network trained for some steps (plain, with AMP, in a CUDA graph), operators, streams, memory of workers."""

import sys

import torch

from digest import show


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.BatchNorm2d(32),
        torch.nn.Conv2d(32, 32, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(32 * 16 * 16, 10)).cuda()


def train(amp):
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(64, 3, 32, 32, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def graph():
    torch.manual_seed(2)
    x, w = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.mm(x, w)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = torch.tanh(torch.mm(x, w)) @ w
    for _ in range(10):
        captured.replay()
    return y


def send(queue, done):
    queue.put(torch.arange(1 << 20, device="cuda", dtype=torch.float32))
    done.wait(60)


def shared():
    """A tensor of another process, by IPC."""
    context = torch.multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    worker = context.Process(target=send, args=(queue, done))
    worker.start()
    total = queue.get(timeout=60).double().sum()
    done.set()
    worker.join(60)
    return total


def main():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    show("devices", torch.cuda.device_count(), torch.cuda.get_device_name(0))
    if "ASYNC" not in sys.argv[1:]:
        show("graph", graph())
        show("ipc", shared())
    show("train", train(False))
    show("amp", train(True))
    for size in (1, 1000, 4096):
        a = torch.linspace(0, 1, size * 64, device="cuda").reshape(64, size)
        show(f"operators {size}", a @ a.T, a.cumsum(1), torch.fft.rfft(a).abs(), torch.sort(-a).values, a.std())
    show("solve", torch.linalg.solve(torch.eye(64, device="cuda") * 3, torch.ones(64, device="cuda")))
    streams = [torch.cuda.Stream() for _ in range(4)]
    parts = []
    for at, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            parts.append(torch.full((1 << 20,), float(at), device="cuda").cumsum(0)[-1])
    torch.cuda.synchronize()
    show("streams", *parts)
    free, total = torch.cuda.mem_get_info()
    show("memory", free < total)


if __name__ == "__main__":
    main()
