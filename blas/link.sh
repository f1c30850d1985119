#!/bin/sh
# usage: link.sh OUT_DIR STATICLIB
#
# Links the static library into a libcublas.so.13 for software GPUs, whose runtime lies in OUT_DIR already: it uses that as
# any program does. Functions have cuBLAS's version, which programs linked with NVIDIA's ask for. What is not there is not
# exported, so that a program that needs it fails with the function's name.
set -eu

out=$1
library=$2
script=$(mktemp)
trap 'rm -f "$script"' EXIT
echo 'libcublas.so.13 { global: cublas[A-Z]*; local: *; };' >"$script"

# Programs that run from the folder go on with the old library, so it is replaced by a rename.
"${CC:-cc}" -shared -o "$out/libcublas.so.13.new" -Wl,-soname,libcublas.so.13 -Wl,--version-script="$script" \
    -Wl,--whole-archive "$library" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-Bsymbolic \
    -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,--no-undefined \
    "$out/libcudart.so.13" -lgcc_s -lpthread -ldl -lm -lc
mv -f "$out/libcublas.so.13.new" "$out/libcublas.so.13"
ln -sfn libcublas.so.13 "$out/libcublas.so"
