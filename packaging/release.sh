#!/bin/sh
# Makes a release ready, and publishes nothing: RELEASING.md says what comes before and after.
#
#   release.sh STAGED DESTINATION
#
# TESTED=COMMIT says that `make test`, `make package-test` and `make wheel-test` have passed on that commit, so that they are
# not run again.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
staged=$1
destination=$2
cd "$here"
. packaging/facts.sh

die() { echo "release: $*" >&2; exit 1; }

# What is wrong with the tree is said before an hour of tests.
changed=$(git status --porcelain) || die "a release is made of a repository's commit, and this is none"
[ -z "$changed" ] || die "the tree differs from its commit: commit or remove
$changed"
commit=$(git rev-parse HEAD)
tag=v$version
! git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null ||
    die "$tag is there already: raise \`version\` in Cargo.toml, or remove the tag"
heading=$(sed -n "s/^## \\[$version\\] - \\([0-9-]*\\)\$/\\1/p" CHANGELOG.md)
[ -n "$heading" ] ||
    die "CHANGELOG.md has no section \`## [$version] - YYYY-MM-DD\`: rename [Unreleased], with the day of the release"
cargo deny --version >/dev/null 2>&1 ||
    die "there is no cargo-deny, which looks for known vulnerabilities: cargo install --locked cargo-deny"

if [ "${TESTED:-}" = "$commit" ]; then
    echo "release: $commit has been tested"
else
    make commits test package-test wheel-test
fi
cargo deny check

# All parts name the same commit.
MGB_COMMIT=$commit
export MGB_COMMIT
rm -f "$destination"/mgb-"$version"* "$destination"/mgb*_"$version"-*.deb
make tarball debs wheel

name=mgb-$version
packaging/sbom.py "$destination/$name.cdx.json"
# The section of the changelog, without its heading.
awk -v heading="## [$version] - " 'index($0, heading) == 1 { is_in = 1; next } /^## \[/ { is_in = 0 } is_in' \
    CHANGELOG.md >"$destination/$name-notes.md"
[ -n "$(tr -d '[:space:]' <"$destination/$name-notes.md")" ] || die "the section of $version in CHANGELOG.md is empty"
(
    cd "$destination"
    sha256sum "$name"-*.tar.gz "$name"-*.whl mgb*_"$version"-*.deb "$name.cdx.json" >"$name.sha256"
)
echo "release: $tag is ready in $destination:"
sed 's/^[0-9a-f]*  /  /' "$destination/$name.sha256"
echo "release: now try and publish it as RELEASING.md says, beginning with
  git tag -s $tag -F $destination/$name-notes.md $commit"
