//! `mgb bench`: mixes of jobs under one policy after the other, and what came of it: a document, a table, a page.

mod alone;
mod arm;
mod asked;
mod bars;
mod bound;
mod facts;
mod figures;
mod mixes;
mod page;
mod profile;
mod results;
mod session;
mod setting;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mgb_probe::size;

use crate::batch::jobfile;
use crate::batch::parallel::Parallel;
use crate::exit::{self, Outcome, WithCode};
use crate::machine::Machine;
use crate::out;
use crate::prefix::Prefix;
use crate::stop::StopSignals;
use asked::Asked;
use facts::{Facts, MachineFacts, Settings};
use mixes::{Mix, Mixes};
use results::Results;
use session::Session;
use setting::{Node, Setting};

/// Under which MPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mps {
    /// mgbd's own, for all policies.
    On,
    /// None.
    Off,
    /// With it, then without.
    Both,
}

/// Measure on this node what sharing gains: mixes of jobs under each policy, beside one process per GPU (sa), so many
/// blind to memory (cg), and the bound that no schedule can beat.
///
/// Each distinct job runs alone first: for the bound, and for its result, which every later run must have. The baselines
/// sa and cg run plain binaries, the others those built with MGB, all in one order and under the same MPS. BENCHMARKING.md
/// says what makes the comparison fair. Results are written after each mix under each policy: --resume goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb bench --quick
  mgb bench --mix W1,W2 --policy sa,cg,mgb --capacity 64GiB --output w.json
  mgb bench --resume w.json
  mgb bench --list jobs.txt --policy sa,mgb,mgb/shortest --jobs 8,auto

Exit code: 0 if no job failed but under cg, else 1; 2 for wrong usage, 3 if the node cannot serve; 130 after Ctrl-C.")]
pub struct Args {
    /// The mixes, by their names in benches/mixes.toml [default: all].
    #[arg(long, value_name = "MIXES", value_delimiter = ',', conflicts_with = "list")]
    mix: Vec<String>,
    /// The policies, each as NAME or NAME/QUEUE with a queue discipline; cg stands for cg:2 to cg:8 [default: sa, cg and
    /// all that know what fits; with --quick sa, cg:4 and mgb].
    #[arg(long, value_name = "POLICIES", value_delimiter = ',')]
    policy: Vec<String>,
    /// Jobs at once under policies that know what fits: numbers or auto [default: auto].
    #[arg(long, value_name = "N|auto", value_delimiter = ',')]
    jobs: Vec<Parallel>,
    /// With MPS, without, or both [default: on].
    #[arg(long, value_enum)]
    mps: Option<Mps>,
    /// Make each GPU this small: by a ballast on real GPUs, by their size on software GPUs.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    capacity: Option<u64>,
    /// How often to run each mix under each policy [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Draw jobs and their order from this [default: what benches/mixes.toml says; 1 for a list].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Measure these jobs instead of mixes: a job file as mgb batch takes it, of programs built with MGB.
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// A first look: one mix, three policies, jobs of a few seconds on real GPUs.
    #[arg(long, conflicts_with_all = ["list", "resume"])]
    quick: bool,
    /// Profile jobs strictly one at a time, instead of one a GPU.
    #[arg(long)]
    alone_on_node: bool,
    /// Where results go; must not be there yet.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "bench.json",
        conflicts_with = "resume"
    )]
    output: PathBuf,
    /// Go on with these results: what is there is not run again, and what other options leave open is as it was.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// The page [default: beside the results, with .html].
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print the results as JSON as well.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
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
    let asked = Asked::new(args, &machine, before.as_ref().map(|results| &results.asked));
    let asked = asked.code(exit::USAGE)?;
    let listed = listed(&asked).code(exit::USAGE)?;
    let node = Node { prefix, machine };
    let measured = measure(node, asked, before, listed, &file, folder.path(), &stop);
    let results = match measured {
        Ok(results) => results,
        Err(error) => {
            eprintln!("mgb bench: logs are in {}", folder.keep().display());
            return Err(error).code(exit::NODE);
        }
    };
    if args.json {
        out::print(&out::json(&results).code(exit::NODE)?);
    } else {
        out::print(&format!("\n{}", table::text(&results)));
    }
    page::write(&results, &page).code(exit::NODE)?;
    eprintln!("\nresults: {}\npage: {}", file.display(), page.display());
    let allowed = |one: &&results::Run| one.arm.policy.starts_with("cg:");
    let failed: usize = results
        .runs
        .iter()
        .filter(|run| !allowed(run))
        .map(|run| run.failed())
        .sum();
    if failed > 0 {
        eprintln!(
            "mgb bench: {failed} jobs failed that should not; logs of this call are in {}",
            folder.keep().display()
        );
    }
    if let Some(code) = stop.exit_code() {
        eprintln!("mgb bench: stopped; go on with --resume {}", file.display());
        return Ok(code);
    }
    Ok(if failed == 0 { exit::OK } else { exit::FAILED })
}

/// The user's own jobs, as a mix.
fn listed(asked: &Asked) -> Result<Option<Mix>> {
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
    node: Node,
    asked: Asked,
    before: Option<Results>,
    listed: Option<Mix>,
    file: &Path,
    folder: &Path,
    stop: &StopSignals,
) -> Result<Results> {
    let setting = Setting::prepare(node, asked.capacity_bytes, asked.alone_on_node, folder)?;
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
        settings: Settings {
            seed,
            capacity_bytes: setting.capacity,
            ballast: setting.has_ballast(),
            alone_on_node: asked.alone_on_node,
        },
    };
    eprintln!("{}; seed {seed}", facts.machine.describe());
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
