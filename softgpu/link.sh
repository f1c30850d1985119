#!/bin/sh
# usage: link.sh STATICLIB OUT_FILE
#
# Links softgpu's static library into the one shared object that stands for libcudart.so.13,
# libcuda.so.1 and libnvidia-ml.so.1 (links to it have those names). rustc's own cdylib link cannot give libcudart's
# symbols their version, which programs linked with NVIDIA's ask for; a version script can, and the
# list in it is what the library defines.
set -eu

library=$1
out=$2
script=$(mktemp)
trap 'rm -f "$script"' EXIT

symbols() {
    nm --defined-only --extern-only "$library" 2>/dev/null | sed -n 's/^[0-9a-f]* [TDBRVW] //p' |
        grep -E "$1" | sort -u | sed 's/$/;/'
}

{
    echo 'libcudart.so.13 { global:'
    symbols '^(__)?cuda[A-Z]'
    echo 'local: *; };'
    echo 'SOFTGPU { global:'
    symbols '^(cu[A-Z]|nvml[A-Z]|__softgpu)'
    echo '};'
} >"$script"

"${CC:-cc}" -shared -o "$out" \
    -Wl,-soname,libcudart.so.13 -Wl,--version-script="$script" \
    -Wl,--whole-archive "$library" -Wl,--no-whole-archive \
    -Wl,--gc-sections -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,--no-undefined \
    -lgcc_s -lpthread -ldl -lm -lc
