//! The findings for people: a line per check, and the way out below it.

use std::fmt::Write;

use mgb_command::check_result::{CheckReport, line};
use mgb_command::table::plural;

/// The findings, then how many of them are problems and notes.
pub fn text(report: &CheckReport) -> String {
    let program = report.program.as_ref();
    let all = report
        .node
        .iter()
        .chain(program.into_iter().flat_map(|program| &program.findings));
    let name = all.map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::from("node\n");
    for finding in &report.node {
        line(&mut text, finding, name);
    }
    if let Some(program) = program {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\nprogram {}", program.command.join(" "));
        for finding in &program.findings {
            line(&mut text, finding, name);
        }
    }
    let count = |count, thing| match count {
        0 => format!("no {thing}s"),
        _ => plural(count, thing),
    };
    let _ = writeln!(
        text,
        "\n{}, {}",
        count(report.problems, "problem"),
        count(report.notes, "note")
    );
    text
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::{Finding, ProgramReport};

    use super::*;

    #[test]
    fn people_see() {
        let node = vec![
            Finding::ok("driver", "580.1, CUDA 13.0"),
            Finding::note("persistence mode", "off on GPU 0").way_out("sudo nvidia-smi -pm 1"),
        ];
        let program = ProgramReport {
            command: vec!["./app".to_owned(), "7".to_owned()],
            findings: vec![Finding::problem("executable", "no such file").way_out("name another")],
        };
        let report = CheckReport::new(node, Some(program));
        let wanted = "\
node
  ok       driver            580.1, CUDA 13.0
  note     persistence mode  off on GPU 0
                             -> sudo nvidia-smi -pm 1

program ./app 7
  problem  executable        no such file
                             -> name another

1 problem, 1 note
";
        assert_eq!(text(&report), wanted);
        assert_eq!(
            text(&CheckReport::new(Vec::new(), None)),
            "node\n\nno problems, no notes\n"
        );
    }
}
