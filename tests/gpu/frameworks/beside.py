"""PyTorch beside other programs: inference with requests that come at random times, or training without a pause.

    beside.py infer-resnet|infer-bert|train-resnet|train-gpt|train-mlp [SECONDS] [LOAD]

Weights and input are random, from a fixed seed. Prints "ready", waits for a line, and prints a line of JSON: for inference
the milliseconds from a request's arrival until its answer is on the host, at LOAD (0.3) of what the GPU could serve alone, and a
digest of the answers; for training the steps done and a digest of the losses of the first 20."""

import hashlib
import json
import os
import random
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch


def language(layers, causal):
    import transformers
    config = {"num_hidden_layers": layers, "hidden_size": 768, "num_attention_heads": 12}
    if causal:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=layers, n_embd=768, n_head=12))
    else:
        model = transformers.BertModel(transformers.BertConfig(**config))
    return model.cuda()


def network(kind):
    """A model and its input."""
    torch.manual_seed(3)
    if kind == "infer-resnet":
        import torchvision
        return torchvision.models.resnet50().cuda().eval(), torch.randn(1, 3, 224, 224, device="cuda")
    if kind == "infer-bert":
        return language(12, causal=False).eval(), torch.randint(0, 30000, (1, 128), device="cuda")
    if kind == "train-resnet":
        import torchvision
        return torchvision.models.resnet50().cuda(), torch.randn(32, 3, 224, 224, device="cuda")
    if kind == "train-gpt":
        return language(12, causal=True), torch.randint(0, 50000, (8, 512), device="cuda")
    wide = [torch.nn.Linear(4096, 4096) if layer % 2 == 0 else torch.nn.ReLU() for layer in range(12)]
    return torch.nn.Sequential(*wide).cuda(), torch.randn(4096, 4096, device="cuda")


def wait_for_start():
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit(4)


def infer(kind, seconds, load):
    model, given = network(kind)

    @torch.no_grad()
    def request():
        answer = model(given)
        return (answer if torch.is_tensor(answer) else answer.last_hidden_state).float().cpu()

    for _ in range(10):
        request()
    began = time.perf_counter()
    for _ in range(20):
        request()
    alone = (time.perf_counter() - began) / 20
    if len(sys.argv) > 4:  # what it took alone, so that the load is the same beside others
        alone = float(sys.argv[4]) / 1000
    wait_for_start()
    arrivals = random.Random(1)
    times, digest, due = [], hashlib.sha256(), 0.0
    began = time.perf_counter()
    while due < seconds:
        due += arrivals.expovariate(load / alone)
        left = due - (time.perf_counter() - began)
        if left > 0:
            time.sleep(left)
        answer = request()
        times.append((time.perf_counter() - began - due) * 1000)
        if len(times) <= 20:
            digest.update(answer.numpy().tobytes())
    times.sort()
    at = lambda part: round(times[min(len(times) - 1, int(part * len(times)))], 3)
    return {"kind": kind, "requests": len(times), "alone_ms": round(alone * 1000, 3), "p50_ms": at(0.5), "p99_ms": at(0.99),
            "worst_ms": round(times[-1], 3), "digest": digest.hexdigest()[:16]}


def train(kind, seconds):
    model, given = network(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            answer = model(given, labels=given).loss if kind == "train-gpt" else model(given).float().square().mean()
        answer.backward()
        optimizer.step()
        return answer

    losses = [step().item() for _ in range(20)]
    digest = hashlib.sha256(repr(losses).encode()).hexdigest()[:16]
    wait_for_start()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(2):
            last = step()
        last.item()
        steps += 2
    return {"kind": kind, "units": steps, "seconds": round(time.perf_counter() - began, 3), "digest": digest}


def main():
    kind = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4
    load = float(sys.argv[3]) if len(sys.argv) > 3 else 0.3
    torch.use_deterministic_algorithms(True, warn_only=True)
    # The others add up in an order of their own in the pass back.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    result = infer(kind, seconds, load) if kind.startswith("infer") else train(kind, seconds)
    print(json.dumps(result), flush=True)


main()
