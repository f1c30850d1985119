#!/bin/sh
# Builds what is packaged, in the profile `dist`, and lays it out.
#
#   dist.sh TARGET STAGED     TARGET is cargo's folder (target)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
target=$1
staged=$2
cd "$here"
CUDA_PATH=$(tools/cuda.sh find)
export CUDA_PATH

# No program tells where it was built, and the same sources make the same program in any folder.
separator=$(printf '\037')
from=${CARGO_HOME:-$HOME/.cargo}
CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$here=/mgb${separator}--remap-path-prefix=$from=/cargo"
export CARGO_ENCODED_RUSTFLAGS

# These become libraries by scripts of their own, from static ones; those are of objects, and not of LLVM's bitcode, only
# where cargo builds nothing else of them.
static="softgpu mgb-blas"
cargo build --locked --workspace --exclude mgb-tests $(printf -- '--exclude %s ' $static) --profile dist
for package in $static; do
    cargo rustc --locked --package "$package" --lib --crate-type staticlib --profile dist
done
tools/stage.sh "$target/dist" "$staged"
# Examples are the same, whichever profile their compiler was built in.
ln -sfn ../examples "$staged/examples"
