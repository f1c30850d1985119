#!/bin/sh
# Runs the tests of the pass: small .ll and .cu files with their own expectations, by LLVM's lit and FileCheck.
#
#   lit.sh PREFIX
set -eu

cd "$(dirname "$0")/../tests"
MGB_PREFIX=$1
MGB_PASS=$1/lib/libmgb_pass.so
export MGB_PREFIX MGB_PASS
set --
for suite in pass device; do
    [ ! -d $suite ] || set -- "$@" $suite
done
exec lit-22 -sv --order=lexical "$@"
