#!/bin/sh
# Lays a staged MGB out as systems have it: MGB's own folder in PREFIX/lib/mgb, and links, pages, completions and units
# where others look for them. `make install`, the tarball, the Debian packages and the wheel are all made of it.
#
#   layout.sh STAGED ROOT PREFIX PART...
#
# STAGED is what tools/stage.sh has laid out, ROOT a folder that stands for /. Parts:
#   run       mgb, mgbd, the runtime, the driver front, software GPUs, pages, completions, units
#   clang     the compiler wrappers, the pass and the headers
#   slurm     Slurm's plugin and what slurm.conf calls
#   examples  the examples, if they are built (make examples), plain and with MGB, for any place of PREFIX
#
# MGB finds its own folder from wherever its program really lies, so that PREFIX is in units alone; with / for a PREFIX that
# is not known yet, these say /usr/local. Files are made anew: ROOT should be empty. Debug information is left out.
set -eu
umask 022

die() { echo "layout: $*" >&2; exit 1; }

[ $# -ge 4 ] || die "usage: layout.sh STAGED ROOT PREFIX PART..."
here=$(cd "$(dirname "$0")/.." && pwd)
staged=$1
root=$2
prefix=${3%/}
shift 3
[ -x "$staged/bin/mgb" ] || die "$staged holds no bin/mgb: run \`make build\` first"
case $prefix in
/* | "") ;;
*) die "PREFIX=$prefix is no absolute path" ;;
esac
# Units and manifests have it in them.
case $prefix in
*[!A-Za-z0-9/._+-]*) die "PREFIX=$prefix: letters, digits and any of /._+- only" ;;
esac

base=$root$prefix
own=$base/lib/mgb

folder() { mkdir -p "$@"; }

# put MODE FILE TO: a copy.
put() {
    folder "$(dirname "$3")"
    cp "$2" "$3"
    chmod "$1" "$3"
}

# The same for a program or library, without debug information.
put_object() {
    put "$@"
    strip --strip-unneeded "$3" || die "failed to strip $3: is binutils installed?"
}

link() {
    folder "$(dirname "$2")"
    ln -sfn "$1" "$2"
}

# A name of mgb in its own folder, and one in PREFIX/bin.
names() {
    for name; do
        link mgb "$own/bin/$name"
        link "../lib/mgb/bin/$name" "$base/bin/$name"
    done
}

lay_run() {
    for program in mgb mgbd; do
        put_object 755 "$staged/bin/$program" "$own/bin/$program"
        link "../lib/mgb/bin/$program" "$base/bin/$program"
    done
    put_object 644 "$staged/lib/libmgb_rt.so" "$own/lib/libmgb_rt.so"
    for library in front/libcuda.so.1 softgpu/libcudart.so.13 softgpu/libcublas.so.13; do
        put_object 644 "$staged/lib/$library" "$own/lib/$library"
    done
    # What else is in these folders is links.
    for folder in front front/nvml softgpu; do
        for one in "$staged/lib/$folder"/*; do
            [ ! -L "$one" ] || link "$(readlink "$one")" "$own/lib/$folder/${one##*/}"
        done
    done
    [ ! -e "$staged/share/commit" ] || put 644 "$staged/share/commit" "$own/share/commit"

    folder "$base/share/man/man1" "$base/share/man/man8"
    "$staged/bin/mgb" man "$base/share/man/man1"
    "$staged/bin/mgbd" --man >"$base/share/man/man8/mgbd.8"
    folder "$base/share/bash-completion/completions" "$base/share/zsh/site-functions" \
        "$base/share/fish/vendor_completions.d"
    "$staged/bin/mgb" completions bash >"$base/share/bash-completion/completions/mgb"
    "$staged/bin/mgb" completions zsh >"$base/share/zsh/site-functions/_mgb"
    "$staged/bin/mgb" completions fish >"$base/share/fish/vendor_completions.d/mgb.fish"

    folder "$base/lib/systemd/system"
    for unit in mgbd.service mgbd.socket mgb-driver.service; do
        sed "s|/usr/local/bin/|${prefix:-/usr/local}/bin/|" "$here/systemd/$unit" >"$base/lib/systemd/system/$unit"
    done
    # Each user's own: whoever wants it enables it for himself.
    folder "$base/lib/systemd/user"
    sed "s|/usr/local/bin/|${prefix:-/usr/local}/bin/|" "$here/systemd/mgb-queue.service" \
        >"$base/lib/systemd/user/mgb-queue.service"
    put 644 "$here/systemd/mgb.sysusers.conf" "$base/lib/sysusers.d/mgb.conf"
    put 644 "$here/systemd/mgb.tmpfiles.conf" "$base/lib/tmpfiles.d/mgb.conf"
    put 644 "$here/systemd/mgbd.toml" "$base/share/doc/mgb/mgbd.toml"
    put 644 "$here/LICENSE" "$base/share/doc/mgb/LICENSE"
    for page in README.md BENCHMARKING.md CHANGELOG.md SECURITY.md; do
        put 644 "$here/$page" "$base/share/doc/mgb/$page"
    done
    for page in "$here"/docs/*.*; do
        put 644 "$page" "$base/share/doc/mgb/docs/${page##*/}"
    done
}

lay_clang() {
    names mgb-clang mgb-clang++ mgb-nvcc
    # What CMake learns of mgb-nvcc to link with.
    link mgb "$own/bin/mgb-nvcc-link"
    put_object 644 "$staged/lib/libmgb_pass.so" "$own/lib/libmgb_pass.so"
    (cd "$staged" && find include share/empty -type f) | while IFS= read -r file; do
        put 644 "$staged/$file" "$own/$file"
    done
    link ../lib/mgb/include/mgb.h "$base/include/mgb.h"
}

lay_slurm() {
    names mgb-task-prolog mgb-epilog mgb-health
    put_object 644 "$staged/lib/mgb_spank.so" "$own/lib/mgb_spank.so"
    for name in task-prolog=prolog epilog=epilog health=health; do
        link "mgb-cluster-${name#*=}.1" "$base/share/man/man1/mgb-${name%=*}.1"
    done
}

lay_examples() {
    for form in plain mgb; do
        [ -x "$staged/examples/$form/vecadd" ] ||
            die "$staged/examples/$form holds no vecadd: run \`make examples\` first, or leave the examples out"
        for program in "$staged/examples/$form"/*; do
            [ -x "$program" ] && [ -f "$program" ] || continue
            put_object 755 "$program" "$own/examples/$form/${program##*/}"
            # Compiled here, they name folders of this machine.
            patchelf --set-rpath '$ORIGIN/../../lib:/usr/local/cuda/lib64' "$own/examples/$form/${program##*/}" ||
                die "failed to set where examples look for libraries: is patchelf installed?"
        done
    done
    for source in "$here"/examples/*; do
        case $source in
        */build*) ;;
        *) [ -d "$source" ] || put 644 "$source" "$own/examples/${source##*/}" ;;
        esac
    done
    for source in "$here"/examples/init_run_split/*; do
        put 644 "$source" "$own/examples/init_run_split/${source##*/}"
    done
}

for part; do
    case $part in
    run | clang | slurm | examples) "lay_$part" ;;
    *) die "there is no part $part: run, clang, slurm, examples" ;;
    esac
done
