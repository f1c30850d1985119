#!/bin/sh
# Lays what cargo has built out as the folder that users install: bin, lib, include, share.
#
#   stage.sh BUILT PREFIX     BUILT is cargo's output folder (target/release)
#
# A file that has not changed is left alone, so that whoever builds on it builds nothing anew; one that has is
# replaced by a rename, so that programs that run from the folder go on with the old one.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
built=$1
prefix=$2

put() {
    cmp -s "$1" "$2" && return
    cp -p "$1" "$2.new"
    mv -f "$2.new" "$2"
}

# A link to $1 named $2.
link() { [ "$(readlink "$2")" = "$1" ] || ln -sfn "$1" "$2"; }

mkdir -p "$prefix/bin" "$prefix/lib/softgpu" "$prefix/lib/front/nvml" "$prefix/include" "$prefix/share/empty"

new_pass=
cmp -s "$built/libmgb_pass.so" "$prefix/lib/libmgb_pass.so" || new_pass=1
put "$built/mgb" "$prefix/bin/mgb"
put "$built/mgbd" "$prefix/bin/mgbd"
link mgb "$prefix/bin/mgb-clang"
link mgb "$prefix/bin/mgb-clang++"
link mgb "$prefix/bin/mgb-nvcc"
# What CMake learns of mgb-nvcc to link with.
link mgb "$prefix/bin/mgb-nvcc-link"
# What slurm.conf names: programs there take no arguments.
link mgb "$prefix/bin/mgb-task-prolog"
link mgb "$prefix/bin/mgb-epilog"
link mgb "$prefix/bin/mgb-health"

put "$built/libmgb_pass.so" "$prefix/lib/libmgb_pass.so"
# A new pass is a new compiler: ccache knows a compiler by its time.
[ -z "$new_pass" ] || touch "$prefix/bin/mgb"
put "$built/libmgb_rt.so" "$prefix/lib/libmgb_rt.so"
# In a folder of its own: whoever has that first in the search path gets the front instead of the driver.
front=$prefix/lib/front/libcuda.so.1
if [ ! "$front" -nt "$built/libmgb_front.a" ] || [ ! "$front" -nt "$here/front/link.sh" ]; then
    "$here/front/link.sh" "$front" "$built/libmgb_front.a"
fi
# Some programs ask for the driver by the name that compilers use.
link libcuda.so.1 "$prefix/lib/front/libcuda.so"
# The front is NVML's library as well. In a folder of its own: `mgb run` leaves it out where NVIDIA's has more.
link ../libcuda.so.1 "$prefix/lib/front/nvml/libnvidia-ml.so.1"
# `mgb cluster plugin` makes it that of a version of Slurm.
put "$built/libmgb_spank.so" "$prefix/lib/mgb_spank.so"
put "$here/probe/include/mgb.h" "$prefix/include/mgb.h"
put "$here/cli/include/mgb_legacy.h" "$prefix/include/mgb_legacy.h"
mkdir -p "$prefix/include/legacy"
for header in cuda_runtime.h cuda_runtime_api.h; do
    put "$here/cli/include/legacy/$header" "$prefix/include/legacy/$header"
done
put "$here/cli/include/mgb_nvcc.h" "$prefix/include/mgb_nvcc.h"
put "$here/cli/include/mgb_managed.h" "$prefix/include/mgb_managed.h"

# What `mgb bench` writes beside its figures.
if git -C "$here" describe --always --dirty --abbrev=40 --exclude='*' >"$prefix/share/.commit" 2>/dev/null; then
    put "$prefix/share/.commit" "$prefix/share/commit"
fi
rm -f "$prefix/share/.commit"

# clang includes this header of cuRAND whether cuRAND is there or not.
: >"$prefix/share/empty/.new"
put "$prefix/share/empty/.new" "$prefix/share/empty/curand_mtgp32_kernel.h"
rm "$prefix/share/empty/.new"

# The software GPU is linked anew only when what it is made from is newer.
soft=$prefix/lib/softgpu/libcudart.so.13
if [ ! "$soft" -nt "$built/libsoftgpu.a" ] || [ ! "$soft" -nt "$here/softgpu/link.sh" ]; then
    "$here/softgpu/link.sh" "$prefix/lib/softgpu" "$built/libsoftgpu.a"
fi
blas=$prefix/lib/softgpu/libcublas.so.13
if [ ! "$blas" -nt "$built/libmgb_blas.a" ] || [ ! "$blas" -nt "$here/blas/link.sh" ] || [ ! "$blas" -nt "$soft" ]; then
    "$here/blas/link.sh" "$prefix/lib/softgpu" "$built/libmgb_blas.a"
fi

link "$(sh "$here/tools/cuda.sh" find)" "$prefix/cuda"
