//! How much GPU memory a job is to ask for, and why.

use std::fmt;
use std::path::{Path, PathBuf};

use super::line::SlurmCommandLine;
use super::nodes::Nodes;
use super::past::{self, Past};

/// What the compiler pass has found that a program's tasks need at most, in bytes, where that is a constant.
pub type FoundNeed = fn(&Path) -> Option<u64>;

/// More than earlier runs took, by this part: runs differ a little.
const MARGIN: u64 = 16;
/// The part of a GPU that is asked for where nothing is known.
const UNKNOWN: u64 = 8;

/// What is asked for of each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNeed {
    /// MiB, of all GPUs together.
    pub mib: u64,
    /// MiB that one GPU is to have.
    pub gpu_mib: u64,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    Said,
    Past(Past),
    Found(PathBuf),
    Unknown { accounting: Option<String> },
}

impl NodeNeed {
    fn of_one_gpu(mib: u64, why: Why) -> NodeNeed {
        NodeNeed {
            mib,
            gpu_mib: mib,
            why,
        }
    }

    /// What the user says.
    pub fn said(bytes: u64) -> NodeNeed {
        NodeNeed::of_one_gpu(bytes.div_ceil(1 << 20).max(1), Why::Said)
    }

    /// What earlier runs took, and a little more.
    pub fn of_past(past: Past, nodes: &Nodes) -> NodeNeed {
        // What a whole GPU was enough for fits into one again.
        let with_margin = |mib: u64, most: u64| {
            let more = mib.saturating_add(mib.div_ceil(MARGIN));
            more.min(most.max(mib)).max(1)
        };
        // Some want all that there could be.
        let refused = past.refused_mib.min(nodes.most_gpu_mib);
        NodeNeed {
            mib: with_margin(past.mib, nodes.most_mib).max(refused),
            gpu_mib: with_margin(past.gpu_mib, nodes.most_gpu_mib).max(refused),
            why: Why::Past(past),
        }
    }
}

impl fmt::Display for NodeNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asks for {} MiB of GPU memory: ", self.mib)?;
        match &self.why {
            Why::Said => f.write_str("--need says so"),
            Why::Past(past) => {
                let how = if past.same_arguments { "the same" } else { "other" };
                let runs = if past.runs == 1 { "run" } else { "runs" };
                let (count, mib) = (past.runs, past.mib);
                write!(
                    f,
                    "{count} earlier {runs} with {how} arguments took {mib} MiB at most"
                )?;
                match past.refused_mib {
                    0 => Ok(()),
                    mib => write!(f, ", and failed where no GPU has {mib} MiB"),
                }
            }
            Why::Found(program) => {
                write!(f, "the compiler pass has found that in {}", program.display())
            }
            Why::Unknown { accounting: None } => f.write_str("nothing is known of it yet"),
            Why::Unknown {
                accounting: Some(why),
            } => {
                write!(
                    f,
                    "nothing is known of it, as Slurm's accounting does not answer ({why})"
                )
            }
        }
    }
}

/// What a job needs.
pub fn of(line: &SlurmCommandLine, nodes: &Nodes, found: FoundNeed) -> NodeNeed {
    let accounting = match past::of(line) {
        Ok(Some(past)) => {
            return NodeNeed::of_past(past, nodes);
        }
        Ok(None) => None,
        Err(error) => Some(reason(&format!("{error:#}"))),
    };
    if let Some((program, mib)) = largest(line, found) {
        return NodeNeed::of_one_gpu(mib, Why::Found(program));
    }
    let mib = (nodes.least_gpu_mib / UNKNOWN).max(1);
    NodeNeed::of_one_gpu(mib, Why::Unknown { accounting })
}

/// The last of what sacct said, without the command line that was tried.
fn reason(said: &str) -> String {
    let last = said.rsplit("; ").next().unwrap_or(said);
    last.rsplit(": ").next().unwrap_or(last).to_owned()
}

/// The largest need that is the same for all arguments, of the programs that the job's text names.
fn largest(line: &SlurmCommandLine, found: FoundNeed) -> Option<(PathBuf, u64)> {
    let text = line.text().ok()??;
    let folder = line.folder();
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = words
        .flat_map(|line| line.split(|letter: char| letter.is_whitespace() || "\"';&|()".contains(letter)));
    let programs = words
        .filter(|word| word.contains('/'))
        .map(|word| folder.join(Path::new(word)));
    let needs = programs.filter_map(|program| {
        let bytes = found(&program)?;
        Some((program, bytes.div_ceil(1 << 20).max(1)))
    });
    needs.max_by_key(|(_, mib)| *mib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_sacct_says_nothing_is_brief() {
        let refused =
            "sacct -n: sacct: error: Sending: Connection refused; sacct: error: Problem: Connection refused";
        assert_eq!(reason(refused), "Connection refused");
        assert_eq!(reason("sacct -n -o A,B: no answer in 5 s"), "no answer in 5 s");
    }

    #[test]
    fn a_record_that_says_too_much_is_what_it_says_at_most() {
        let past = Past {
            mib: u64::MAX,
            gpu_mib: u64::MAX - 1,
            refused_mib: 0,
            runs: 1,
            same_arguments: true,
        };
        let need = NodeNeed::of_past(past, &Nodes::default());
        assert_eq!((need.mib, need.gpu_mib), (u64::MAX, u64::MAX - 1));
    }

    #[test]
    fn reasons_are_said() {
        assert_eq!(
            NodeNeed::said(5 << 20).to_string(),
            "asks for 5 MiB of GPU memory: --need says so"
        );
        let past = Past {
            mib: 20,
            gpu_mib: 10,
            refused_mib: 0,
            runs: 3,
            same_arguments: false,
        };
        let need = NodeNeed {
            mib: 22,
            gpu_mib: 11,
            why: Why::Past(past),
        };
        let said = need.to_string();
        assert!(
            said.ends_with("3 earlier runs with other arguments took 20 MiB at most"),
            "{said}"
        );
    }
}
