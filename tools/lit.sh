#!/bin/sh
# Runs the tests of the pass: small .ll and .cu files with their own expectations, by LLVM's lit and FileCheck.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here/tests"
exec lit-22 --succinct --order=lexical pass device
