"""PyTorch: one sample of every operator in the database that PyTorch tests itself with. A line each: name and digest of
what came out, or what was raised."""

import hashlib
import sys
import types

import torch

try:
    import expecttest  # noqa: F401
except ImportError:
    # PyTorch's test module imports it, and nothing here uses it.
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=__import__("unittest").TestCase)

from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves


def digest(result):
    text = hashlib.sha256()
    for leaf in tree_leaves(result):
        if isinstance(leaf, torch.Tensor):
            text.update(f"{leaf.dtype} {tuple(leaf.shape)} {leaf.device.type}".encode())
            if leaf.layout != torch.strided:
                leaf = leaf.to_dense()
            leaf = leaf.detach().resolve_conj().resolve_neg().contiguous().cpu()
            text.update(leaf.reshape(-1).view(torch.uint8).numpy().tobytes() if leaf.numel() else b"")
        else:
            text.update(repr(leaf).encode() if isinstance(leaf, (int, float, bool, complex, str)) else type(leaf).__name__.encode())
    return text.hexdigest()[:16]


def outcome(operator):
    dtypes = operator.supported_dtypes("cuda")
    dtype = torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]
    torch.manual_seed(11)
    sample = next(iter(operator.sample_inputs("cuda", dtype, requires_grad=False)), None)
    if sample is None:
        raise LookupError("the database has no sample")
    torch.manual_seed(12)
    result = operator(sample.input, *sample.args, **sample.kwargs)
    torch.cuda.synchronize()
    return digest(result)


def main():
    for operator in op_db:
        name = f"{operator.name}{'.' + operator.variant_test_name if operator.variant_test_name else ''}"
        try:
            what = outcome(operator)
        except Exception as error:  # An operator that fails must fail alike.
            what = f"raised:{type(error).__name__}"
        print(f"{name} {what}", flush=True)


if __name__ == "__main__":
    main()
