#!/bin/sh
# Packs what a machine with only an NVIDIA driver (or with no GPU at all) needs to run MGB, its examples and its trials:
# everything that `make build` laid out but the compiler side, CUDA's runtime library, the examples plain and with MGB.
#
#   bundle.sh PREFIX DESTINATION
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
prefix=$1
destination=$2
most=60 # MiB

die() { echo "bundle: $*" >&2; exit 1; }

rm -rf "$destination.new"
mkdir -p "$destination.new"
new=$(cd "$destination.new" && pwd)

mkdir "$new/lib" "$new/examples"
cp -R "$prefix/bin" "$prefix/include" "$prefix/share" "$new/"
cp -R "$prefix/lib/softgpu" "$prefix/lib/front" "$new/lib/"
cp "$prefix/lib/libmgb_rt.so" "$prefix/lib/mgb_spank.so" "$new/lib/"
cp -L "$prefix/cuda/lib64/libcudart.so.13" "$new/lib/"
ln -s libcudart.so.13 "$new/lib/libcudart.so"
cp -R "$prefix/examples/." "$new/examples/"
cp -R "$prefix/conformance" "$prefix/benches" "$prefix/libraries" "$prefix/random" "$prefix/matrix" "$new/"
[ ! -d "$prefix/next" ] || cp -R "$prefix/next" "$new/"
[ ! -d "$prefix/twins" ] || cp -R "$prefix/twins" "$new/"
[ ! -d "$prefix/generated" ] || cp -R "$prefix/generated" "$new/"
rm -rf "$new"/*/*/.empty "$new"/*/*/.compiler "$new"/*/*/*.o
cp -R "$here/tests/gpu" "$new/trials"
find "$new/trials" -name __pycache__ -exec rm -rf {} +
cp -R "$here/systemd" "$here/LICENSE" "$new/"
[ ! -e "$here/tests/gpu/run-all" ] || mv "$new/trials/run-all" "$new/run-all"

# NVIDIA's library stays as it is; what was built here does without its debug information.
[ ! -d "$new/next" ] || strip --strip-debug "$new/next/mgbd"
strip --strip-debug "$new/bin/mgb" "$new/bin/mgbd" "$new/lib/libmgb_rt.so" \
    "$new/lib/mgb_spank.so" "$new/lib/softgpu/libcudart.so.13" "$new/lib/softgpu/libcublas.so.13" \
    "$new/lib/front/libcuda.so.1"

size=$(du -sm "$new" | cut -f 1)
[ "$size" -lt "$most" ] || die "$new has $size MiB, it must stay under $most MiB: see what grew"
rm -rf "$destination"
mv "$new" "$destination"
echo "bundle: $destination, $size MiB"
