#!/bin/sh
# Checks what CONTRIBUTING.md says of commits, from the one on since which it is kept: a subject of at most 72
# characters without a full stop, and a body that says why. Merges have their subjects only.
set -eu
cd "$(dirname "$0")/.."
since=8d1663f4

if ! git merge-base --is-ancestor "$since" HEAD 2>/dev/null; then
    echo "commits: the history since $since is not here (a source archive or a shallow clone); not checked" >&2
    exit 0
fi
git log --format='%h%x09%P%x09%s%x1f%b%x1e' "$since..HEAD" | awk '
    BEGIN { RS = "\036"; FS = "\037" }
    {
        sub(/^\n/, "")
        split($1, head, "\t")
        if (head[1] == "") next
        count++
        body = $2
        gsub(/[ \t\n]/, "", body)
        merge = head[2] ~ / /
        if (length(head[3]) > 72) say("has a subject of " length(head[3]) " characters, 72 is the most")
        if (head[3] ~ / of \//) say("names a folder of a machine; say what is merged")
        if (head[3] ~ /\.$/) say("has a full stop after its subject")
        if (!merge && body == "") say("has no body that says why")
    }
    function say(what) { printf "commits: %s %s\n    %s\n", head[1], what, head[3] > "/dev/stderr"; bad = 1 }
    END { if (!bad) print "commits: " count " as CONTRIBUTING.md asks"; exit bad }
'
