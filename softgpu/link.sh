#!/bin/sh
# usage: link.sh OUT_DIR STATICLIB [FLAG...]     flags: more of them for the linker
#
# Links softgpu's static library into the one shared object that stands for libcudart.so.13,
# libcuda.so.1 and libnvidia-ml.so.1, and makes the links of those names. rustc's own cdylib link
# cannot give libcudart's symbols their version, which programs linked with NVIDIA's ask for; a
# version script can, and the list in it is what the library defines.
set -eu

out=$1
library=$2
shift 2
script=$(mktemp)
trap 'rm -f "$script"' EXIT

symbols() {
    found=$(nm --defined-only --extern-only "$library" 2>/dev/null | sed -n 's/^[0-9a-f]* [TDBRVW] //p' |
        grep -E "$1" | sort -u | sed 's/$/;/')
    if [ -z "$found" ]; then
        echo "link.sh: $library defines nothing that matches $1: is it softgpu's static library?" >&2
        exit 1
    fi
    echo "$found"
}

runtime=$(symbols '^(__)?cuda[A-Z]')
others=$(symbols '^(cu[A-Z]|nvml[A-Z]|(__)?softgpu)')
{
    echo "libcudart.so.13 { global:"
    echo "$runtime"
    echo "local: *; };"
    echo "SOFTGPU { global:"
    echo "$others"
    echo "};"
} >"$script"

# Programs that run from the folder go on with the old object, so it is replaced by a rename.
mkdir -p "$out"
"${CC:-cc}" -shared -o "$out/libcudart.so.13.new" \
    -Wl,-soname,libcudart.so.13 -Wl,--version-script="$script" \
    -Wl,--whole-archive "$library" -Wl,--no-whole-archive \
    -Wl,--gc-sections -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,--no-undefined \
    "$@" -lgcc_s -lpthread -ldl -lm -lc
mv -f "$out/libcudart.so.13.new" "$out/libcudart.so.13"
for name in libcudart.so libcuda.so.1 libnvidia-ml.so.1; do
    ln -sfn libcudart.so.13 "$out/$name"
done
