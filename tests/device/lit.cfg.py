"""lit's configuration for the tests of the pass's device half.

Run with /usr/lib/llvm-22/bin/lit tests/device (make lit does). The plugin is taken from $MGB_PASS,
else from build/lib, else from cargo's target directory. A test compiles a few lines of CUDA with
Inputs/cuda.h, no CUDA needed, for the device and for the host, runs the pass on both, then LLVM's
verifier, and checks the host's IR. The programs in run/ are whole ones: they are compiled by
mgb-clang++ and run on the software GPU of the prefix, $MGB_PREFIX, and left out where it has none.
"""
import os
import shutil

import lit.formats

config.name = "mgb-device"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".cu"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(config.test_source_root))
target = os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target"))
prefix = os.environ.get("MGB_PREFIX", os.path.join(root, "build"))


def first_existing(paths, what, remedy):
    for path in paths:
        if path and os.path.exists(path):
            return path
    lit_config.fatal(f"no {what}: {remedy}")


plugin = first_existing(
    [
        os.environ.get("MGB_PASS"),
        os.path.join(prefix, "lib", "libmgb_pass.so"),
        os.path.join(target, "debug", "libmgb_pass.so"),
        os.path.join(target, "release", "libmgb_pass.so"),
    ],
    "libmgb_pass.so",
    "build it with `make build`, or name it in MGB_PASS",
)
llvm = first_existing(
    [os.environ.get("LLVM_PREFIX"), "/usr/lib/llvm-22"], "LLVM 22", "install it with `make setup`, or name it in LLVM_PREFIX"
)
config.test_exec_root = os.path.join(target, "lit-device")
config.environment["PATH"] = os.pathsep.join([os.path.join(llvm, "bin"), config.environment["PATH"]])

inputs = os.path.join(config.test_source_root, "Inputs")
compile = (
    f"clang++ -x cuda -nocudainc -nocudalib -Xclang -target-sdk-version=12.9 -target x86_64-linux-gnu -std=c++17 "
    f"-I{inputs} -fno-discard-value-names -S -emit-llvm -o -"
)
device = f"{compile} --cuda-device-only --cuda-feature=+ptx80"
host = f"{compile} --cuda-host-only -Xclang -fcuda-include-gpubinary -Xclang {os.path.join(inputs, 'empty.fatbin')}"
report = f"{shutil.which('python3') or 'python3'} {os.path.join(config.test_source_root, '..', 'pass', 'Inputs', 'show_report.py')}"
passes = f"env MGB_SIDE_DIR=%t.side opt -load-pass-plugin={plugin} -S"
pipeline_start = "-Xclang -disable-llvm-passes"


def whole(level):
    """Both runs of the pass on one source; the host's IR on standard output."""
    flags = f"-O{level}" if level == 0 else f"-O{level} {pipeline_start}"
    return (
        f"rm -rf %t.side && mkdir -p %t.side && {device} --cuda-gpu-arch=sm_90 {flags} %s | {passes} -passes=mgb -disable-output && "
        f"{host} {flags} %s | {passes} -passes=mgb,verify"
    )


# The order matters: the first that fits is taken.
config.substitutions += [
    ("%host-O0", whole(0)),
    ("%host-O2", whole(2)),
    ("%device-ir", f"{device} -O2 {pipeline_start}"),
    ("%host-ir", f"{host} -O2 {pipeline_start}"),
    ("%opt", f"opt -load-pass-plugin={plugin} -S"),
    # The report in words, from the section of an object compiled from %t.ll.
    ("%report", f"llc -filetype=obj -relocation-model=pic %t.ll -o %t.o && llvm-objcopy --dump-section .mgb.report=%t.json %t.o && {report} %t.json"),
    ("%cuda", os.path.join(prefix, "cuda")),
    ("%mgb-clang", os.path.join(prefix, "bin", "mgb-clang++")),
    (
        "%softgpu",
        f"env MGB=off SOFTGPU_DEVICES=1x64MiB SOFTGPU_TIME=off LD_LIBRARY_PATH={os.path.join(prefix, 'lib', 'softgpu')}",
    ),
]
needed = ["bin/mgb-clang++", "lib/softgpu/libcudart.so.13", "cuda"]
if all(os.path.exists(os.path.join(prefix, path)) for path in needed):
    config.available_features.add("softgpu")
