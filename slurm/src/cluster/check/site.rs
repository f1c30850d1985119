//! The cluster's configuration, as slurmctld has it.

use std::collections::BTreeMap;

use mgb_command::check_result::Finding;

use crate::tools::{MEMORY, SHARE, WHOLE};

/// What slurmctld says.
#[derive(Clone, Debug)]
pub struct SiteFacts {
    /// Its settings by name, or why it does not answer.
    pub config: Result<BTreeMap<String, String>, String>,
    /// The plugin is in plugstack.conf of this machine.
    pub has_plugin: bool,
}

/// Checks the facts about the cluster.
pub fn check(facts: &SiteFacts) -> Vec<Finding> {
    let config = match &facts.config {
        Ok(config) => config,
        Err(why) => {
            let text = format!("slurmctld does not answer: {why}");
            return vec![
                Finding::problem("slurmctld", text).way_out("see `scontrol ping` and slurmctld's log"),
            ];
        }
    };
    let of = |name: &str| {
        config
            .get(name)
            .map(String::as_str)
            .filter(|value| *value != "(null)")
            .unwrap_or("")
    };
    let has = |name: &str, wanted: &str| of(name).split(',').any(|entry| entry.trim() == wanted);
    let mut findings = Vec::new();
    let missing: Vec<&str> = [MEMORY, SHARE, WHOLE]
        .into_iter()
        .filter(|gres| !has("GresTypes", gres))
        .collect();
    findings.push(if missing.is_empty() {
        Finding::ok("GresTypes", of("GresTypes"))
    } else {
        Finding::problem(
            "GresTypes",
            format!("without {}: jobs cannot ask for it", missing.join(" and ")),
        )
        .way_out(
            "add it in slurm.conf (`mgb cluster setup` prints the line), and restart slurmctld and slurmd",
        )
    });
    findings.push(match of("SelectType") {
        select @ ("select/cons_tres" | "select/cons_res") => Finding::ok("SelectType", select),
        select => Finding::problem("SelectType", format!("{select} gives whole nodes to jobs"))
            .way_out("SelectType=select/cons_tres"),
    });
    findings.push(accounting(
        of("AccountingStorageType"),
        has("AccountingStorageTRES", "gres/mgb_mem"),
    ));
    let program = of("HealthCheckProgram");
    findings.push(if program.is_empty() {
        Finding::problem(
            "HealthCheckProgram",
            "none: a node without mgbd goes on to take jobs",
        )
        .way_out("HealthCheckProgram=/usr/local/bin/mgb-health, HealthCheckInterval=60")
    } else if of("HealthCheckInterval").starts_with("0 ") {
        Finding::problem(
            "HealthCheckProgram",
            format!("{program} is never called: HealthCheckInterval=0"),
        )
        .way_out("HealthCheckInterval=60")
    } else if program.ends_with("/mgb-health") {
        Finding::ok("HealthCheckProgram", program)
    } else {
        Finding::note(
            "HealthCheckProgram",
            format!("{program}; does it call `mgb cluster health`?"),
        )
    });
    if !facts.has_plugin {
        findings.extend(without_plugin(of("TaskProlog"), of("Epilog")));
    }
    findings
}

fn accounting(kind: &str, has_memory: bool) -> Finding {
    const NAME: &str = "accounting";
    if kind != "accounting_storage/slurmdbd" {
        return Finding::note(
            NAME,
            "no slurmdbd: sacct cannot show what jobs took, and needs are not learned from it",
        )
        .way_out("AccountingStorageType=accounting_storage/slurmdbd");
    }
    if !has_memory {
        return Finding::note(NAME, "sacct does not show what jobs asked for")
            .way_out("AccountingStorageTRES=gres/mgb_mem,gres/mgb_share");
    }
    Finding::ok(NAME, kind)
}

fn without_plugin(prolog: &str, epilog: &str) -> Vec<Finding> {
    const NAME: &str = "TaskProlog";
    let mut findings = Vec::new();
    findings.push(if prolog.is_empty() {
        Finding::problem(NAME, "neither the plugin nor a TaskProlog: jobs run without MGB")
            .way_out("put the plugin into plugstack.conf, or set TaskProlog=/usr/local/bin/mgb-task-prolog")
    } else if prolog.ends_with("/mgb-task-prolog") {
        Finding::ok(NAME, format!("{prolog}, instead of the plugin"))
    } else {
        Finding::note(
            NAME,
            format!("{prolog}, and no plugin; does it call `mgb cluster prolog`?"),
        )
    });
    if !epilog.contains("mgb") {
        let text = "neither the plugin nor an Epilog of MGB's: sacct does not show what jobs took";
        findings.push(Finding::note("Epilog", text).way_out("Epilog=/usr/local/bin/mgb-epilog"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> SiteFacts {
        let usual = [
            ("GresTypes", "gpu,mgb_mem,mgb_share,mgb_gpu"),
            ("SelectType", "select/cons_tres"),
            ("AccountingStorageType", "accounting_storage/slurmdbd"),
            ("AccountingStorageTRES", "cpu,gres/mgb_mem"),
            ("HealthCheckProgram", "/usr/local/bin/mgb-health"),
            ("HealthCheckInterval", "60 sec"),
            ("TaskProlog", "(null)"),
        ];
        let all = usual
            .iter()
            .chain(pairs)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SiteFacts {
            config: Ok(all.collect()),
            has_plugin: true,
        }
    }

    #[test]
    fn a_right_site_has_no_problems() {
        assert!(check(&facts(&[])).iter().all(|finding| finding.state == Fine));
    }

    #[test]
    fn what_is_missing_is_said() {
        expect(
            &check(&facts(&[("GresTypes", "mgb_share")])),
            "GresTypes",
            Problem,
            &["mgb_mem", "mgb cluster setup"],
        );
        expect(
            &check(&facts(&[("SelectType", "select/linear")])),
            "SelectType",
            Problem,
            &["whole nodes"],
        );
        expect(
            &check(&facts(&[("HealthCheckProgram", "(null)")])),
            "HealthCheckProgram",
            Problem,
            &["mgb-health"],
        );
        expect(
            &check(&facts(&[("HealthCheckInterval", "0 sec")])),
            "HealthCheckProgram",
            Problem,
            &["never"],
        );
        expect(
            &check(&facts(&[("AccountingStorageType", "x/none")])),
            "accounting",
            Note,
            &["slurmdbd"],
        );
        let without = SiteFacts {
            has_plugin: false,
            ..facts(&[])
        };
        expect(
            &check(&without),
            "TaskProlog",
            Problem,
            &["without MGB", "plugstack.conf"],
        );
        let prolog = SiteFacts {
            has_plugin: false,
            ..facts(&[("TaskProlog", "/opt/mgb/bin/mgb-task-prolog")])
        };
        expect(&check(&prolog), "TaskProlog", Fine, &["instead of the plugin"]);
        let away = SiteFacts {
            config: Err("refused".to_owned()),
            has_plugin: true,
        };
        expect(&check(&away), "slurmctld", Problem, &["refused", "scontrol ping"]);
    }
}
