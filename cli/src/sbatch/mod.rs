//! `mgb sbatch`: sbatch, with the GPU memory that a job needs asked for in its user's place.

mod line;
mod need;
mod nodes;
mod past;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, anyhow};

use crate::exit::{self, Outcome, WithCode};
use crate::out;
use crate::slurm::{MEMORY, SHARE, WHOLE};
use line::Line;
use need::Need;
use nodes::Nodes;

/// Submit a job to Slurm with as much GPU memory as it needs, which nobody has to say.
///
/// It asks for what earlier runs took, as Slurm's accounting has it: of the same script with the same
/// arguments in the same folder, else of the script with any. Where there was none, it asks for what the
/// compiler pass has found in the programs that the script names, else for an eighth of a GPU. What a job
/// takes beyond that it gets on its node as there is room; it never fails for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb sbatch job.sh 1000                          all of sbatch's options can stand before the script
  mgb sbatch --array=1-20 --wrap './app $SLURM_ARRAY_TASK_ID'
  mgb sbatch --print job.sh                       what would be asked for, and why

A job that asks for mgb_mem by itself (--gres, or #SBATCH --gres in its script) is submitted as it is.

Exit code: sbatch's; 125 if MGB failed, 127 if there is no sbatch.")]
pub struct Args {
    /// Ask for so much (such as 12GiB, 512M) of each node, whatever is known of the job.
    #[arg(long, value_name = "SIZE", value_parser = mgb_probe::size::parse)]
    need: Option<u64>,
    /// Ask for so many hundredths of a GPU's time as well, 100 for each GPU: Slurm then packs no more onto a
    /// node than its GPUs have time for.
    #[arg(long, value_name = "HUNDREDTHS", value_parser = clap::value_parser!(u64).range(1..))]
    gpu_share: Option<u64>,
    /// Print sbatch's command line, and submit nothing.
    #[arg(long)]
    print: bool,
    /// sbatch's options, the script and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "SBATCH ARGUMENTS"
    )]
    arguments: Vec<OsString>,
}

/// Runs the command. Returns only if nothing was submitted.
pub fn run(args: &Args) -> Outcome {
    let words = args.arguments.iter().map(|word| word.to_str().map(str::to_owned));
    let words: Option<Vec<String>> = words.collect();
    let words = words
        .context("an argument is no UTF-8 text: Slurm's accounting could not tell it from others")
        .code(exit::RUN_FAILED)?;
    let (line, prints) = Line::parse(&words).without_flag("print");
    let (line, said) = line.without_option("need");
    let said = said.map(|size| mgb_probe::size::parse(&size).map_err(|why| anyhow!("--need {size}: {why}")));
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
    let arguments = if has(MEMORY) {
        line.words().to_vec()
    } else {
        let nodes = Nodes::read().code(exit::RUN_FAILED)?;
        if let Some(why) = share.and_then(|share| nodes.refuse_share(share)) {
            return Err(anyhow!(why)).code(exit::RUN_FAILED);
        }
        let need = match args.need.or(said) {
            Some(bytes) => Need::said(bytes),
            None => need::of(&line, &nodes),
        };
        if let Some(why) = nodes.refuse(need.mib, need.gpu_mib) {
            return Err(anyhow!("{why}; {need}")).code(exit::RUN_FAILED);
        }
        if !line.is_quiet() {
            eprintln!("mgb sbatch: {need}");
        }
        line.with_gres(gres.as_deref(), &entries(&need, share))
    };
    if args.print || prints {
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        out::print(&format!("sbatch {}\n", words.join(" ")));
        return Ok(exit::OK);
    }
    let error = Command::new("sbatch").args(&arguments).exec();
    Err(anyhow!(error).context("failed to run sbatch: is this a machine of a Slurm cluster?"))
        .code(exit::RUN_NOT_FOUND)
}

/// The entries of a list of GRES for a need, and for hundredths of GPUs.
fn entries(need: &Need, share: Option<u64>) -> String {
    let Need { mib, gpu_mib, .. } = need;
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
        let need = Need::said(12 << 20);
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
