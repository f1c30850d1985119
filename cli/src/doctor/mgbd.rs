//! mgbd: whether it runs and answers, and whether it shares the GPUs that programs see.

use std::path::PathBuf;

use mgb_command::check_result::Finding;
use mgb_command::table::plural;

const NAME: &str = "mgbd";
const GPUS: &str = "mgbd's GPUs";

/// What was seen of mgbd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MgbdFacts {
    /// Where it listens, or would.
    pub socket: PathBuf,
    /// What it said.
    pub answer: MgbdAnswer,
    /// The process that holds the lock beside the socket, as it says.
    pub lock_pid: Option<u32>,
    /// `CUDA_VISIBLE_DEVICES` leaves programs these of the node's GPUs, by UUID.
    pub visible: Vec<String>,
}

/// What mgbd says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MgbdAnswer {
    /// An `mgbd` runs, and answers.
    Runs(RunningMgbd),
    /// No `mgbd` listens at the socket.
    None,
    /// The socket is another user's.
    Denied,
    /// Another user may have made what is there.
    Untrusted(String),
    /// It speaks another version of the protocol.
    Version {
        /// The version of that `mgbd`.
        theirs: u32,
        /// That of this mgb.
        ours: u32,
    },
    /// It turns this process away.
    Refused(String),
    /// It does not answer, or not as mgbd does.
    Strange(String),
    /// A system call failed on the way there.
    Failed(String),
}

/// An mgbd that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningMgbd {
    /// The process of `mgbd`.
    pub pid: u32,
    /// The policy in force.
    pub policy: String,
    /// The order of its queue.
    pub queue: String,
    /// Programs that are connected.
    pub clients: u32,
    /// The UUIDs of the GPUs that it shares.
    pub gpus: Vec<String>,
    /// Why its view of the node cannot be read.
    pub view_fault: Option<String>,
}

/// Checks the facts about `mgbd`.
pub fn check(facts: &MgbdFacts) -> Vec<Finding> {
    let socket = facts.socket.display();
    let stop = match facts.lock_pid {
        Some(pid) => format!("stop it (kill {pid}), and use one version of mgb and mgbd"),
        None => "stop it, and use one version of mgb and mgbd".to_owned(),
    };
    let finding = match &facts.answer {
        MgbdAnswer::Runs(running) => return runs(facts, running),
        MgbdAnswer::None => Finding::ok(
            NAME,
            format!("none runs at {socket}; `mgb run` and `mgb batch` start it"),
        ),
        MgbdAnswer::Denied => Finding::problem(
            NAME,
            format!("no permission on the socket {socket}: it is another user's"),
        )
        .way_out("set MGB_SOCKET to a path in a folder of yours"),
        MgbdAnswer::Untrusted(why) => Finding::problem(NAME, format!("{why}: no mgbd is used there"))
            .way_out("set MGB_SOCKET to a path in a folder of yours"),
        MgbdAnswer::Version { theirs, ours } => Finding::problem(
            NAME,
            format!("the mgbd at {socket} speaks version {theirs} of the protocol, this mgb {ours}"),
        )
        .way_out(stop),
        MgbdAnswer::Refused(why) if why.contains("PID namespace") => Finding::problem(
            NAME,
            format!("the mgbd at {socket} runs in another PID namespace, and does not see this process"),
        )
        .way_out("run mgbd and its programs in one container, or start both with --pid=host"),
        MgbdAnswer::Refused(why) => Finding::problem(
            NAME,
            format!("the mgbd at {socket} turns this process away: {why}"),
        )
        .way_out("start an mgbd of your own: set MGB_SOCKET to a path in a folder of yours"),
        MgbdAnswer::Failed(why) => Finding::problem(NAME, format!("no way to {socket}: {why}"))
            .way_out("set MGB_SOCKET to a path in a folder of yours"),
        MgbdAnswer::Strange(why) => Finding::problem(
            NAME,
            format!("what listens at {socket} does not answer as mgbd does: {why}"),
        )
        .way_out(match facts.lock_pid {
            Some(pid) => format!("see its log {socket}.log, and whether process {pid} is stopped or hangs"),
            None => "remove the socket, or set MGB_SOCKET to another path".to_owned(),
        }),
    };
    vec![finding]
}

fn runs(facts: &MgbdFacts, running: &RunningMgbd) -> Vec<Finding> {
    let text = format!(
        "pid {} at {}, policy {}, queue {}, {}",
        running.pid,
        facts.socket.display(),
        running.policy,
        running.queue,
        plural(running.clients as usize, "client"),
    );
    let mut findings = vec![Finding::ok(NAME, text)];
    if let Some(why) = &running.view_fault {
        findings.push(
            Finding::problem("mgbd's view", why.clone())
                .way_out("`mgb status` and `mgb batch` need it: restart mgbd (`mgb stop`)"),
        );
    }
    let unshared = facts
        .visible
        .iter()
        .filter(|uuid| !running.gpus.contains(uuid))
        .count();
    let restart = "restart mgbd with the settings that you use now (`mgb stop`; programs that run go on)";
    if unshared == facts.visible.len() && unshared > 0 {
        let text =
            "it shares none of the GPUs that programs started now would see: it was started with others";
        findings.push(Finding::problem(GPUS, text).way_out(restart));
    } else if unshared > 0 {
        let text = format!(
            "it shares {} of the {} GPUs that programs started now see",
            facts.visible.len() - unshared,
            facts.visible.len()
        );
        findings.push(Finding::note(GPUS, text).way_out(restart));
    }
    findings
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts(answer: MgbdAnswer) -> MgbdFacts {
        MgbdFacts {
            socket: "/s/mgbd.sock".into(),
            answer,
            lock_pid: Some(42),
            visible: vec!["GPU-a".to_owned(), "GPU-b".to_owned()],
        }
    }

    fn running(gpus: &[&str]) -> MgbdAnswer {
        MgbdAnswer::Runs(RunningMgbd {
            pid: 42,
            policy: "mgb".to_owned(),
            queue: "largest".to_owned(),
            clients: 1,
            gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
            view_fault: None,
        })
    }

    #[test]
    fn whether_it_runs_is_said() {
        let found = check(&facts(running(&["GPU-a", "GPU-b"])));
        expect(
            &found,
            "mgbd",
            Fine,
            &["pid 42 at /s/mgbd.sock, policy mgb, queue largest, 1 client"],
        );
        assert_eq!(found.len(), 1);
        expect(
            &check(&facts(MgbdAnswer::None)),
            "mgbd",
            Fine,
            &["none runs at /s/mgbd.sock", "mgb run"],
        );
    }

    #[test]
    fn why_it_does_not_answer_is_said() {
        let away = |why: &str| MgbdAnswer::Refused(why.to_owned());
        for (answer, words) in [
            (MgbdAnswer::Denied, ["another user's", "MGB_SOCKET"]),
            (
                MgbdAnswer::Version { theirs: 7, ours: 8 },
                ["version 7", "kill 42"],
            ),
            (
                away("it runs in another PID namespace"),
                ["PID namespace", "--pid=host"],
            ),
            (away("it runs as uid 7"), ["as uid 7", "MGB_SOCKET"]),
            (
                MgbdAnswer::Failed("name too long".to_owned()),
                ["name too long", "MGB_SOCKET"],
            ),
            (
                MgbdAnswer::Strange("it hung up".to_owned()),
                ["it hung up", "process 42"],
            ),
        ] {
            expect(&check(&facts(answer)), "mgbd", Problem, &words);
        }
        let nobody = |answer| MgbdFacts {
            lock_pid: None,
            ..facts(answer)
        };
        let version = nobody(MgbdAnswer::Version { theirs: 7, ours: 8 });
        expect(&check(&version), "mgbd", Problem, &["stop it"]);
        let strange = nobody(MgbdAnswer::Strange("no".to_owned()));
        expect(&check(&strange), "mgbd", Problem, &["remove the socket"]);
    }

    #[test]
    fn the_gpus_have_to_be_those_that_programs_see() {
        expect(
            &check(&facts(running(&["GPU-a"]))),
            "mgbd's GPUs",
            Note,
            &["1 of the 2", "mgb stop"],
        );
        expect(
            &check(&facts(running(&["GPU-z"]))),
            "mgbd's GPUs",
            Problem,
            &["none of the GPUs"],
        );
        let mut blind = facts(running(&["GPU-a", "GPU-b"]));
        blind.visible.clear();
        assert_eq!(check(&blind).len(), 1, "unknown is not wrong");
    }

    #[test]
    fn a_view_that_cannot_be_read_is_a_problem() {
        let MgbdAnswer::Runs(mut running) = running(&["GPU-a", "GPU-b"]) else {
            unreachable!()
        };
        running.view_fault = Some("no such view".to_owned());
        expect(
            &check(&facts(MgbdAnswer::Runs(running))),
            "mgbd's view",
            Problem,
            &["no such view"],
        );
    }
}
