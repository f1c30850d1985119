#!/bin/sh
# Checks licences, bans, sources and known vulnerabilities of the dependencies; where the list of advisories cannot be
# fetched, all but those, and it says so.
#
#   deny.sh [--if-there]     where there is no cargo-deny, say so, and pass
set -eu

cd "$(dirname "$0")/.."
if ! cargo deny --version >/dev/null 2>&1; then
    way="there is no cargo-deny (cargo install --locked cargo-deny)"
    [ "${1:-}" = --if-there ] || { echo "deny: $way" >&2; exit 1; }
    echo "deny: left out, since $way"
    exit 0
fi
if timeout 20 git ls-remote --quiet https://github.com/RustSec/advisory-db HEAD >/dev/null 2>&1; then
    exec cargo deny check
fi
echo "deny: the advisories are left out, since https://github.com/RustSec/advisory-db cannot be reached"
exec cargo deny check bans licenses sources
