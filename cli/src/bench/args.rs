//! The command line of `mgb bench`.

use std::path::PathBuf;

use mgb_probe::byte_size;

use crate::parallel::Parallel;

/// Under which MPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mps {
    /// mgbd's own, for all policies.
    On,
    /// No policy runs under MPS.
    Off,
    /// With it, then without.
    Both,
}

/// Measure on this node what sharing gains: mixes of jobs under each policy, beside one process per GPU (sa),
/// so many blind to memory (cg), and the bound that no schedule can beat.
///
/// Each distinct job runs alone first: for the bound, and for its result, which every later run must have.
/// The baselines sa and cg run plain binaries, the others those built with MGB, all in one order and under
/// the same MPS. BENCHMARKING.md says what makes the comparison fair. Results are written after each mix
/// under each policy: --resume goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb bench --quick
  mgb bench --mix W1,W2 --policy sa,cg,mgb --capacity 64GiB --output w.json
  mgb bench --resume w.json
  mgb bench --list jobs.txt --policy sa,mgb,mgb/shortest --jobs 8,auto

Exit code: 0 if no job failed but under cg, else 1; 2 for wrong usage, 3 if the node cannot serve; \
130 after Ctrl-C.")]
pub struct Args {
    /// The mixes, by their names in benches/mixes.toml [default: all].
    #[arg(long, value_name = "MIXES", value_delimiter = ',', conflicts_with = "list")]
    pub mix: Vec<String>,
    /// The policies, each as NAME or NAME/QUEUE with a queue discipline; cg stands for cg:2 to cg:8 [default:
    /// sa, cg and all that know what fits; with --quick sa, cg:4 and mgb].
    #[arg(long, value_name = "POLICIES", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// Jobs at once under policies that know what fits: numbers or auto [default: auto].
    #[arg(long, value_name = "N|auto", value_delimiter = ',')]
    pub jobs: Vec<Parallel>,
    /// With MPS, without, or both [default: on].
    #[arg(long, value_enum)]
    pub mps: Option<Mps>,
    /// Make each GPU this small: by a ballast on real GPUs, by their size on software GPUs.
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    pub capacity: Option<u64>,
    /// How often to run each mix under each policy [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: Option<u16>,
    /// Draw jobs and their order from this [default: what benches/mixes.toml says; 1 for a list].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Measure these jobs instead of mixes: a job file as mgb batch takes it, of programs built with MGB.
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// A first look: one mix, three policies, jobs of a few seconds on real GPUs.
    #[arg(long, conflicts_with_all = ["list", "resume"])]
    pub quick: bool,
    /// Profile jobs strictly one at a time, instead of one a GPU.
    #[arg(long)]
    pub alone_on_node: bool,
    /// Where results go; must not be there yet.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "bench.json",
        conflicts_with = "resume"
    )]
    pub output: PathBuf,
    /// Go on with these results: what is there is not run again, and what other options leave open is as it
    /// was.
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// The page [default: beside the results, with .html].
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Print the results as JSON as well.
    #[arg(long)]
    pub json: bool,
}
