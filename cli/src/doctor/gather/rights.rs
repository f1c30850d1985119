//! What this process may do.

use std::fs;
use std::path::Path;

use mgb_core::gate;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::super::rights::RightsFacts;

/// The PID namespace that the kernel starts with.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Gathers the facts about rights.
pub fn look() -> RightsFacts {
    let namespace = fs::read_link("/proc/self/ns/pid").ok();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    RightsFacts {
        pidfd: pidfd_open(getpid(), PidfdFlags::empty())
            .err()
            .map(|error| error.to_string()),
        membarrier: gate::has_membarrier(),
        ptrace_scope: scope.and_then(|scope| scope.trim().parse().ok()),
        in_container: namespace.is_some_and(|own| own != Path::new(FIRST_NAMESPACE)),
        filtered: is_filtered(&status),
    }
}

/// Whether a process's status says that a seccomp filter is in force.
fn is_filtered(status: &str) -> bool {
    const FILTER: &str = "2";
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == FILTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_seen() {
        assert!(is_filtered("Name:\tmgb\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
        assert!(!is_filtered(""));
    }
}
