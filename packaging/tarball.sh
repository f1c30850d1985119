#!/bin/sh
# Packs the tarball: MGB with its examples, for any folder of any system with glibc 2.34 or later.
#
#   tarball.sh STAGED DESTINATION     writes DESTINATION/mgb-VERSION-x86_64-linux.tar.gz
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
staged=$1
destination=$2

. "$here/packaging/facts.sh"
name=mgb-$version-$(uname -m)-linux
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

"$here/tools/layout.sh" "$staged" "$scratch/$name" / run clang slurm examples
sed "s/VERSION/$version/" "$here/packaging/tarball.txt" >"$scratch/$name/README"
cp "$here/LICENSE" "$scratch/$name/"
"$here/packaging/thirdparty.py" "$scratch/$name/share/doc/mgb/THIRD-PARTY.txt"
"$here/tools/symbols.sh" "$scratch/$name"
mkdir -p "$destination"
# The same sources make the same bytes.
tar -C "$scratch" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -cf - "$name" |
    gzip -9n >"$destination/$name.tar.gz.new"
mv -f "$destination/$name.tar.gz.new" "$destination/$name.tar.gz"
echo "tarball: $destination/$name.tar.gz, $(du -sm "$destination/$name.tar.gz" | cut -f 1) MiB"
