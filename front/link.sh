#!/bin/sh
# usage: link.sh OUTPUT STATICLIB
#
# Links the driver front's static library into a libcuda.so.1 that exports the driver's functions, NVML's, what MGB's
# runtime asks the front, and nothing else: rustc's own cdylib link would export the probe's C interface as well, which
# libmgb_rt.so has.
set -eu

output=$1
library=$2
script=$(mktemp)
trap 'rm -f "$script"' EXIT
echo '{ global: cu[A-Z]*; cudbg*; nvml*; mgb_front_*; local: *; };' >"$script"

# Programs that run from the folder go on with the old library, so it is replaced by a rename.
"${CC:-cc}" -shared -o "$output.new" -Wl,-soname,libcuda.so.1 -Wl,--version-script="$script" \
    -Wl,--whole-archive "$library" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-Bsymbolic \
    -Wl,-z,nodelete -Wl,-z,relro -Wl,--no-undefined -lgcc_s -lpthread -ldl -lm -lc
mv -f "$output.new" "$output"
