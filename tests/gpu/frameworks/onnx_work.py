"""ONNX Runtime: a small network on its CUDA provider. The model is written here by hand, since the package that writes
models is not always beside the one that runs them."""

import sys

import numpy
import onnxruntime

from digest import show

FLOAT = 1
# How a program says that the machine's package cannot use a GPU.
NOT_HERE = 77


def number(value):
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def field(at, value):
    """Field `at` of a message: a number, or text or another message."""
    if isinstance(value, int):
        return number(at << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(value)) + value


def tensor(name, values):
    return b"".join(field(1, size) for size in values.shape) + field(2, FLOAT) + field(8, name) + field(9, values.tobytes())


def described(name, *shape):
    dimensions = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dimensions)))


def node(kind, inputs, output):
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, output) + field(4, kind)


def model():
    dice = numpy.random.default_rng(5)
    weights = {"w1": dice.standard_normal((256, 512), numpy.float32), "w2": dice.standard_normal((512, 128), numpy.float32)}
    nodes = [node("MatMul", ["x", "w1"], "a"), node("Relu", ["a"], "b"), node("MatMul", ["b", "w2"], "c"),
             node("Softmax", ["c"], "y")]
    graph = (b"".join(field(1, part) for part in nodes) + field(2, "network")
             + b"".join(field(5, tensor(name, values)) for name, values in weights.items())
             + field(11, described("x", 64, 256)) + field(12, described("y", 64, 128)))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def main():
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        sys.exit(NOT_HERE)
    session = onnxruntime.InferenceSession(model(), providers=["CUDAExecutionProvider"])
    # Where its CUDA provider fails it computes on the CPU.
    assert session.get_providers()[0] == "CUDAExecutionProvider", session.get_providers()
    x = numpy.random.default_rng(6).standard_normal((64, 256), numpy.float32)
    for turn in range(10):
        x = x + 1
        show(f"network {turn}", session.run(["y"], {"x": x})[0])


main()
