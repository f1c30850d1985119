"""lit's configuration for the tests of the pass's host half.

Run with /usr/lib/llvm-22/bin/lit tests/pass (make test does). The plugin is taken from $MGB_PASS,
else from build/lib, else from cargo's target directory. Each test compiles a few lines of CUDA with
Inputs/cuda.h, no CUDA needed, or brings its own IR, runs the pass and LLVM's verifier, and checks
the IR, or the report as the object's section has it.
"""
import os
import shutil

import lit.formats

config.name = "mgb-pass"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".cu", ".ll"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(config.test_source_root))
target = os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target"))


def first_existing(paths, what, remedy):
    for path in paths:
        if path and os.path.exists(path):
            return path
    lit_config.fatal(f"no {what}: {remedy}")


plugin = first_existing(
    [
        os.environ.get("MGB_PASS"),
        os.path.join(root, "build", "lib", "libmgb_pass.so"),
        os.path.join(target, "debug", "libmgb_pass.so"),
        os.path.join(target, "release", "libmgb_pass.so"),
    ],
    "libmgb_pass.so",
    "build it with `make build`, or name it in MGB_PASS",
)
prefix = first_existing(
    [os.environ.get("LLVM_PREFIX"), "/usr/lib/llvm-22"], "LLVM 22", "install it with `make setup`, or name it in LLVM_PREFIX"
)
config.test_exec_root = os.path.join(target, "lit-pass")
tools = os.path.join(prefix, "bin")
config.environment["PATH"] = os.pathsep.join([tools, config.environment["PATH"]])
# These tests have no device code, without which every kernel may keep the addresses that it is given.
config.environment["MGB_ASSUME"] = "escape"

inputs = os.path.join(config.test_source_root, "Inputs")
compile = (
    f"clang++ -x cuda --cuda-host-only -nocudainc -nocudalib -Xclang -target-sdk-version=12.5 -target x86_64-linux-gnu -std=c++17 "
    f"-I{inputs} -fno-discard-value-names -gline-tables-only -S -emit-llvm -o -"
)
passes = f"opt -load-pass-plugin={plugin} -S"
report = f"{shutil.which('python3') or 'python3'} {os.path.join(inputs, 'show_report.py')}"

# The order matters: the first that fits is taken.
config.substitutions += [
    # IR as the pass gets it from clang, at -O0 and at -O1 and above.
    ("%ir-O0", f"{compile} -O0"),
    ("%ir-O1", f"{compile} -O1 -Xclang -disable-llvm-passes"),
    # The pass, then the verifier.
    ("%mgb", f"{passes} -passes=mgb,verify"),
    ("%opt", passes),
    # The report in words, from the section of an object compiled from %t.ll.
    ("%report", f"llc -filetype=obj -relocation-model=pic %t.ll -o %t.o && llvm-objcopy --dump-section .mgb.report=%t.json %t.o && {report} %t.json"),
    # Through clang itself, the pass loaded as users do.
    ("%clang-mgb", f"{compile} -fpass-plugin={plugin}"),
    ("%plugin", plugin),
]
