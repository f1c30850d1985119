//! What jobs like this one took when they ran before, on whatever node: Slurm's accounting is the memory that
//! all nodes and login machines share. Of each job it has the command line that submitted it, its folder, and
//! what `mgb cluster epilog` has recorded.

use std::path::Path;

use super::line::SlurmCommandLine;
use crate::tools;
use crate::tools::record::{self, JobRecord};

/// How far back one looks.
const SINCE: &str = "now-30days";
/// Runs that count, the latest ones: a program that needs less since it was changed is believed some time.
const RUNS: usize = 8;
/// What separates fields: no command line has it.
const SEPARATOR: char = '\u{1f}';

/// What earlier runs took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// The most MiB of one node.
    pub mib: u64,
    /// The most MiB of one GPU.
    pub gpu_mib: u64,
    /// The most MiB of one GPU that one wanted, and failed since its node had no such GPU; 0: none did.
    pub refused_mib: u64,
    /// Runs that were looked at.
    pub runs: usize,
    /// They had the same arguments.
    pub same_arguments: bool,
}

/// Looks them up; `None`: there were none, or Slurm's accounting does not say, and `Err` why.
///
/// # Errors
/// sacct fails, as where there is no slurmdbd.
pub fn of(line: &SlurmCommandLine) -> anyhow::Result<Option<Past>> {
    let user = rustix::process::getuid().as_raw().to_string();
    let delimiter = format!("--delimiter={SEPARATOR}");
    let said = tools::run(
        "sacct",
        &[
            "-n",
            "-P",
            "-X",
            "-u",
            &user,
            "-S",
            SINCE,
            &delimiter,
            "-o",
            "State,AdminComment,WorkDir,SubmitLine",
        ],
    )?;
    Ok(among(&said, line, &line.folder()))
}

/// What one run took, and was refused.
#[derive(Clone, Copy)]
struct PastRun {
    mib: u64,
    gpu_mib: u64,
    refused: u64,
}

/// How a job that ran is like this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Like {
    Same,
    OtherArguments,
}

/// The runs in what sacct prints that are like this one.
pub fn among(said: &str, line: &SlurmCommandLine, folder: &Path) -> Option<Past> {
    let (mut same, mut others) = (Vec::new(), Vec::new());
    // The latest come last.
    for entry in said.lines().rev() {
        let fields: Vec<&str> = entry.splitn(4, SEPARATOR).collect();
        let [state, comment, its_folder, submitted] = fields[..] else {
            continue;
        };
        let records = record::read(comment);
        let most = |of: fn(&JobRecord) -> u64| records.iter().map(of).max();
        let (Some(mib), Some(gpu_mib)) = (most(|record| record.peak_mib), most(|record| record.gpu_peak_mib))
        else {
            continue;
        };
        // Some programs only try how much there is: those end well.
        let refused = if state == "COMPLETED" {
            0
        } else {
            most(|record| record.refused_mib).unwrap_or(0)
        };
        let run = PastRun {
            mib,
            gpu_mib,
            refused,
        };
        match like(submitted, line, Path::new(its_folder) == folder) {
            Some(Like::Same) => same.push(run),
            Some(Like::OtherArguments) => others.push(run),
            None => {}
        }
    }
    let past = |runs: &[PastRun], same_arguments| {
        let runs = &runs[..runs.len().min(RUNS)];
        Some(Past {
            mib: runs.iter().map(|run| run.mib).max()?,
            gpu_mib: runs.iter().map(|run| run.gpu_mib).max()?,
            refused_mib: runs.iter().map(|run| run.refused).max()?,
            runs: runs.len(),
            same_arguments,
        })
    };
    past(&same, true).or_else(|| past(&others, false))
}

/// Slurm keeps a command line as words with spaces between them: the script and its arguments are its end.
fn like(submitted: &str, line: &SlurmCommandLine, same_folder: bool) -> Option<Like> {
    if let Some(text) = line.wrap() {
        let is_same = same_folder && submitted.contains("--wrap") && submitted.contains(text);
        return is_same.then_some(Like::Same);
    }
    let command = line.command();
    let script = command.first()?;
    if !same_folder && !script.starts_with('/') {
        return None;
    }
    let whole = command.join(" ");
    let before = submitted.strip_suffix(whole.as_str());
    if before.is_some_and(|before| before.ends_with(' ')) {
        return Some(Like::Same);
    }
    let has_script = submitted.split(' ').skip(1).any(|word| word == script);
    has_script.then_some(Like::OtherArguments)
}

#[cfg(test)]
mod tests {
    use super::super::tool::Tool;
    use super::*;

    fn line(words: &[&str]) -> SlurmCommandLine {
        SlurmCommandLine::parse(
            Tool::Sbatch,
            &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(),
        )
    }

    fn said(jobs: &[(u64, &str, &str)]) -> String {
        let one = |(mib, folder, submitted): &(u64, &str, &str)| {
            let took = format!("mgb{{n1 peak_mib={mib} gpu_peak_mib={mib} waited=0.00s held=1.00s tasks=1}}");
            format!("COMPLETED{SEPARATOR}{took}{SEPARATOR}{folder}{SEPARATOR}{submitted}\n")
        };
        jobs.iter().map(one).collect()
    }

    #[test]
    fn the_same_arguments_count_first() {
        let jobs = said(&[
            (10, "/home/a", "sbatch job.sh 5"),
            (12, "/home/a", "sbatch --gres=mgb_mem:10 -p x job.sh 5"),
            (90, "/home/a", "sbatch job.sh 50"),
            (70, "/home/b", "sbatch job.sh 5"),
            (80, "/home/a", "sbatch other-job.sh 5"),
        ]);
        let look = |words: &[&str]| among(&jobs, &line(words), Path::new("/home/a"));
        let past = |mib, runs, same_arguments| {
            Some(Past {
                mib,
                gpu_mib: mib,
                refused_mib: 0,
                runs,
                same_arguments,
            })
        };
        assert_eq!(look(&["job.sh", "5"]), past(12, 2, true));
        assert_eq!(look(&["-p", "y", "job.sh", "6"]), past(90, 3, false));
        assert_eq!(look(&["new.sh", "5"]), None);
        assert_eq!(among("", &line(&["job.sh"]), Path::new("/home/a")), None);
    }

    #[test]
    fn only_the_latest_runs_count() {
        let mut jobs = vec![(500, "/a", "sbatch job.sh")];
        jobs.extend([(20, "/a", "sbatch job.sh"); RUNS]);
        let past = among(&said(&jobs), &line(&["job.sh"]), Path::new("/a")).unwrap();
        assert_eq!((past.mib, past.runs), (20, RUNS));
    }

    #[test]
    fn who_failed_for_a_small_gpu_is_to_have_a_larger_one() {
        let run = |state: &str| {
            let took = "mgb{n1 peak_mib=2 gpu_peak_mib=2 waited=0.00s held=1.00s tasks=1 refused_mib=90}";
            format!("{state}{SEPARATOR}{took}{SEPARATOR}/a{SEPARATOR}sbatch job.sh\n")
        };
        let of = |text: String| among(&text, &line(&["job.sh"]), Path::new("/a")).unwrap();
        assert_eq!(of(run("FAILED")).refused_mib, 90);
        assert_eq!(of(run("COMPLETED")).refused_mib, 0);
    }

    #[test]
    fn what_was_wrapped_is_known_again() {
        let jobs = said(&[
            (10, "/a", "sbatch --gres=mgb_mem:4 --wrap ./app 5"),
            (20, "/a", "sbatch --wrap ./app 6"),
        ]);
        let past = among(&jobs, &line(&["--wrap", "./app 5"]), Path::new("/a")).unwrap();
        assert_eq!((past.mib, past.runs), (10, 1));
    }

    #[test]
    fn jobs_without_a_record_say_nothing() {
        let jobs = format!("FAILED{SEPARATOR}{SEPARATOR}/a{SEPARATOR}sbatch job.sh\nbroken\n");
        assert_eq!(among(&jobs, &line(&["job.sh"]), Path::new("/a")), None);
    }
}
