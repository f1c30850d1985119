#!/bin/sh
# Refuses a folder with a program or library that needs a later glibc than the oldest one that releases are for, or a later
# libstdc++ than that of Debian 12. What is missing there would be found at its first use, or as the program starts.
#
#   symbols.sh FOLDER
#   symbols.sh --glibc      prints that version of glibc
set -eu

glibc=2.34
libstdcxx=3.4.30

die() { echo "symbols: $*" >&2; exit 1; }
[ "$*" != --glibc ] || { echo "$glibc"; exit 0; }
[ $# = 1 ] && [ -d "$1" ] || die "usage: symbols.sh FOLDER"
command -v objdump >/dev/null || die "there is no objdump: install binutils"

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
# Files of other kinds are none of objdump's: it says so of each, and goes on.
find "$1" -type f -exec objdump -wT {} + 2>/dev/null | awk -v glibc="$glibc" -v libstdcxx="$libstdcxx" '
    # Whether version `have` is later than `most`.
    function later(have, most,   h, m, i, n) {
        n = split(have, h, ".")
        split(most, m, ".")
        for (i = 1; i <= n; i++) if (h[i] + 0 != m[i] + 0) return h[i] + 0 > m[i] + 0
        return 0
    }
    /file format elf/ { file = $0; sub(/: *file format elf.*/, "", file); files++ }
    / \*UND\*/ && match($0, /\(?GLIBC(XX)?_[0-9.]+\)? /) {
        version = substr($0, RSTART, RLENGTH)
        gsub(/[() ]/, "", version)
        split(version, part, "_")
        if (later(part[2], part[1] == "GLIBC" ? glibc : libstdcxx)) print file " needs " $NF " of " part[1] " " part[2]
    }
    END { print files + 0 >"/dev/stderr" }' >"$found/later" 2>"$found/files"
files=$(cat "$found/files")
[ "$files" != 0 ] || die "$1 holds no program or library"
if [ -s "$found/later" ]; then
    sort -u "$found/later" >&2
    die "these are later than glibc $glibc or libstdc++ $libstdcxx: build on Debian 12, or do without"
fi
echo "symbols: $files files need nothing later than glibc $glibc"
