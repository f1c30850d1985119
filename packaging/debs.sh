#!/bin/sh
# Packs the Debian packages: mgb, mgb-clang and mgb-slurm.
#
#   debs.sh STAGED DESTINATION [VERSION]     writes DESTINATION/NAME_VERSION_amd64.deb
#
# dpkg's own tools pack what tools/layout.sh lays out. debhelper would build the sources anew for each system, and cargo-deb
# packs what one crate has; here three packages share one build of many crates. DEBFULLNAME and DEBEMAIL say who maintains
# them, as for Debian's other tools.
set -eu
umask 022

here=$(cd "$(dirname "$0")/.." && pwd)
staged=$1
destination=$2
. "$here/packaging/facts.sh"
full=${3:-$version-1}
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-The MGB maintainers}${DEBEMAIL:+ <$DEBEMAIL>}"

die() { echo "debs: $*" >&2; exit 1; }
command -v dpkg-shlibdeps >/dev/null || die "there is no dpkg-shlibdeps: install dpkg-dev"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# The libraries that the programs in folder $1 are linked with, as packages. Examples are linked with CUDA's too, which
# software GPUs or the system bring.
libraries() {
    mkdir -p "$scratch/work/debian"
    printf 'Source: mgb\n\nPackage: mgb\nArchitecture: any\n' >"$scratch/work/debian/control"
    objects=$(cd "$1" && find . -path ./usr/lib/mgb/examples -prune -o -type f \( -perm -100 -o -name '*.so*' \) -print)
    # Names of files here have no spaces.
    (cd "$scratch/work" && dpkg-shlibdeps -O -l"$1/usr/lib/mgb/lib/softgpu" \
        $(printf '%s\n' "$objects" | sed "s|^\.|-e$1|") 2>"$scratch/said") | sed -n 's/^shlibs:Depends=//p' ||
        { cat "$scratch/said" >&2; die "failed to find what $1 depends on"; }
}

# What Debian has in every package: who made it, and what changed.
documents() {
    name=$1
    to=$2/usr/share/doc/$name
    mkdir -p "$to"
    {
        echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
        echo "Upstream-Name: MGB"
        echo
        echo "Files: *"
        echo "Copyright: © the contributors to MGB"
        echo "License: Apache-2.0 with LLVM exception"
        echo " Licensed under the Apache License, version 2.0, with the exception below. Debian"
        echo " has the licence in /usr/share/common-licenses/Apache-2.0."
        echo " ."
        sed -n '/^--- LLVM Exceptions/,$p' "$here/LICENSE" | sed 's/^$/./; s/^/ /'
        echo "Comment: the Rust crates in the programs, their authors and their licences are in"
        echo " /usr/share/doc/mgb/THIRD-PARTY.txt.gz."
    } >"$to/copyright"
    {
        echo "mgb ($full) unstable; urgency=medium"
        echo
        echo "  * Version $version: see changelog.gz in /usr/share/doc/mgb."
        echo
        echo " -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$to/changelog.Debian.gz"
}

lay_mgb() {
    "$here/tools/layout.sh" "$staged" "$1" /usr run examples
    "$here/packaging/thirdparty.py" "$1/usr/share/doc/mgb/THIRD-PARTY.txt"
    gzip -9n "$1/usr/share/doc/mgb/THIRD-PARTY.txt"
    mv "$1/usr/share/doc/mgb/CHANGELOG.md" "$1/usr/share/doc/mgb/changelog"
    gzip -9n "$1/usr/share/doc/mgb/changelog"
    rm "$1/usr/share/doc/mgb/LICENSE"
    # Debian's place for it.
    mv "$1/usr/share/zsh/site-functions" "$1/usr/share/zsh/vendor-completions"
    mkdir -p "$1/etc/mgb"
    mv "$1/usr/share/doc/mgb/mgbd.toml" "$1/etc/mgb/mgbd.toml"
    echo /etc/mgb/mgbd.toml >"$1/DEBIAN/conffiles"
    mkdir -p "$1/usr/share/lintian/overrides"
    {
        echo "# CUDA's installer puts its libraries there, and the examples use them on GPUs."
        echo "mgb: custom-library-search-path RUNPATH /usr/local/cuda/lib64 *"
    } >"$1/usr/share/lintian/overrides/mgb"
}

lay_mgb_clang() { "$here/tools/layout.sh" "$staged" "$1" /usr clang; }
lay_mgb_slurm() { "$here/tools/layout.sh" "$staged" "$1" /usr slurm; }

pack() {
    name=$1
    root=$scratch/$name
    mkdir -p "$root/DEBIAN"
    "lay_$(echo "$name" | tr - _)" "$root"
    documents "$name" "$root"
    [ ! -d "$root/usr/share/man" ] || find "$root/usr/share/man" -type f -exec gzip -9n {} +
    [ ! -d "$root/usr/share/man" ] || find "$root/usr/share/man" -type l | while IFS= read -r page; do
        ln -s "$(readlink "$page").gz" "$page.gz"
        rm "$page"
    done
    "$here/tools/symbols.sh" "$root"
    needs=$(libraries "$root")
    {
        echo "Package: $name"
        echo "Source: mgb"
        echo "Version: $full"
        echo "Architecture: $architecture"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)"
        sed "s/SHLIBS/$needs/; s/VERSION/$full/" "$here/packaging/debian/$name.control"
    } >"$root/DEBIAN/control"
    for script in postinst prerm postrm; do
        [ ! -e "$here/packaging/debian/$name.$script" ] ||
            install -m 755 "$here/packaging/debian/$name.$script" "$root/DEBIAN/$script"
    done
    (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) \
        >"$root/DEBIAN/md5sums"
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    mkdir -p "$destination"
    file=$destination/${name}_${full}_$architecture.deb
    dpkg-deb --root-owner-group -Zxz --build "$root" "$file.new" >/dev/null
    mv -f "$file.new" "$file"
    echo "debs: $file, $(du -sk "$file" | cut -f 1) KiB"
}

for package in mgb mgb-clang mgb-slurm; do
    pack "$package"
done
