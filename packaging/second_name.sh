#!/bin/sh
# Puts a library in the place of a link to one, that does what the link does: whoever loads it gets the library behind the
# link, once in a process, whatever its other names. For packages that hold no links.
#
#   second_name.sh LINK
#
# It has nothing in it but the path of that library, from its own folder on: by its name alone the dynamic linker would take
# another one of that name which the process has already, such as NVIDIA's CUDA runtime for the software GPU's.
set -eu

link=$1
target=$(readlink "$link")
name=${link##*/}
die() { echo "second_name: $*" >&2; exit 1; }
[ -f "$(dirname "$link")/$target" ] || die "$link leads to $target, which is no file"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build() { "${CC:-cc}" -shared -nostdlib -x c /dev/null -x none -Wl,--build-id=none "$@"; }
# The linker notes a library under the name that this gives itself.
build -o "$scratch/behind.so" -Wl,-soname,"\$ORIGIN/$target"
build -o "$scratch/$name" -Wl,-soname,"$name" -Wl,--hash-style=gnu -Wl,-z,noseparate-code -Wl,--no-as-needed "$scratch/behind.so"
strip --strip-all "$scratch/$name"
chmod 644 "$scratch/$name"
mv -f "$scratch/$name" "$link"
