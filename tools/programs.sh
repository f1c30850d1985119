#!/bin/sh
# Builds a folder of programs as users would, plain and with MGB, into PREFIX/NAME/{plain,mgb}, what else is in the folder
# beside them.
#
#   programs.sh PREFIX FOLDER     FOLDER: examples, tests/conformance; NAME is its last part
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
prefix=$1
folder=$2
name=$(basename "$folder")
out=$prefix/$name
jobs=$(nproc)

# make knows the sources; that the compiler itself is new, it does not.
stamp=$out/mgb/.compiler
compiler=$(cksum "$prefix/bin/mgb" "$prefix/lib/libmgb_pass.so")
if [ "$(cat "$stamp" 2>/dev/null)" != "$compiler" ]; then
    rm -rf "$out/mgb"
    mkdir -p "$out/mgb"
    echo "$compiler" >"$stamp"
fi

# A jobserver or variables of an outer make are not for these.
unset MAKEFLAGS MFLAGS MAKELEVEL
# Where CUDA's own libraries are looked for.
export CUDA_LIBRARIES="${CUDA_LIBRARIES:-$(readlink -f "$prefix/cuda")}"
quiet="make --no-print-directory --silent -C $here/$folder -j$jobs"
echo "$name: building, plain and with MGB, in $out"
$quiet OUT="$out/plain" CUDA="$(readlink -f "$prefix/cuda")"
$quiet OUT="$out/mgb" CXX="$prefix/bin/mgb-clang++"
for source in "$here/$folder"/*; do
    case $source in
    */build*) ;; # what somebody built by hand
    *) cp -R "$source" "$out/" ;;
    esac
done
