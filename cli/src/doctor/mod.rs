//! `mgb doctor`: what works on this node and for a program, what does not, why, and what to do about it.
//!
//! A check is a pure function of facts; `gather/` has what fills them in. Nothing is changed, and no program
//! is run.

mod classes;
mod driver;
mod folder;
mod gather;
mod gpus;
mod host;
mod limit;
mod mgbd;
mod mps;
mod program;
mod render;
mod rights;
mod tools;

use std::time::Duration;

use gather::DoctorNode;
use mgb_command::check_result::{CheckReport, Finding, ProgramReport};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;

/// How long a file system may take. mgbd has ten seconds to answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// How long reading a program and its libraries may take: those of machine learning have gigabytes.
const READING: Duration = Duration::from_secs(60);

/// Say what works on this node, what does not, why, and what to do about it.
///
/// With a program, also whether it comes under mgbd, how, and what goes past it. The program is not run, no
/// GPU is used, and nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb doctor                    the node: driver, GPUs, MPS, mgbd, memory, limits, compilers
  mgb doctor ./app 1000         also this program
  mgb doctor --json python3     a document for scripts

Each line is `ok`, `note` (it works, but you may want to know) or `problem`, with the way out below it.

Exit code: 0 if nothing is wrong, 1 if there is a problem.")]
pub struct Args {
    /// Print a document for scripts.
    #[arg(long)]
    json: bool,
    /// Print what this process sees of the driver (for mgb doctor itself).
    #[arg(long, hide = true)]
    ask_driver: bool,
    /// A program and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<std::ffi::OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    if args.ask_driver {
        let seen = gather::driver::look();
        out::print(&out::json(&seen).code(exit::NODE)?);
        return Ok(exit::OK);
    }
    let node = DoctorNode::find();
    let findings = of_node(&node);
    let program = args.command.first().map(|name| ProgramReport {
        command: args
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        findings: of_program(&node, name.to_string_lossy().into_owned()),
    });
    let report = CheckReport::new(findings, program);
    if args.json {
        out::print(&out::json(&report).code(exit::NODE)?);
    } else {
        out::print(&render::text(&report));
    }
    Ok(if report.problems == 0 {
        exit::OK
    } else {
        exit::FAILED
    })
}

fn of_node(node: &DoctorNode) -> Vec<Finding> {
    let mgbd = limit::within(CHECK_TIMEOUT, "mgbd", gather::mgbd::ask);
    let gpus = gather::gpus_of(node, mgbd.as_ref());
    let mask = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let mut findings = driver::check(&node.use_of, &node.real, &node.used);
    findings.extend(gpus::check(&gpus, mask.as_deref()));
    let seen_mps = gather::mps::look(&node.use_of, mgbd.as_ref());
    findings.extend(mps::check(&seen_mps));
    findings.extend(classes::check(&gather::classes::look(&node.used, &seen_mps)));
    match mgbd {
        Some(seen) => findings.extend(mgbd::check(&seen.facts(&gpus, mask.as_deref()))),
        None => findings.push(silent("mgbd", "mgbd", CHECK_TIMEOUT)),
    }
    let folder = limit::within(CHECK_TIMEOUT, "the folder of mgbd's socket", gather::host::folder);
    match folder {
        Some(facts) => findings.extend(folder::check(&facts)),
        None => findings.push(silent(
            "socket folder",
            "the folder of mgbd's socket",
            CHECK_TIMEOUT,
        )),
    }
    findings.extend(host::check(&gather::host::look()));
    findings.extend(rights::check(&gather::rights::look()));
    match limit::within(CHECK_TIMEOUT, "the compilers", gather::tools::look) {
        Some(facts) => findings.extend(tools::check(&facts)),
        None => findings.push(silent("compiler", "the compilers", CHECK_TIMEOUT)),
    }
    findings
}

fn of_program(node: &DoctorNode, name: String) -> Vec<Finding> {
    let search = node.search();
    let cuda = node.cuda();
    let software = node.is_soft();
    let what = format!("{name} and its libraries");
    let look = move || gather::program::look(&name, &search, software, cuda);
    match limit::within(READING, &what, look) {
        Some(facts) => program::check(&facts),
        None => vec![silent("executable", &what, READING)],
    }
}

/// What did not come in time.
fn silent(name: &'static str, what: &str, limit: Duration) -> Finding {
    let text = format!("{what}: no answer in {} s", limit.as_secs());
    Finding::problem(name, text).way_out("a file system or a process may hang; see `dmesg`")
}
