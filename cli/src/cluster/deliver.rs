//! `mgb cluster deliver`: what jobs took goes from this node's outbox into Slurm's accounting, as their
//! AdminComment.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::outbox::Outbox;
use crate::exit::{self, Outcome, WithCode};
use crate::slurm;
use crate::slurm::record::{self, Record};

/// How often it is tried: other nodes of the job write theirs into the same comment.
const TRIES: u32 = 4;
/// How long slurmdbd may be away before the next health check has to come back to it.
const PATIENCE: Duration = Duration::from_secs(45);
/// How soon it is tried again: at first, and twice as late each time, up to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(15)];

/// Bring what jobs took into Slurm's accounting (`mgb cluster epilog` and `health` start it).
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> Outcome {
    let outbox = Outbox::of_node();
    let until = Instant::now() + PATIENCE;
    let mut pause = PAUSES[0];
    while let Some(lock) = outbox.lock().code(exit::NODE)? {
        let mut error = None;
        let all = outbox.all();
        for (job, record) in &all {
            match write(*job, record) {
                Ok(()) => outbox.remove(*job, record),
                // There is no accounting, and none comes by itself.
                Err(why) if is_disabled(&why) => outbox.remove(*job, record),
                // Of this one or of all: the others are tried nevertheless, since one job may be unknown.
                Err(why) => error = Some(why),
            }
        }
        // Whoever puts something and finds the right taken leaves it to this process, which has to look again.
        drop(lock);
        match error {
            Some(error) if Instant::now() > until => return Err(error).code(exit::NODE),
            Some(_) => {
                std::thread::sleep(pause);
                pause = PAUSES[1].min(2 * pause);
            }
            None if all.is_empty() => break,
            None => {}
        }
    }
    Ok(exit::OK)
}

/// Whether the cluster has no accounting, as sacct says it.
fn is_disabled(why: &anyhow::Error) -> bool {
    why.to_string().contains("storage is disabled")
}

/// Has it in the job's record, beside what others have written there.
fn write(job: u32, record: &Record) -> Result<()> {
    let number = job.to_string();
    let fields = "NNodes,AdminComment";
    for at in 0..TRIES {
        let said = slurm::run("sacct", &["-n", "-P", "-X", "-D", "-j", &number, "-o", fields])?;
        let Some((nodes, before)) = last_run(&said) else {
            bail!("slurmdbd does not know job {job} yet");
        };
        let mut records = record::read(before);
        if records.contains(record) {
            return Ok(());
        }
        records.retain(|other| other.node != record.node);
        records.push(record.clone());
        // Slurm takes quotes for its own.
        let comment = record::comment(before, &records).replace(['"', '\''], "`");
        let (job, set) = (format!("jobid={number}"), format!("AdminComment={comment}"));
        slurm::run(
            "sacctmgr",
            &["-i", "-Q", "modify", "job", "where", &job, "set", &set],
        )?;
        if nodes == Some(1) {
            return Ok(());
        }
        // Another node may have read the same and written since; whoever is later has both.
        let pause = 20 * at + 7 * (std::process::id() % 10);
        std::thread::sleep(Duration::from_millis(u64::from(pause)));
    }
    Ok(())
}

/// The nodes and the comment of a job's last run, of several where it was requeued; `None`: there is none.
fn last_run(said: &str) -> Option<(Option<u32>, &str)> {
    let (nodes, comment) = said.lines().next_back()?.split_once('|')?;
    Some((nodes.trim().parse().ok(), comment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_counts() {
        assert_eq!(last_run("1|a\n3|mgb{n1 x=1}\n"), Some((Some(3), "mgb{n1 x=1}")));
        assert_eq!(last_run("1|\n"), Some((Some(1), "")));
        assert_eq!(last_run(""), None);
    }

    #[test]
    fn a_cluster_without_accounting_is_known_by_what_sacct_says() {
        let said = |text: &'static str| anyhow::anyhow!("sacct -n: {text}");
        assert!(is_disabled(&said("Slurm accounting storage is disabled")));
        assert!(!is_disabled(&said("sacct: error: Connection refused")));
    }
}
