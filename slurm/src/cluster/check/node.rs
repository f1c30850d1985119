//! This machine as a node of the cluster.

use mgb_command::check_result::Finding;
use mgb_command::table::plural;

use crate::tools::MEMORY;
use crate::tools::counts::NodeCounts;

/// What was found of it.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Slurm's name of it.
    pub name: String,
    /// What Slurm counts here.
    pub counts: NodeCounts,
    /// GPUs that Slurm gives out by itself (gres/gpu).
    pub gpus: u64,
    /// `ConstrainDevices=yes`.
    pub constrains: bool,
    /// Jobs whose records wait to be brought into the accounting, as far as this user may see.
    pub undelivered: usize,
    /// What the node's mgbd says; or why it does not answer.
    pub mgbd: Result<Mgbd, String>,
}

/// What mgbd says.
#[derive(Clone, Debug, Default)]
pub struct Mgbd {
    /// What there is to count of its GPUs.
    pub counts: NodeCounts,
    /// Who may connect to its socket: the file's mode.
    pub mode: u32,
    /// Why it has no MPS, where it has none.
    pub mps_note: Option<String>,
}

/// Checks the facts about the node.
pub fn check(facts: &NodeFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &facts.mgbd {
        Err(why) => findings.push(
            Finding::problem("mgbd", format!("{why}; jobs run without MGB here"))
                .way_out("`systemctl enable --now mgbd`: docs/SERVICE.md"),
        ),
        Ok(mgbd) => {
            findings.push(if mgbd.mode & 0o066 == 0 {
                let text = "it serves its own user alone, and jobs of others run without MGB";
                Finding::problem("mgbd", text)
                    .way_out("serve = \"all\" (or \"group:NAME\") in /etc/mgb/mgbd.toml, and restart it")
            } else if mgbd.mode & 0o006 == 0 {
                Finding::note(
                    "mgbd",
                    "it serves a group, and jobs of users outside it run without MGB",
                )
            } else {
                Finding::ok("mgbd", "it answers, and serves all users")
            });
            findings.push(counts(&facts.name, facts.counts, mgbd.counts));
            if let Some(why) = &mgbd.mps_note {
                findings.push(Finding::note(
                    "MPS",
                    format!("none: {why}; jobs of a GPU take turns"),
                ));
            }
        }
    }
    if facts.undelivered > 0 {
        let text = format!(
            "what {} took is not in the accounting yet",
            plural(facts.undelivered, "job")
        );
        findings
            .push(Finding::note("records", text).way_out("it comes once slurmdbd answers: see `sacct` here"));
    }
    if facts.gpus > 0 && facts.constrains {
        let text = format!(
            "gres/gpu:{} is on this node too, with ConstrainDevices=yes: jobs that do not ask for gpu see no GPU",
            facts.gpus
        );
        let way_out = "take gpu off this node's Gres, or set ConstrainDevices=no in cgroup.conf";
        findings.push(Finding::problem("gres/gpu", text).way_out(way_out));
    } else if facts.gpus > 0 {
        let text = format!(
            "gres/gpu:{} is on this node too: those jobs have GPUs that mgbd shares among others",
            facts.gpus
        );
        findings.push(Finding::note("gres/gpu", text).way_out("take gpu off this node's Gres"));
    }
    findings
}

fn counts(name: &str, slurm: NodeCounts, mgbd: NodeCounts) -> Finding {
    const NAME: &str = "Gres";
    let text = |counts: NodeCounts| counts.to_string();
    if slurm == mgbd {
        return Finding::ok(NAME, text(slurm));
    }
    let way_out = format!(
        "NodeName={name} Gres={} in slurm.conf, and restart slurmctld and slurmd",
        text(mgbd)
    );
    match slurm.memory {
        0 => Finding::problem(
            NAME,
            format!("{name} has no {MEMORY}: no job that asks for it comes here"),
        ),
        memory if memory > mgbd.memory => {
            let words = format!(
                "{} counts more memory than jobs should ask for together, {}: they wait here while other nodes are \
                 free",
                text(slurm),
                text(mgbd)
            );
            Finding::problem(NAME, words)
        }
        // An administrator may keep some back.
        _ => Finding::note(
            NAME,
            format!("{} is not what mgbd's GPUs come to, {}", text(slurm), text(mgbd)),
        ),
    }
    .way_out(way_out)
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    const COUNTS: NodeCounts = NodeCounts {
        memory: 128,
        share: 200,
        whole: 64,
    };

    fn facts() -> NodeFacts {
        NodeFacts {
            name: "n1".to_owned(),
            counts: COUNTS,
            gpus: 0,
            constrains: true,
            undelivered: 0,
            mgbd: Ok(Mgbd {
                counts: COUNTS,
                mode: 0o666,
                mps_note: None,
            }),
        }
    }

    #[test]
    fn a_right_node_has_no_problems() {
        assert!(check(&facts()).iter().all(|finding| finding.state == Fine));
    }

    #[test]
    fn what_is_wrong_with_a_node_is_said() {
        let with = |change: &dyn Fn(&mut NodeFacts)| {
            let mut facts = facts();
            change(&mut facts);
            check(&facts)
        };
        expect(
            &with(&|facts| facts.mgbd = Err("none".to_owned())),
            "mgbd",
            Problem,
            &["none", "systemctl"],
        );
        let mode = |mode: u32| move |facts: &mut NodeFacts| facts.mgbd.as_mut().unwrap().mode = mode;
        expect(
            &with(&mode(0o600)),
            "mgbd",
            Problem,
            &["own user", "serve = \"all\""],
        );
        expect(&with(&mode(0o660)), "mgbd", Note, &["group"]);
        expect(
            &with(&|facts| facts.counts = NodeCounts::default()),
            "Gres",
            Problem,
            &["NodeName=n1 Gres=mgb_mem:128,mgb_share:200,mgb_gpu:no_consume:64"],
        );
        expect(
            &with(&|facts| facts.counts.memory = 256),
            "Gres",
            Problem,
            &["more memory"],
        );
        expect(
            &with(&|facts| facts.counts.memory = 100),
            "Gres",
            Note,
            &["mgb_mem:100"],
        );
        expect(
            &with(&|facts| facts.gpus = 2),
            "gres/gpu",
            Problem,
            &["ConstrainDevices"],
        );
        expect(
            &with(&|facts| facts.undelivered = 2),
            "records",
            Note,
            &["2 jobs", "slurmdbd"],
        );
        let both = with(&|facts| (facts.gpus, facts.constrains) = (2, false));
        expect(&both, "gres/gpu", Note, &["among others"]);
    }
}
