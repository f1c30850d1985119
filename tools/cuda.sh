#!/bin/sh
# Finds the CUDA 13.0 tree in use, or makes one from PyPI's wheels.
#
#   cuda.sh find   prints the tree: $CUDA_PATH, /usr/local/cuda or .cuda here; fails when there is none
#   cuda.sh get    the same, but makes .cuda when no other tree is there
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
own=$here/.cuda

say() { echo "cuda: $*" >&2; }
die() { say "$*"; exit 1; }

# Prints the version of the tree $1, as 13.0; nothing if it is no tree.
version() {
    sed -n 's/^#define CUDART_VERSION *\([0-9]*\)\([0-9]\{2\}\)[0-9] *$/\1 \2/p' \
        "$1/include/cuda_runtime_api.h" 2>/dev/null | awk '{ print $1 "." $2 + 0 }'
}

# Says what the tree $1 lacks; nothing if it is whole.
lacks() {
    for file in include/cuda_runtime_api.h include/crt/host_runtime.h lib64/libcudart.so.13 lib64/libcudart.so \
        bin/ptxas nvvm/libdevice/libdevice.10.bc; do
        [ -e "$1/$file" ] || { echo "$file"; return; }
    done
}

# Prints the tree in use, or returns 1.
find_tree() {
    if [ -n "${CUDA_PATH:-}" ]; then
        # What the user names is taken or refused, never passed over.
        [ -d "$CUDA_PATH" ] || die "CUDA_PATH=$CUDA_PATH is no folder: correct it, or unset it"
        found=$(version "$CUDA_PATH")
        [ "$found" = 13.0 ] || die "CUDA_PATH=$CUDA_PATH holds CUDA ${found:-of no known version}, MGB needs 13.0: \
name a 13.0 tree, or unset it to fetch one"
        missing=$(lacks "$CUDA_PATH")
        [ -z "$missing" ] || die "CUDA_PATH=$CUDA_PATH has no $missing: name a whole CUDA 13.0 tree, or unset it"
        (cd "$CUDA_PATH" && pwd)
        return
    fi
    for tree in /usr/local/cuda "$own"; do
        if [ "$(version "$tree")" = 13.0 ] && [ -z "$(lacks "$tree")" ]; then
            echo "$tree"
            return
        fi
    done
    return 1
}

# Makes .cuda. It appears by one rename, so that an interrupted run leaves nothing half-made behind.
fetch() {
    say "fetching CUDA 13.0 from PyPI (about 200 MB) into $own"
    partial=$here/.cuda.partial
    rm -rf "$partial"
    mkdir -p "$partial"
    trap 'rm -rf "$partial"' EXIT
    trap 'exit 130' INT TERM
    python3 -m pip install --quiet --no-deps --no-compile --disable-pip-version-check --root-user-action=ignore \
        --target "$partial/wheels" --requirement "$here/tools/cuda-wheels.txt" >&2 ||
        die "failed to fetch the wheels of tools/cuda-wheels.txt with pip (see above): is PyPI to be reached? \
Or set CUDA_PATH to a CUDA 13.0 tree"
    tree=$partial/wheels/nvidia/cu13
    [ -d "$tree" ] || die "the wheels hold no nvidia/cu13: check tools/cuda-wheels.txt"
    # The wheels lack what a toolkit's installer adds.
    [ -e "$tree/lib64" ] || ln -s lib "$tree/lib64"
    [ -e "$tree/lib/libcudart.so" ] || ln -s libcudart.so.13 "$tree/lib/libcudart.so"
    missing=$(lacks "$tree")
    [ -z "$missing" ] || die "the wheels hold no $missing: check tools/cuda-wheels.txt"
    rm -rf "$own"
    mv "$tree" "$own"
}

get() {
    # One at a time: a second caller waits, and then finds the tree made.
    exec 9>"$here/.cuda.lock"
    flock 9
    find_tree && return
    foreign=$(version /usr/local/cuda)
    [ -z "$foreign" ] || say "/usr/local/cuda is CUDA $foreign, or not whole: passed over"
    fetch
    find_tree || die "$own is not usable: remove it and run again"
}

case ${1:-} in
find) find_tree || die "found no CUDA 13.0: run \`make setup\`" ;;
get) get ;;
*) die "usage: cuda.sh find|get" ;;
esac
