#!/bin/sh
# Builds the software GPU with AddressSanitizer into PREFIX/asan/softgpu. Whoever loads it must bring the sanitizer's
# runtime: a program built with -fsanitize=address by the clang that the wrapper uses.
#
#   asan.sh TARGET PREFIX     TARGET is cargo's folder for this build
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
target=$1
prefix=$2
triple=x86_64-unknown-linux-gnu

# rustc keeps the sanitizers to itself on its stable channel. A named target keeps them out of build scripts.
cd "$here"
CUDA_PATH=$(sh tools/cuda.sh find) RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address \
    cargo build --release --locked --package softgpu --features sanitizer --target $triple --target-dir "$target"
softgpu/link.sh "$prefix/asan/softgpu" "$target/$triple/release/libsoftgpu.a" -Wl,-z,undefs
