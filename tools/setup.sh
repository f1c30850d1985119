#!/bin/sh
# Sets the machine up for building MGB: checks Rust, installs missing Debian packages, finds or fetches CUDA 13.0.
# Quick about what is already there; names the missing thing when it cannot go on.
#
#   setup.sh [PACKAGE...]     packages: Debian packages that are wanted as well
set -eu

more=$*

here=$(cd "$(dirname "$0")/.." && pwd)

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

# Rust comes first: it is the one thing that is not installed here.
check_rust() {
    need=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$here/Cargo.toml")
    way="install a current stable Rust from https://rustup.rs, with ~/.cargo/bin first in PATH (Debian 12 has one as well, in its security updates: apt-get install rustc-web cargo-web)"
    cargo=$(command -v cargo) || die "found no cargo; MGB needs Rust $need or newer: $way"
    command -v rustc >/dev/null || die "found $cargo, but no rustc: $way"
    # Rustup's rustc fails where no tool chain is chosen, and says so itself.
    have=$(rustc --version) || die "$(command -v rustc) does not run (see above); MGB needs Rust $need or newer: $way"
    have=$(echo "$have" | awk '{ print $2 }')
    oldest=$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)
    if [ "$oldest" != "$need" ]; then
        origin=
        [ "$cargo" != /usr/bin/cargo ] || origin=" (Debian's rustc is too old)"
        die "$(command -v rustc) is Rust $have$origin, MGB needs $need or newer: $way"
    fi
    rust=$have
}

# What is needed: a program, and the Debian package that has it.
programs="python3:python3 g++:g++ nm:binutils cmake:cmake clang++-22:clang-22 clang-linker-wrapper-22:clang-tools-22
opt-22:llvm-22 llvm-config-22:llvm-22-dev FileCheck-22:llvm-22-tools lit-22:llvm-22-tools"

# Lists the Debian packages whose programs are missing, or whose installation was interrupted.
missing_packages() {
    for each in $programs; do
        command -v "${each%%:*}" >/dev/null || echo "${each#*:}"
    done
    if command -v dpkg-query >/dev/null; then
        for package in $more; do
            dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
        done
        dpkg-query -W -f '${db:Status-Status} ${Package}\n' $(printf '%s\n' $programs | cut -d : -f 2) 2>/dev/null |
            sed -n 's/^\(unpacked\|half-.*\) //p'
    fi
    # clang's OpenMP has no program to know it by.
    case "$(clang-22 -print-file-name=libomp.so 2>/dev/null)" in
    /*) ;;
    *) echo libomp-22-dev ;;
    esac
    # pip fetches CUDA; where CUDA is, nobody needs it.
    if ! sh "$here/tools/cuda.sh" find >/dev/null 2>&1; then
        python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
    fi
}

# Runs a command of dpkg's or apt's, again as long as another one holds a lock: dpkg waits for none, and apt for dpkg's
# but not for that of its own lists.
when_unlocked() {
    tries=0
    until $as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@" >"$here/.setup.step" 2>&1 </dev/null; do
        cat "$here/.setup.step" >>"$here/.setup.log"
        grep -Eq 'lock was locked|ould not get lock|Unable to acquire the dpkg' "$here/.setup.step" || return 1
        [ $tries != 0 ] || say "another program installs packages: waiting for it, up to 5 minutes"
        tries=$((tries + 1))
        [ $tries -lt 150 ] || return 1
        sleep 2
    done
    cat "$here/.setup.step" >>"$here/.setup.log"
}

install_packages() {
    packages=$(missing_packages | sort -u | tr '\n' ' ')
    packages=${packages% }
    [ -n "$packages" ] || return 0
    line="apt-get install -y --no-install-recommends $packages"
    command -v apt-get >/dev/null || die "missing $packages, and this is no Debian (no apt-get): install what these \
Debian packages hold"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root="sudo"
        command -v sudo >/dev/null || die "missing Debian packages; run as root: $line"
    fi
    say "installing Debian packages: $packages"
    : >"$here/.setup.log"
    # The first finishes an installation that was interrupted.
    when_unlocked dpkg --configure -a &&
        when_unlocked apt-get -qq -o DPkg::Lock::Timeout=300 update &&
        when_unlocked apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $packages || {
        tail -n 15 "$here/.setup.log" >&2
        echo "setup: failed to install $packages (all of it in .setup.log)." >&2
        echo "setup: run as root: $line" >&2
        die "if apt knows no clang-22: it comes from bookworm-security, \
deb http://security.debian.org/debian-security bookworm-security main"
    }
    rm -f "$here/.setup.log" "$here/.setup.step"
    still=$(missing_packages | sort -u | tr '\n' ' ')
    [ -z "$still" ] || die "installed, but their programs are still not in PATH: $still"
}

check_rust
# A wrong CUDA_PATH is said before anything is installed.
[ -z "${CUDA_PATH:-}" ] || sh "$here/tools/cuda.sh" find >/dev/null
install_packages
tree=$(sh "$here/tools/cuda.sh" get) || exit 1
say "Rust $rust, LLVM $(llvm-config-22 --version), CUDA 13.0 in $tree"
