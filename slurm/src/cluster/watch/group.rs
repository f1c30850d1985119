//! The control groups of another process, of either version: joins them, and freezes them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// slurmstepd puts a task into its groups soon after it has made it.
const GROUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Joins what this process is not in yet. Where that fails, or there is nothing to join, it stays where it
/// is: a site may track processes by other means.
pub fn join(pid: u32) {
    let until = Instant::now() + GROUP_TIMEOUT;
    loop {
        let read = |whose: &str| std::fs::read_to_string(format!("/proc/{whose}/cgroup")).unwrap_or_default();
        let (theirs, own) = (read(&pid.to_string()), read("self"));
        let missing = differing(&theirs, &own);
        if !missing.is_empty() {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            for (controllers, group) in missing {
                for folder in folders(&mounts, controllers, group) {
                    let _ = std::fs::write(folder.join("cgroup.procs"), std::process::id().to_string());
                }
            }
            return;
        }
        if theirs.is_empty() || Instant::now() > until {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A control group that is frozen.
pub struct Freezer {
    folder: PathBuf,
    files: &'static Files,
}

/// How a version has it.
struct Files {
    /// What tells whether the group itself, and not one above it, is to be frozen: 1.
    tells: &'static str,
    /// What takes the order,
    takes: &'static str,
    /// and the orders.
    freeze: &'static str,
    thaw: &'static str,
}

const FIRST: Files = Files {
    tells: "freezer.self_freezing",
    takes: "freezer.state",
    freeze: "FROZEN",
    thaw: "THAWED",
};
const SECOND: Files = Files {
    tells: "cgroup.freeze",
    takes: "cgroup.freeze",
    freeze: "1",
    thaw: "0",
};

impl Freezer {
    /// The group of a step that has a process frozen: its own, or one above that. `None`: none has. What an
    /// administrator has frozen as a whole is no step's.
    pub fn holding(pid: u32) -> Option<Freezer> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        for (controllers, group) in groups.lines().filter_map(parts) {
            let files = match controllers {
                "" => &SECOND,
                _ if controllers.split(',').any(|one| one == "freezer") => &FIRST,
                _ => continue,
            };
            for folder in folders(&mounts, controllers, group) {
                let of_step = folder.ancestors().take_while(|folder| is_of_step(folder));
                let mut found = of_step.map(|folder| Freezer {
                    folder: folder.to_owned(),
                    files,
                });
                if let Some(holding) = found.find(Freezer::is_frozen) {
                    return Some(holding);
                }
            }
        }
        None
    }

    /// Whether it is frozen, or about to be.
    pub fn is_frozen(&self) -> bool {
        let told = std::fs::read_to_string(self.folder.join(self.files.tells));
        told.is_ok_and(|told| told.trim() == "1")
    }

    /// Freezes it.
    ///
    /// # Errors
    /// The group has gone, or this is not root.
    pub fn freeze(&self) -> std::io::Result<()> {
        std::fs::write(self.folder.join(self.files.takes), self.files.freeze)
    }

    /// Has what is in it go on.
    ///
    /// # Errors
    /// As above.
    pub fn thaw(&self) -> std::io::Result<()> {
        std::fs::write(self.folder.join(self.files.takes), self.files.thaw)
    }
}

/// Whether a group is that of a step or below it, as Slurm names them.
fn is_of_step(folder: &Path) -> bool {
    let mut names = folder.iter().filter_map(|name| name.to_str());
    names.any(|name| name.starts_with("step_"))
}

/// A line of `/proc/PID/cgroup`: the controllers, none for the second version, and the group.
fn parts(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

/// The lines of `/proc/PID/cgroup` in which two processes differ: the controllers, and the first one's group.
fn differing<'a>(theirs: &'a str, own: &str) -> Vec<(&'a str, &'a str)> {
    let is_other = |line: &&str| !own.lines().any(|other| other == *line);
    theirs.lines().filter(is_other).filter_map(parts).collect()
}

/// Where a group's folder may be: in each mount of its hierarchy.
fn folders(mounts: &str, controllers: &str, group: &str) -> Vec<PathBuf> {
    let folder = |line: &str| {
        let (first, last) = line.split_once(" - ")?;
        let first: Vec<&str> = first.split(' ').collect();
        let mut last = last.split(' ');
        let (kind, options) = (last.next()?, last.nth(1).unwrap_or(""));
        let is_it = match controllers {
            "" => kind == "cgroup2",
            _ => {
                kind == "cgroup"
                    && controllers
                        .split(',')
                        .all(|one| options.split(',').any(|option| option == one))
            }
        };
        let (root, place) = (first.get(3)?, first.get(4)?);
        // A mount may show a part of the hierarchy alone.
        let below = if *root == "/" {
            Some(group)
        } else {
            group.strip_prefix(root)
        };
        is_it.then(|| Path::new(place).join(below.unwrap_or(group).trim_start_matches('/')))
    };
    mounts.lines().filter_map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_steps_are_thawed() {
        let second = Path::new("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0");
        assert_eq!(
            second.ancestors().take_while(|folder| is_of_step(folder)).count(),
            3
        );
        assert!(is_of_step(Path::new(
            "/run/cgroup/freezer/slurm/uid_2000/job_7/step_batch"
        )));
        assert!(!is_of_step(Path::new(
            "/sys/fs/cgroup/system.slice/slurmd.service"
        )));
    }

    #[test]
    fn groups_are_found_in_both_versions() {
        let own = "8:pids:/\n6:freezer:/\n0::/system.slice/slurmd.service\n";
        let first = "8:pids:/\n6:freezer:/slurm/job_7\n0::/system.slice/slurmd.service\n";
        assert_eq!(differing(first, own), [("freezer", "/slurm/job_7")]);
        let second = "8:pids:/\n6:freezer:/\n0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n";
        let group = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0";
        assert_eq!(differing(second, own), [("", group)]);
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n\
                      31 23 0:27 / /run/cgroup/freezer rw - cgroup freezer rw,freezer\n\
                      32 23 0:28 / / rw - ext4 /dev/vda rw\n";
        let found = folders(mounts, "freezer", "/slurm/job_7");
        assert_eq!(found, [Path::new("/run/cgroup/freezer/slurm/job_7")]);
        assert_eq!(
            folders(mounts, "", group),
            [Path::new("/sys/fs/cgroup").join(&group[1..])]
        );
    }
}
