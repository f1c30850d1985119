//! The host's memory and limits: what MGB shares between processes, and how much of it this user may have.

use mgb_command::check_result::Finding;
use mgb_probe::byte_size::Bytes;

/// Bytes of a node view, twice: an mgbd may start before the last one's is gone.
const MIN_SHM_BYTES: u64 = 2 << 20;
/// Descriptors of a client at mgbd, about: socket, pidfd, doorbell, channel, and files of the driver.
const EACH: u64 = 8;
/// Descriptors below which a node with many cores runs out.
const MIN_FILES: u64 = 2048;
/// Bytes of pinned memory below which the smallest programs fail.
const LITTLE: u64 = 1 << 20;

/// What was seen of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// `/dev/shm`: whether this user can write there, and the bytes that fit; `None`: it is not there.
    pub shm: Option<(bool, u64)>,
    /// Why a sealed memfd cannot be made.
    pub memfd: Option<String>,
    /// Bytes of addresses (`ulimit -v`); `None`: no limit.
    pub addresses: Option<u64>,
    /// Bytes of locked memory (`ulimit -l`).
    pub locked: Option<u64>,
    /// Open files (`ulimit -Hn`): mgbd raises its limit to this.
    pub files: Option<u64>,
}

/// Checks the facts about the host.
pub fn check(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = vec![shared(facts)];
    findings.extend(limits(facts));
    findings
}

fn shared(facts: &HostFacts) -> Finding {
    let name = "shared memory";
    if let Some(why) = &facts.memfd {
        return Finding::problem(
            name,
            format!("memfd_create fails ({why}): no program reaches mgbd"),
        )
        .way_out("allow it in the container's seccomp profile; Linux has it since 3.17");
    }
    match facts.shm {
        None => Finding::problem(
            name,
            "/dev/shm is not there: mgbd cannot show its view of the node",
        )
        .way_out("mount a tmpfs at /dev/shm"),
        Some((false, _)) => Finding::problem(name, "this user cannot write in /dev/shm")
            .way_out("chmod 1777 /dev/shm, as root"),
        Some((true, bytes)) if bytes < MIN_SHM_BYTES => Finding::problem(
            name,
            format!(
                "/dev/shm is full: {} are left, {} are needed",
                Bytes(bytes),
                Bytes(MIN_SHM_BYTES)
            ),
        )
        .way_out("remove files there that nobody uses; in a container give it more (--shm-size)"),
        Some((true, bytes)) => Finding::ok(name, format!("memfd, and /dev/shm with {} free", Bytes(bytes))),
    }
}

fn limits(facts: &HostFacts) -> Vec<Finding> {
    let name = "limits";
    let mut findings = Vec::new();
    if let Some(bytes) = facts.addresses {
        let text = format!(
            "addresses are limited to {}: MGB reserves terabytes of addresses (not of memory) for device memory",
            Bytes(bytes)
        );
        findings.push(Finding::problem(name, text).way_out("ulimit -v unlimited"));
    }
    if let Some(bytes) = facts.locked.filter(|&bytes| bytes < LITTLE) {
        let text = format!(
            "locked memory is limited to {}: host memory may not be pinned, and copies of it are slower",
            Bytes(bytes)
        );
        findings.push(Finding::note(name, text).way_out("ulimit -l unlimited"));
    }
    if let Some(files) = facts.files.filter(|&files| files < MIN_FILES) {
        let text = format!(
            "open files are limited to {files}: mgbd serves about {} programs at once",
            files / EACH
        );
        findings
            .push(Finding::note(name, text).way_out("raise the hard limit (ulimit -Hn) before mgbd starts"));
    }
    if findings.is_empty() {
        let files = facts
            .files
            .map_or_else(|| "unlimited".to_owned(), |files| files.to_string());
        findings.push(Finding::ok(
            name,
            format!("addresses unlimited, open files {files}"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts() -> HostFacts {
        HostFacts {
            shm: Some((true, 1 << 30)),
            locked: Some(8 << 20),
            files: Some(1 << 20),
            ..HostFacts::default()
        }
    }

    #[test]
    fn a_host_without_limits_is_fine() {
        let found = check(&facts());
        expect(&found, "shared memory", Fine, &["1.0 GiB"]);
        expect(&found, "limits", Fine, &["unlimited", "1048576"]);
        let none = HostFacts {
            locked: None,
            files: None,
            ..facts()
        };
        expect(&check(&none), "limits", Fine, &[]);
    }

    #[test]
    fn memory_that_cannot_be_shared_is_a_problem() {
        for (shm, words) in [
            (None, ["is not there", "tmpfs"]),
            (Some((false, 1 << 30)), ["cannot write", "1777"]),
            (Some((true, 4096)), ["is full", "--shm-size"]),
        ] {
            expect(
                &check(&HostFacts { shm, ..facts() }),
                "shared memory",
                Problem,
                &words,
            );
        }
        let memfd = Some("Function not implemented".to_owned());
        let found = check(&HostFacts { memfd, ..facts() });
        expect(&found, "shared memory", Problem, &["not implemented", "seccomp"]);
    }

    #[test]
    fn limits_are_named_with_the_command_that_lifts_them() {
        let limited = HostFacts {
            addresses: Some(4 << 30),
            locked: Some(64 << 10),
            files: Some(1024),
            ..facts()
        };
        let found = check(&limited);
        expect(&found, "limits", Problem, &["4.0 GiB", "ulimit -v unlimited"]);
        expect(&found, "limits", Note, &["64.0 KiB", "ulimit -l"]);
        assert!(
            found
                .iter()
                .any(|finding| finding.text.contains("about 128 programs"))
        );
    }
}
