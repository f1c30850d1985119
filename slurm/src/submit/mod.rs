//! `mgb sbatch`, `mgb srun` and `mgb salloc`: Slurm's own commands, with the GPU memory that a job needs
//! asked for in its user's place.

mod line;
mod need;
mod nodes;
mod past;
mod tool;

use std::ffi::OsString;

use anyhow::{Context, anyhow};
use line::SlurmCommandLine;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
pub use need::FoundNeed;
use need::NodeNeed;
use nodes::Nodes;

use crate::tools::{MEMORY, SHARE, WHOLE};
pub use tool::Tool;

/// Reads what Slurm says of nodes and of jobs that ran, and works out what one more needs.
#[cfg(fuzzing)]
pub fn read(text: &str) {
    let line = SlurmCommandLine::parse(Tool::Sbatch, &["job.sh".to_owned(), "5".to_owned()]);
    let nodes = Nodes::of(text).unwrap_or_default();
    if let Some(past) = past::among(text, &line, std::path::Path::new("/a")) {
        NodeNeed::of_past(past, &nodes);
    }
}

/// What all three take.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ask for so much (such as 12GiB, 512M) of each node, whatever is known of the job.
    #[arg(long, value_name = "SIZE", value_parser = mgb_probe::byte_size::parse)]
    need: Option<u64>,
    /// Ask for so many hundredths of a GPU's time as well, 100 for each GPU: Slurm then packs no more onto a
    /// node than its GPUs have time for.
    #[arg(long, value_name = "HUNDREDTHS", value_parser = clap::value_parser!(u64).range(1..))]
    gpu_share: Option<u64>,
    /// Print Slurm's command line, and submit nothing.
    #[arg(long)]
    print: bool,
    /// Slurm's options, what is to run, and its arguments.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "SLURM'S ARGUMENTS"
    )]
    arguments: Vec<OsString>,
}

/// Examples, and what else `mgb sbatch --help` says.
pub const SBATCH_HELP: &str = "\
Examples:
  mgb sbatch job.sh 1000                          all of sbatch's options can stand before the script
  mgb sbatch --array=1-20 --wrap './app $SLURM_ARRAY_TASK_ID'
  mgb sbatch --print job.sh                       what would be asked for, and why

A job that asks for mgb_mem by itself (--gres, or #SBATCH --gres in its script) is submitted as it is.

Exit code: sbatch's; 125 if MGB failed, 127 if there is no sbatch.";
/// The same of `mgb srun`.
pub const SRUN_HELP: &str = "\
Examples:
  mgb srun ./app 1000                             all of srun's options can stand before the program
  mgb srun -n 4 --pty ./app

Inside a job, as in a script of sbatch's, and with --jobid, it is srun: what it runs has a part of what the job has asked for.
What asks for mgb_mem by itself is run as it is.

Exit code: srun's; 125 if MGB failed, 127 if there is no srun.";
/// The same of `mgb salloc`.
pub const SALLOC_HELP: &str = "\
Examples:
  mgb salloc                                      a shell, and an eighth of a GPU's memory
  mgb salloc --need 12GiB -n 2

Exit code: salloc's; 125 if MGB failed, 127 if there is no salloc.";

/// Runs the command. Returns only if nothing was submitted.
pub fn run(tool: Tool, args: &Args, found: FoundNeed) -> CommandResult {
    let words = args.arguments.iter().map(|word| word.to_str().map(str::to_owned));
    let words: Option<Vec<String>> = words.collect();
    let words = words
        .context("an argument is no UTF-8 text: Slurm's accounting could not tell it from others")
        .code(exit::RUN_FAILED)?;
    let (line, prints) = SlurmCommandLine::parse(tool, &words).without_flag("print");
    let (line, said) = line.without_option("need");
    let said =
        said.map(|size| mgb_probe::byte_size::parse(&size).map_err(|why| anyhow!("--need {size}: {why}")));
    let said = said.transpose().code(exit::RUN_FAILED)?;
    let (line, share) = line.without_option("gpu-share");
    let share = args.gpu_share.map_or_else(
        || share.as_deref().map(share_of).transpose(),
        |share| Ok(Some(share)),
    );
    let share = share.code(exit::RUN_FAILED)?;
    let gres = line.gres().code(exit::RUN_FAILED)?;
    let has = |wanted| gres.as_deref().is_some_and(|list| asks_for(list, wanted));
    if share.is_some() && (has(MEMORY) || has(SHARE)) {
        let why =
            anyhow!("--gpu-share does not go with {MEMORY} or {SHARE} in the job's own --gres: say it there");
        return Err(why).code(exit::RUN_FAILED);
    }
    let arguments = if has(MEMORY) || line.is_in_a_job() {
        line.words().to_vec()
    } else {
        let nodes = Nodes::read().code(exit::RUN_FAILED)?;
        if let Some(why) = share.and_then(|share| nodes.refuse_share(share)) {
            return Err(anyhow!(why)).code(exit::RUN_FAILED);
        }
        let need = match args.need.or(said) {
            Some(bytes) => NodeNeed::said(bytes),
            None => need::of(&line, &nodes, found),
        };
        if let Some(why) = nodes.refuse(need.mib, need.gpu_mib) {
            return Err(anyhow!("{why}; {need}")).code(exit::RUN_FAILED);
        }
        if !line.is_quiet() {
            mgb_command::tell!("mgb {}: {need}", tool.name());
        }
        line.with_gres(gres.as_deref(), &entries(&need, share))
    };
    if args.print || prints {
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        out::print(&format!("{} {}\n", tool.name(), words.join(" ")));
        return Ok(exit::OK);
    }
    tool.exec(&arguments)
}

/// The entries of a list of GRES for a need, and for hundredths of GPUs.
fn entries(need: &NodeNeed, share: Option<u64>) -> String {
    let NodeNeed { mib, gpu_mib, .. } = need;
    let share = share.map_or(String::new(), |share| format!(",{SHARE}:{share}"));
    format!("{MEMORY}:{mib},{WHOLE}:{gpu_mib}{share}")
}

/// Hundredths of GPUs, as `--gpu-share` has them.
fn share_of(text: &str) -> anyhow::Result<u64> {
    let share = text.parse().ok().filter(|share| *share > 0);
    share.with_context(|| format!("--gpu-share {text}: it takes a number of hundredths of a GPU, such as 50"))
}

/// Whether a list of GRES has this one.
fn asks_for(gres: &str, wanted: &str) -> bool {
    let names = gres
        .split(',')
        .filter_map(|entry| entry.trim_start_matches("gres/").split(':').next());
    names.into_iter().any(|name| name == wanted)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=./:,%@+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_searched_by_whole_names() {
        let asks = |list| asks_for(list, MEMORY);
        assert!(asks("mgb_mem:4K") && asks("gpu:1,gres/mgb_mem:12"));
        assert!(!asks("mgb_memory:1") && !asks("") && !asks("mgb_share:50"));
    }

    #[test]
    fn a_share_is_asked_for_beside_memory() {
        let need = NodeNeed::said(12 << 20);
        assert_eq!(entries(&need, None), "mgb_mem:12,mgb_gpu:12");
        assert_eq!(entries(&need, Some(50)), "mgb_mem:12,mgb_gpu:12,mgb_share:50");
        assert_eq!(share_of("150").unwrap(), 150);
        for text in ["0", "-1", "half", "0.5", ""] {
            assert!(
                share_of(text).unwrap_err().to_string().contains("such as 50"),
                "{text}"
            );
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(quoted("--gres=mgb_mem:12"), "--gres=mgb_mem:12");
        assert_eq!(quoted("it's $1"), "'it'\\''s $1'");
        assert_eq!(quoted(""), "''");
    }
}
