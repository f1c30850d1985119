#!/bin/sh
# Checks licences, bans, sources and known vulnerabilities of the dependencies, as far as that can be done here: where
# there is no cargo-deny nothing, where its list of advisories cannot be fetched all but those.
set -eu

cd "$(dirname "$0")/.."
if ! command -v cargo-deny >/dev/null; then
    echo "deny: left out, since there is no cargo-deny (cargo install --locked cargo-deny)"
    exit 0
fi
if timeout 20 git ls-remote --quiet https://github.com/RustSec/advisory-db HEAD >/dev/null 2>&1; then
    exec cargo deny check
fi
echo "deny: the advisories are left out, since https://github.com/RustSec/advisory-db cannot be reached"
exec cargo deny check bans licenses sources
