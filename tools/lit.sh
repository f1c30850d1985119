#!/bin/sh
# Runs the tests of the pass: small .ll and .cu files with their own expectations, by LLVM's lit and FileCheck.
#
#   lit.sh PREFIX [SUITE...]     suites: pass, device (default: both)
#
# MGB_PASS names another plugin than the prefix's, LLVM_PREFIX another LLVM than 22.
set -eu

MGB_PREFIX=$(cd "$1" && pwd)
MGB_PASS=${MGB_PASS:-$MGB_PREFIX/lib/libmgb_pass.so}
cd "$(dirname "$0")/../tests"
export MGB_PREFIX MGB_PASS
shift
[ $# -gt 0 ] || set -- pass device
exec lit-22 -sv --order=lexical "$@"
