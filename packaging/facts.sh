# What packages say of the sources; `here` is their folder. Read by the other scripts, never run.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml")
# When the sources were committed, for the dates of files; today for those without a repository.
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH="$epoch"
