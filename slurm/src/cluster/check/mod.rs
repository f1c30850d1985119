//! `mgb cluster check`: what of the set-up is wrong. A check is a pure function of facts, which `gather`
//! fills in.

mod gather;
mod node;
mod plugin;
mod site;

use std::fmt::Write;

use mgb_command::check_result::{Finding, Severity, line};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
use mgb_command::table::plural;

/// Say what of the set-up under Slurm is wrong, on this machine and in the cluster's configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line is `ok`, `note` or `problem`, with the way out below it. On a node it checks the node as well.

Exit code: 0 if nothing is wrong, 1 if there is a problem.")]
pub struct Args {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let facts = gather::look();
    let mut findings = site::check(&facts.site);
    if let Some(node) = &facts.node {
        findings.extend(node::check(node));
    }
    findings.extend(plugin::check(&facts.plugin));
    let problems = findings
        .iter()
        .filter(|finding| finding.state == Severity::Problem)
        .count();
    if args.json {
        out::print(&out::json(&findings).code(exit::NODE)?);
    } else {
        out::print(&text(&findings, problems));
    }
    Ok(if problems == 0 { exit::OK } else { exit::FAILED })
}

fn text(findings: &[Finding], problems: usize) -> String {
    let name = findings
        .iter()
        .map(|finding| finding.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        line(&mut text, finding, name);
    }
    // Writing to a String cannot fail.
    let _ = match problems {
        0 => writeln!(text, "\nno problems"),
        count => writeln!(text, "\n{}", plural(count, "problem")),
    };
    text
}
