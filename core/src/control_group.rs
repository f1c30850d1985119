//! What the control groups of this process leave it of the host's memory, as a batch system, a container or a
//! service's unit limits it: who takes more is ended by the kernel.

use std::fs;
use std::path::Path;

/// The bytes that this process may still have: the least room under a limit from its control group up to the
/// root, of version 2, or version 1's memory controller. `None` without a limit.
pub fn room() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let memory = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers
            .split(',')
            .any(|name| name == "memory")
            .then_some(path)
    });
    let mut rooms = Vec::new();
    for (root, path, files) in [
        (
            "/sys/fs/cgroup",
            unified,
            ["memory.max", "memory.current", "inactive_file "],
        ),
        (
            "/sys/fs/cgroup/memory",
            memory,
            [
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file ",
            ],
        ),
    ] {
        let Some(path) = path else { continue };
        let own = Path::new(root).join(path.trim_start_matches('/'));
        // In a container the path may be the host's: then only the root is there, which is the container's
        // own.
        rooms.extend(
            own.ancestors()
                .take_while(|folder| folder.starts_with(root))
                .filter_map(|folder| room_in(folder, files)),
        );
    }
    rooms.into_iter().min()
}

fn room_in(folder: &Path, [limit, usage, reclaimable]: [&str; 3]) -> Option<u64> {
    let number = |file: &str| {
        fs::read_to_string(folder.join(file))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let (limit, usage) = (number(limit)?, number(usage)?);
    // Files that are cached give way.
    let cached = fs::read_to_string(folder.join("memory.stat"))
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix(reclaimable))?;
            line.trim().parse::<u64>().ok()
        })
        .unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_groups_count_without_what_is_cached() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["memory.max", "memory.current", "inactive_file "];
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.current", "700\n");
        write("memory.stat", "anon 600\ninactive_file 100\n");
        write("memory.max", "max\n");
        assert_eq!(room_in(folder.path(), files), None);
        write("memory.max", "1000\n");
        assert_eq!(room_in(folder.path(), files), Some(400));
    }
}
