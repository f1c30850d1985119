//! `mgb cluster deliver`: what jobs took goes from this node's outbox into Slurm's accounting, as their
//! AdminComment.

use std::time::{Duration, Instant};

use anyhow::Result;
use mgb_command::exit::{self, CommandResult, WithCode};

use super::accounting_spool::Outbox;
use crate::tools;
use crate::tools::record::{self, JobRecord};

/// How often it is tried: other nodes of the job write theirs into the same comment.
const TRIES: u32 = 8;
/// The most that one try counts for in the pause after it.
const MAX_STEP: Duration = Duration::from_millis(500);
/// How long slurmdbd may be away before the next health check has to come back to it.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(45);
/// How soon it is tried again: at first, and twice as late each time, up to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(15)];

/// Bring what jobs took into Slurm's accounting (`mgb cluster epilog` and `health` start it).
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> CommandResult {
    let outbox = Outbox::of_node();
    let until = Instant::now() + DELIVERY_TIMEOUT;
    let mut pause = PAUSES[0];
    while let Some(lock) = outbox.lock().code(exit::NODE)? {
        let mut error = None;
        for (job, record) in outbox.all() {
            match write(job, &record) {
                Ok(()) => outbox.remove(job, &record),
                // There is no accounting, and none comes by itself.
                Err(why) if is_disabled(&why) => outbox.remove(job, &record),
                Err(why) => {
                    let is_away = !why.is::<NotYet>();
                    error = Some(why);
                    // The others would only wait for slurmdbd as well.
                    if is_away {
                        break;
                    }
                }
            }
        }
        drop(lock);
        match error {
            Some(error) if Instant::now() > until => return Err(error).code(exit::NODE),
            Some(_) => {
                std::thread::sleep(pause);
                pause = PAUSES[1].min(2 * pause);
            }
            // Whoever puts something and finds the right taken leaves it to this process.
            None if outbox.all().is_empty() => break,
            None => {}
        }
    }
    Ok(exit::OK)
}

/// Why a record is not in the accounting although that answers: a matter of one job.
#[derive(Debug, thiserror::Error)]
#[error("Slurm's accounting does not know the job yet, or not what it took here")]
struct NotYet;

/// Whether the cluster has no accounting, as sacct says it.
fn is_disabled(why: &anyhow::Error) -> bool {
    why.to_string().contains("storage is disabled")
}

/// Has it in the job's record, beside what others have written there.
fn write(job: u32, record: &JobRecord) -> Result<()> {
    let number = job.to_string();
    let which = format!("jobid={number}");
    let fields = "NNodes,AdminComment";
    let read = || tools::run("sacct", &["-n", "-P", "-X", "-D", "-j", &number, "-o", fields]);
    let set = |comment: &str| {
        let set = format!("AdminComment={comment}");
        tools::run(
            "sacctmgr",
            &["-i", "-Q", "modify", "job", "where", &which, "set", &set],
        )?;
        Ok(())
    };
    add(record, read, set, std::thread::sleep)
}

/// Adds the record to a comment that `read` and `set` have, until it stays there.
fn add(
    record: &JobRecord,
    mut read: impl FnMut() -> Result<String>,
    mut set: impl FnMut(&str) -> Result<()>,
    mut wait: impl FnMut(Duration),
) -> Result<()> {
    for _ in 0..TRIES {
        let began = Instant::now();
        let said = read()?;
        let Some((nodes, before)) = last_run(&said) else {
            // slurmdbd hears of jobs from slurmctld, seconds late where one of them was away.
            return Err(NotYet.into());
        };
        let mut records = record::read(before);
        if records.contains(record) {
            return Ok(());
        }
        records.retain(|other| other.node != record.node);
        records.push(record.clone());
        // Slurm takes quotes for its own.
        set(&record::comment(before, &records).replace(['"', '\''], "`"))?;
        if nodes == Some(1) {
            return Ok(());
        }
        // Another node may have read the comment before, and write it back without this record. It has done
        // so after about the time that this node took for the same; the next look is later than that. Nodes
        // that began together are to come apart.
        let apart = 1.0 + f64::from(std::process::id() % 10) / 5.0;
        wait(began.elapsed().min(MAX_STEP).mul_f64(apart) + Duration::from_millis(20));
    }
    Err(NotYet.into())
}

/// The nodes and the comment of a job's last run, of several where it was requeued; `None`: there is none.
fn last_run(said: &str) -> Option<(Option<u32>, &str)> {
    let (nodes, comment) = said.lines().next_back()?.split_once('|')?;
    Some((nodes.trim().parse().ok(), comment))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use mgb_probe::view::JobView;

    use super::*;

    fn record(node: &str) -> JobRecord {
        JobRecord::of(node, &JobView::default())
    }

    /// What stands in the comment of a job of three nodes, in the end.
    fn added(between: impl Fn(u32, &mut String)) -> (String, u32) {
        let comment = RefCell::new(String::new());
        let mut looks = 0;
        let read = || Ok(format!("3|{}\n", comment.borrow()));
        let set = |text: &str| {
            *comment.borrow_mut() = text.to_owned();
            Ok(())
        };
        let wait = |_| {
            between(looks, &mut comment.borrow_mut());
            looks += 1;
        };
        let is_there = add(&record("n2"), read, set, wait).is_ok();
        assert_eq!(is_there, comment.borrow().contains("n2"));
        (comment.into_inner(), looks)
    }

    #[test]
    fn a_record_that_another_node_writes_over_is_written_again() {
        let of =
            |nodes: &[&str]| record::comment("", &nodes.iter().map(|node| record(node)).collect::<Vec<_>>());
        assert_eq!(added(|_, _| ()), (of(&["n2"]), 1));
        let (comment, looks) = added(|at, comment| {
            if at < 2 {
                *comment = of(&["n1", "n3"]);
            }
        });
        assert_eq!((comment, looks), (of(&["n1", "n3", "n2"]), 3));
        let (_, looks) = added(|_, comment| comment.clear());
        assert_eq!(looks, TRIES, "it gives up");
        let nothing = || Ok("\n".to_owned());
        let unknown = add(&record("n2"), nothing, |_| panic!("there is no job"), |_| ());
        assert!(unknown.unwrap_err().is::<NotYet>());
        let away = || Err(anyhow::anyhow!("sacct: no answer in 5 s"));
        let away = add(&record("n2"), away, |_| panic!("nobody takes it"), |_| ());
        assert!(!away.unwrap_err().is::<NotYet>());
    }

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
