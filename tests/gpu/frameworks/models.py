"""Models of transformers and torchvision with random weights: 20 steps each of training and inference, with AMP, CUDA
graphs and torch.compile. A line each: name and digest, or what was raised."""

import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from digest import show


def vision(name, size=64):
    import torchvision
    torch.manual_seed(5)
    return getattr(torchvision.models, name)(num_classes=10).cuda(), torch.randn(8, 3, size, size, device="cuda")


def language(kind):
    import transformers as t
    torch.manual_seed(6)
    small = {"gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=1000)),
             "bert": lambda: t.BertForMaskedLM(t.BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=4,
                                                            intermediate_size=256, vocab_size=1000)),
             "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=4,
                                                               intermediate_size=256, vocab_size=1000)),
             "t5": lambda: t.T5ForConditionalGeneration(t.T5Config(num_layers=2, d_model=128, d_ff=256, num_heads=4, d_kv=32,
                                                                   vocab_size=1000, decoder_start_token_id=0))}
    return small[kind]().cuda(), torch.randint(0, 1000, (8, 64), device="cuda")


def train(model, loss_of, amp):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def infer(model, call):
    model.eval()
    with torch.no_grad():
        return [call() for _ in range(20)][-1]


def graphed(model, call):
    model.eval()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = call()
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()
        return out


def all_ways(name, made, loss_with, out_of):
    def fresh():
        model, inputs = made()
        return model, (lambda m=model: loss_with(m, inputs)), (lambda m=model: out_of(m, inputs))
    ways = {
        "train": lambda: train(*fresh()[:2], False),
        "amp": lambda: train(*fresh()[:2], True),
        "infer": lambda: infer(*fresh()[::2]),
        "graph": lambda: graphed(*fresh()[::2]),
    }
    if "compile" in sys.argv[1:]:
        def compiled():
            model, inputs = made()
            ready = torch.compile(model)
            return train(model, lambda: loss_with(ready, inputs), False)
        ways = {"compile": compiled}
    for way, run in ways.items():
        try:
            show(f"{name} {way}", run())
        except Exception as error:  # What fails must fail alike.
            print(f"{name} {way} raised:{type(error).__name__}", flush=True)
            print(f"{name} {way}: {error}", file=sys.stderr, flush=True)


def main():
    torch.use_deterministic_algorithms(True, warn_only=True)
    entropy = torch.nn.functional.cross_entropy
    labels = torch.arange(8, device="cuda")
    names = ["resnet18", "mobilenet_v3_small", "vit_b_16", "densenet121", "efficientnet_b0"]
    for name in names[:2] if "compile" in sys.argv[1:] else names:
        size = 224 if name == "vit_b_16" else 64
        all_ways(name, lambda: vision(name, size), lambda m, x: entropy(m(x), labels), lambda m, x: m(x))
    for name in ["gpt2", "llama"] if "compile" in sys.argv[1:] else ["gpt2", "bert", "llama", "t5"]:
        all_ways(name, lambda: language(name), lambda m, x: m(input_ids=x, labels=x).loss,
                 (lambda m, x: m(input_ids=x, decoder_input_ids=x).logits) if name == "t5" else (lambda m, x: m(input_ids=x).logits))


if __name__ == "__main__":
    main()
