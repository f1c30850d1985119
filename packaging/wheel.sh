#!/bin/sh
# Packs the wheel: MGB for `pip install`, with the Python package of python/, for any system with glibc 2.34 or later.
#
#   wheel.sh STAGED DESTINATION [VERSION]     writes DESTINATION/mgb-VERSION-py3-none-manylinux_2_34_x86_64.whl
#
# `wheel pack` writes the list of files and the archive. hatchling would want a hook to set the tag, and Debian 12's has no place
# for programs; flit has none either, and setuptools' is for scripts; maturin has one, and would build the crates once more.
#
# Programs lie in the environment's bin, as they are: a script of Python's before them would cost each start more than
# `mgb run` itself takes. All else of them is in the environment's lib/mgb, where they look for it. The compiler wrappers stay
# out: they are of use where clang 22 and CUDA are installed by a system's packages, and MGB then may be as well. So do
# services: an environment is one user's.
set -eu
umask 022

here=$(cd "$(dirname "$0")/.." && pwd)
staged=$1
destination=$2
. "$here/packaging/facts.sh"
version=${3:-$version}
# What tools/symbols.sh makes sure of, as pip says it.
tag=py3-none-manylinux_$("$here/tools/symbols.sh" --glibc | tr . _)_$(uname -m)

die() { echo "wheel: $*" >&2; exit 1; }
# Debian's own Python has what Debian packages, whichever one is first in PATH.
for python in python3 /usr/bin/python3 ""; do
    [ -n "$python" ] || die "there is no module wheel of Python's: install python3-wheel"
    if "$python" -m wheel version >/dev/null 2>&1; then break; fi
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
laid=$scratch/laid
packed=$scratch/packed
data=$packed/mgb-$version.data
info=$packed/mgb-$version.dist-info

"$here/tools/layout.sh" "$staged" "$laid" / run
mkdir -p "$packed/mgb" "$data/scripts" "$data/data/lib/mgb" "$info/licenses"
cp "$here"/python/mgb/*.py "$here/python/mgb/py.typed" "$packed/mgb/"
chmod 644 "$packed"/mgb/*
mv "$laid/lib/mgb/bin/mgb" "$laid/lib/mgb/bin/mgbd" "$data/scripts/"
mv "$laid/lib/mgb/lib" "$data/data/lib/mgb/"
[ ! -e "$laid/lib/mgb/share" ] || mv "$laid/lib/mgb/share" "$data/data/lib/mgb/"
# pip removes a folder that has a file of its own in it, and would leave this one empty. For the same reason pages and
# completions stay out, which other folders would hold: `mgb man` and `mgb completions` write them.
echo "These are parts of MGB, for bin/mgb: \`pip uninstall mgb\` removes them." >"$data/data/lib/mgb/README"

# A wheel holds no links, and copies would be other libraries to the dynamic linker, each with a state of its own.
find "$data" -type l | while IFS= read -r link; do
    "$here/packaging/second_name.sh" "$link" || exit 1
done
[ -z "$(find "$packed" -type l)" ] || die "links are left: $(find "$packed" -type l)"
"$here/tools/symbols.sh" "$data"

cp "$here/LICENSE" "$info/licenses/"
"$here/packaging/thirdparty.py" "$info/licenses/THIRD-PARTY.txt"
sed "s/VERSION/$version/" "$here/packaging/wheel.txt" >"$info/METADATA"
cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: packaging/wheel.sh
Root-Is-Purelib: false
Tag: $tag
END

mkdir -p "$destination" "$scratch/out"
# The same sources make the same bytes: files are dated by SOURCE_DATE_EPOCH, and packed in the order of their names.
"$python" -m wheel pack --dest-dir "$scratch/out" "$packed" >"$scratch/said" || { cat "$scratch/said" >&2; die "failed to pack"; }
wheel=mgb-$version-$tag.whl
mv -f "$scratch/out/$wheel" "$destination/$wheel"
echo "wheel: $destination/$wheel, $(du -sm "$destination/$wheel" | cut -f 1) MiB"
