//! `mgb bench`: mixes of jobs under one policy after the other, and what came of it: a document, a table, a
//! page.

mod alone;
mod args;
mod arm;
mod bars;
mod bench_plan;
mod bound;
mod compare;
mod facts;
mod figures;
mod memory_pressure;
mod mixes;
mod page;
mod profile;
mod results;
mod session;
mod setting;
mod table;

use std::path::Path;

use anyhow::{Context, Result};

pub use args::Args;

use bench_plan::BenchRequest;
use facts::{BenchSettings, Facts, MachineFacts};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::machine::Machine;
use mgb_command::out;
use mgb_command::prefix::Prefix;
use mixes::{Mix, Mixes};
use results::Results;
use session::Session;
use setting::{BenchNode, ReadyNode};

use crate::batch::jobfile;
use crate::stop::StopSignals;

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let file = std::path::absolute(args.resume.as_ref().unwrap_or(&args.output)).code(exit::USAGE)?;
    if args.resume.is_none() && file.exists() {
        let error = anyhow::anyhow!(
            "{} is there already: go on with it by --resume, or give another --output",
            file.display()
        );
        return Err(error).code(exit::USAGE);
    }
    let page = args.page.clone().unwrap_or_else(|| file.with_extension("html"));
    let stop = StopSignals::watch().code(exit::NODE)?;
    let folder = tempfile::Builder::new().prefix("mgb-bench-").tempdir();
    let folder = folder
        .context("failed to make a temporary folder; set TMPDIR")
        .code(exit::NODE)?;
    let before = args
        .resume
        .as_ref()
        .map(|file| Results::read(file))
        .transpose()
        .code(exit::USAGE)?;
    let prefix = Prefix::find().code(exit::NODE)?;
    let machine = Machine::find(&prefix).code(exit::NODE)?;
    let asked = BenchRequest::new(args, &machine, before.as_ref().map(|results| &results.asked));
    let asked = asked.code(exit::USAGE)?;
    let listed = listed(&asked).code(exit::USAGE)?;
    let node = BenchNode { prefix, machine };
    let measured = measure(node, asked, before, listed, &file, folder.path(), &stop);
    let results = match measured {
        Ok(results) => results,
        Err(error) => {
            mgb_command::tell!("mgb bench: logs are in {}", folder.keep().display());
            return Err(error).code(exit::NODE);
        }
    };
    if args.json {
        out::print(&out::json(&results).code(exit::NODE)?);
    } else {
        out::print(&format!("\n{}", table::text(&results)));
    }
    page::write(&results, &page).code(exit::NODE)?;
    mgb_command::tell!("\nresults: {}\npage: {}", file.display(), page.display());
    let allowed = |one: &&results::MixRun| one.arm.policy.starts_with("cg:");
    let failed: usize = results
        .runs
        .iter()
        .filter(|run| !allowed(run))
        .map(|run| run.failed())
        .sum();
    if failed > 0 {
        mgb_command::tell!(
            "mgb bench: {failed} jobs failed that should not; logs of this call are in {}",
            folder.keep().display()
        );
    }
    if let Some(code) = stop.exit_code() {
        mgb_command::tell!("mgb bench: stopped; go on with --resume {}", file.display());
        return Ok(code);
    }
    Ok(if failed == 0 { exit::OK } else { exit::FAILED })
}

/// The user's own jobs, as a mix.
fn listed(asked: &BenchRequest) -> Result<Option<Mix>> {
    let Some(file) = &asked.list else {
        return Ok(None);
    };
    let jobs = jobfile::read(file)?;
    let name = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy();
    Ok(Some(Mix::listed(
        name.into_owned(),
        jobs,
        asked.seed.unwrap_or(1),
    )))
}

fn measure(
    node: BenchNode,
    asked: BenchRequest,
    before: Option<Results>,
    listed: Option<Mix>,
    file: &Path,
    folder: &Path,
    stop: &StopSignals,
) -> Result<Results> {
    let setting = ReadyNode::prepare(node, asked.capacity_bytes, asked.alone_on_node, folder)?;
    let (seed, mixes) = match listed {
        Some(mix) => (asked.seed.unwrap_or(1), vec![mix]),
        None => {
            let all = Mixes::read(&setting.node.prefix.path().join("benches/mixes.toml"), asked.seed)?;
            let chosen = match asked.mixes.as_slice() {
                [] => all.mixes,
                names => all.choose(names)?,
            };
            (all.seed, chosen)
        }
    };
    let facts = Facts {
        machine: MachineFacts::find(&setting.node.machine, &setting.hello)?,
        commit: facts::commit(&setting.node.prefix),
        settings: BenchSettings {
            seed,
            capacity_bytes: setting.capacity,
            ballast: setting.has_ballast(),
            alone_on_node: asked.alone_on_node,
        },
    };
    mgb_command::tell!("{}; seed {seed}", facts.machine.describe());
    let mut results = match before {
        Some(results) => results.go_on(&facts).context("failed to resume")?,
        None => Results::new(facts),
    };
    let session = Session {
        setting: &setting,
        arms: &asked.wanted().arms(),
        runs: asked.runs,
        file,
        folder,
        stop,
    };
    results.asked = asked;
    session.measure(&mixes, &mut results)?;
    Ok(results)
}
