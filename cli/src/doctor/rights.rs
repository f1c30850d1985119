//! What processes may do: the system calls that MGB needs, and namespaces and filters that take them away.

use mgb_command::check_result::Finding;

/// What was seen of this process's rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightsFacts {
    /// Why no pidfd can be opened.
    pub pidfd: Option<String>,
    /// Whether one thread can put a fence into all threads of its process.
    pub membarrier: bool,
    /// Yama's `ptrace_scope`; `None` without Yama.
    pub ptrace_scope: Option<u32>,
    /// In a PID namespace of its own, as in most containers.
    pub in_container: bool,
    /// A seccomp filter is in force.
    pub filtered: bool,
}

/// Checks the facts about rights.
pub fn check(facts: &RightsFacts) -> Vec<Finding> {
    let mut findings = vec![calls(facts)];
    if !facts.membarrier {
        let text = "membarrier is not available: every call that gives a GPU work takes a little longer";
        findings.push(Finding::note("system calls", text).way_out(allow(
            facts,
            "membarrier",
            "update the kernel: Linux has it since 4.14",
        )));
    }
    if facts.in_container {
        let text = "a PID namespace of its own (a container): mgbd serves programs that run in the same one, and \
                    the driver does not tell who else holds memory";
        findings.push(Finding::note("container", text));
    }
    // Up to 1 debuggers work on what they have started themselves.
    if let Some(scope) = facts.ptrace_scope.filter(|&scope| scope > 1) {
        let text = format!(
            "kernel.yama.ptrace_scope is {scope}: cuda-gdb does not work, nor do programs that take descriptors from \
             each other (PyTorch's expandable segments between processes); MGB itself does not need it"
        );
        findings.push(Finding::note("ptrace", text).way_out("sudo sysctl kernel.yama.ptrace_scope=1"));
    }
    findings
}

fn calls(facts: &RightsFacts) -> Finding {
    let name = "system calls";
    match &facts.pidfd {
        Some(why) => Finding::problem(
            name,
            format!("pidfd_open fails ({why}): mgbd cannot watch programs, and serves none"),
        )
        .way_out(allow(
            facts,
            "pidfd_open",
            "update the kernel: Linux has it since 5.3",
        )),
        None if facts.filtered => Finding::ok(name, "pidfd_open, allowed by the seccomp filter in force"),
        None => Finding::ok(name, "pidfd_open"),
    }
}

fn allow(facts: &RightsFacts, call: &str, update: &str) -> String {
    if facts.filtered {
        format!("allow {call} in the container's seccomp profile; else {update}")
    } else {
        update.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts() -> RightsFacts {
        RightsFacts {
            membarrier: true,
            ptrace_scope: Some(1),
            ..RightsFacts::default()
        }
    }

    #[test]
    fn what_is_allowed_is_said_once() {
        let found = check(&facts());
        expect(&found, "system calls", Fine, &["pidfd_open"]);
        assert_eq!(found.len(), 1);
        let filtered = RightsFacts {
            filtered: true,
            ..facts()
        };
        expect(&check(&filtered), "system calls", Fine, &["seccomp"]);
    }

    #[test]
    fn calls_that_are_missing_are_named() {
        let old = RightsFacts {
            pidfd: Some("Function not implemented".to_owned()),
            membarrier: false,
            ..facts()
        };
        let found = check(&old);
        expect(&found, "system calls", Problem, &["not implemented", "5.3"]);
        expect(&found, "system calls", Note, &["membarrier", "4.14"]);
        assert!(!format!("{found:?}").contains("seccomp"));
        let filtered = RightsFacts {
            filtered: true,
            ..old
        };
        expect(
            &check(&filtered),
            "system calls",
            Problem,
            &["allow pidfd_open", "seccomp"],
        );
    }

    #[test]
    fn what_only_some_programs_need_is_a_note() {
        let strict = RightsFacts {
            ptrace_scope: Some(2),
            in_container: true,
            ..facts()
        };
        let found = check(&strict);
        expect(&found, "ptrace", Note, &["ptrace_scope is 2", "sysctl"]);
        expect(&found, "container", Note, &["PID namespace"]);
    }
}
