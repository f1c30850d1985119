//! MPS, under which kernels of different processes overlap: whether mgbd can start its own, and who else has
//! one.

use std::path::PathBuf;

use mgb_command::check_result::Finding;
use mgb_interface::mps::{Control, MOST_PATH, MPS_CONTROL};

const NAME: &str = "MPS";
const OTHER: &str = "other MPS";

/// What was seen of MPS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpsFacts {
    /// Software GPUs need none.
    pub software: bool,
    /// That of the mgbd that runs: its pipe folder, or why it has none.
    pub running: Option<Result<String, String>>,
    /// NVIDIA's control program in `PATH`.
    pub control: Option<PathBuf>,
    /// The pipe folder of an mgbd at this socket.
    pub pipe: PathBuf,
    /// What `CUDA_MPS_PIPE_DIRECTORY` names.
    pub variable: Option<PathBuf>,
    /// Control daemons at other pipe folders.
    pub others: Vec<(PathBuf, Control)>,
    /// The user who asks.
    pub uid: u32,
}

/// Checks the facts about MPS.
pub fn check(facts: &MpsFacts) -> Vec<Finding> {
    if facts.software {
        return vec![Finding::ok(NAME, "software GPUs need none")];
    }
    let mut findings = vec![own(facts)];
    findings.extend(
        facts
            .others
            .iter()
            .map(|(pipe, control)| other(facts.uid, pipe, control)),
    );
    if let Some(pipe) = &facts.variable
        && *pipe != facts.pipe
        && !facts.others.iter().any(|(other, _)| other == pipe)
    {
        let text = format!(
            "CUDA_MPS_PIPE_DIRECTORY={} names no control daemon that runs; programs under mgbd use mgbd's",
            pipe.display()
        );
        findings.push(Finding::note(OTHER, text).way_out("unset CUDA_MPS_PIPE_DIRECTORY"));
    }
    findings
}

fn own(facts: &MpsFacts) -> Finding {
    let without = "kernels of different programs take turns on a GPU instead of overlapping";
    match &facts.running {
        Some(Ok(pipe)) => return Finding::ok(NAME, format!("mgbd's own, at {pipe}")),
        Some(Err(why)) => {
            return Finding::note(NAME, format!("mgbd has none ({why}): {without}"))
                .way_out("mend that, and restart mgbd (`mgb stop`)");
        }
        None => {}
    }
    if facts.pipe.as_os_str().len() >= MOST_PATH {
        let text = format!(
            "{} is too long a path for MPS ({MOST_PATH} bytes): {without}",
            facts.pipe.display()
        );
        return Finding::problem(NAME, text).way_out("set MGB_SOCKET to a shorter path");
    }
    match &facts.control {
        Some(program) => Finding::ok(NAME, format!("mgbd starts its own with {}", program.display())),
        None => Finding::note(NAME, format!("{MPS_CONTROL} is not in PATH: {without}"))
            .way_out("install the driver's MPS, or put its folder into PATH"),
    }
}

fn other(own: u32, pipe: &std::path::Path, control: &Control) -> Finding {
    let whose = if control.uid == own {
        String::new()
    } else {
        format!(" of uid {}", control.uid)
    };
    let text = format!(
        "a control daemon{whose} (pid {}) runs at {}: what it serves takes turns with the programs under mgbd \
         on a GPU, and its server holds memory there",
        control.pid,
        pipe.display()
    );
    Finding::note(OTHER, text).way_out(format!(
        "if nobody needs it: echo quit | CUDA_MPS_PIPE_DIRECTORY={} {MPS_CONTROL}",
        pipe.display()
    ))
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts() -> MpsFacts {
        MpsFacts {
            control: Some("/usr/bin/nvidia-cuda-mps-control".into()),
            pipe: "/run/user/1000/mgb/mps".into(),
            uid: 1000,
            ..MpsFacts::default()
        }
    }

    #[test]
    fn its_own_is_named() {
        let software = MpsFacts {
            software: true,
            ..MpsFacts::default()
        };
        expect(&check(&software), "MPS", Fine, &["software"]);
        expect(
            &check(&facts()),
            "MPS",
            Fine,
            &["/usr/bin/nvidia-cuda-mps-control"],
        );
        let running = MpsFacts {
            running: Some(Ok("/p".to_owned())),
            control: None,
            ..facts()
        };
        expect(&check(&running), "MPS", Fine, &["mgbd's own, at /p"]);
    }

    #[test]
    fn without_it_programs_take_turns() {
        let refused = MpsFacts {
            running: Some(Err("--no-mps".to_owned())),
            ..facts()
        };
        expect(
            &check(&refused),
            "MPS",
            Note,
            &["--no-mps", "take turns", "mgb stop"],
        );
        let missing = MpsFacts {
            control: None,
            ..facts()
        };
        expect(&check(&missing), "MPS", Note, &["not in PATH", "install"]);
        let long = MpsFacts {
            pipe: format!("/{}/mps", "a".repeat(MOST_PATH)).into(),
            ..facts()
        };
        expect(&check(&long), "MPS", Problem, &["too long", "MGB_SOCKET"]);
    }

    #[test]
    fn others_are_named() {
        let pipe = PathBuf::from("/tmp/nvidia-mps");
        let other = |uid| MpsFacts {
            others: vec![(pipe.clone(), Control { pid: 77, uid })],
            variable: Some(pipe.clone()),
            ..facts()
        };
        let found = check(&other(0));
        expect(
            &found,
            "other MPS",
            Note,
            &["of uid 0 (pid 77)", "/tmp/nvidia-mps", "echo quit"],
        );
        assert_eq!(found.len(), 2, "the variable names what is named already");
        assert!(!check(&other(1000))[1].text.contains("uid"));
        let nobody = MpsFacts {
            variable: Some(pipe.clone()),
            ..facts()
        };
        expect(
            &check(&nobody),
            "other MPS",
            Note,
            &["names no control daemon", "unset"],
        );
        let own = MpsFacts {
            variable: Some(facts().pipe),
            ..facts()
        };
        assert_eq!(check(&own).len(), 1);
    }
}
