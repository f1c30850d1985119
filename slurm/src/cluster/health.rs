//! `mgb cluster health`: keeps jobs off a node whose mgbd does not answer, and tells Slurm what the node's
//! GPUs have to do.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::{daemon, out};
use mgb_probe::view::{GpuView, NodeView};
use mgb_probe::{Client, NODE_SOCKET};

use super::accounting_spool::Outbox;
use crate::tools::{self, note, summary::Summary};

/// A restart of mgbd takes less: the next one is there after a second, or systemd has given up.
const RESTART_TIMEOUT: Duration = Duration::from_secs(10);
/// What begins the reason of a drain that is ours to end.
const OWN: &str = "mgb: ";
/// After as many seconds what Slurm has is written again although nothing has changed.
const OLD: u64 = 300;

/// Drain this node in Slurm if its mgbd does not answer or its GPUs fail, and say what its GPUs have to do
/// (Slurm calls it, as root).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In slurm.conf: HealthCheckProgram=/usr/local/bin/mgb-health and HealthCheckInterval=60. The node is drained after ten \
seconds without an answer, or where all its GPUs fail or are lost, with a reason that begins with `mgb:`, and \
resumed once mgbd answers; drains of others are left alone. `mgb status --cluster` shows what the nodes have said.

Exit code: 0 if jobs can run here, 1 if they cannot, 3 if Slurm cannot be told.")]
pub struct Args {
    /// Print what is so, and change nothing.
    #[arg(long)]
    print: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let seen = look(RESTART_TIMEOUT);
    let fault = fault(&seen);
    if args.print {
        out::print(&match (&seen, &fault) {
            (_, Some(why)) => format!("{why}\n"),
            (Ok(view), None) => {
                let lines = [Summary::of(view).to_string()].into_iter().chain(failing(view));
                lines.map(|line| line + "\n").collect()
            }
            (Err(_), None) => String::new(),
        });
    } else {
        tell(&seen, fault.as_deref()).code(exit::NODE)?;
    }
    if !args.print {
        // What ended while slurmdbd was away. Nothing here depends on it.
        let _ = Outbox::of_node().deliver();
    }
    Ok(if fault.is_none() { exit::OK } else { exit::FAILED })
}

/// The node as mgbd has it.
fn look(patience: Duration) -> Result<NodeView> {
    let until = Instant::now() + patience;
    loop {
        let view = Client::observe(Path::new(NODE_SOCKET)).map_err(daemon::way_out);
        match view.and_then(|client| Ok(client.status()?)) {
            Ok(view) => return Ok(view),
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Why no job should come here.
fn fault(seen: &Result<NodeView>) -> Option<String> {
    match seen {
        Err(error) => Some(format!("{error:#}")),
        Ok(view) if view.gpus.iter().all(|gpu| gpu.lost) => Some("the driver reaches no GPU".to_owned()),
        Ok(view) if view.gpus.iter().all(|gpu| gpu.lost || gpu.is_failing()) => {
            Some(format!("all GPUs fail: {}", failing(view).join(", ")))
        }
        Ok(_) => None,
    }
}

/// What is wrong with each GPU that takes nobody for that.
fn failing(view: &NodeView) -> Vec<String> {
    let why = |gpu: &GpuView| {
        let why = if gpu.lost {
            Some("lost")
        } else {
            gpu.fails.as_deref()
        };
        why.map(|why| format!("GPU {} ({}): {why}", gpu.gpu.index, gpu.gpu.uuid))
    };
    view.gpus.iter().filter_map(why).collect()
}

fn tell(seen: &Result<NodeView>, fault: Option<&str>) -> Result<()> {
    let name = tools::node_name();
    let record = tools::run("scontrol", &["-o", "show", "node", &name])?;
    let target = format!("nodename={name}");
    match change(&record, fault) {
        Some(HealthChange::Drain(why)) => {
            // Slurm takes quotes for its own.
            let reason = format!("reason={OWN}{}", why.replace(['"', '\'', '\n'], " "));
            tools::run("scontrol", &["update", &target, "state=drain", &reason])?;
        }
        Some(HealthChange::Resume) => {
            tools::run("scontrol", &["update", &target, "state=resume"])?;
        }
        None => {}
    }
    if let Ok(view) = seen {
        let (summary, before) = (
            Summary::of(view),
            tools::field(&record, "Extra").unwrap_or_default(),
        );
        let is_known =
            Summary::read(&before).is_some_and(|old| old.is_like(&summary) && summary.at < old.at + OLD);
        if !is_known {
            let extra = format!("extra={}", note::replace(&before, &summary.to_string()));
            tools::run("scontrol", &["update", &target, &extra])?;
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum HealthChange {
    Drain(String),
    Resume,
}

/// What is to become of a node of which Slurm says this.
fn change(record: &str, fault: Option<&str>) -> Option<HealthChange> {
    let state = tools::field(record, "State").unwrap_or_default();
    let is_drained = state.contains("DRAIN");
    let is_own = tools::field(record, "Reason").is_some_and(|reason| reason.starts_with(OWN));
    match fault {
        Some(why) if !is_drained => Some(HealthChange::Drain(why.to_owned())),
        None if is_drained && is_own => Some(HealthChange::Resume),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_drain_is_taken_back() {
        let idle = "NodeName=n1 State=IDLE ThreadsPerCore=1";
        let own = "NodeName=n1 State=IDLE+DRAIN Reason=mgb: no mgbd runs [root@2026-01-01T00:00:00]";
        let others = "NodeName=n1 State=MIXED+DRAIN Reason=new disk [root@2026-01-01T00:00:00]";
        let drain = || Some(HealthChange::Drain("no mgbd".to_owned()));
        assert_eq!(change(idle, Some("no mgbd")), drain());
        assert_eq!(change(idle, None), None);
        assert_eq!(change(own, Some("no mgbd")), None);
        assert_eq!(change(own, None), Some(HealthChange::Resume));
        assert_eq!(change(others, Some("no mgbd")), None);
        assert_eq!(change(others, None), None);
    }

    #[test]
    fn a_node_without_a_working_gpu_takes_no_jobs() {
        assert!(
            fault(&Err(anyhow::anyhow!("no mgbd runs")))
                .unwrap()
                .contains("no mgbd")
        );
        assert!(fault(&Ok(NodeView::default())).unwrap().contains("no GPU"));
    }

    fn gpu(fails: Option<&str>, drained: bool) -> GpuView {
        GpuView {
            fails: fails.map(str::to_owned),
            drained,
            ..GpuView::default()
        }
    }

    #[test]
    fn a_node_whose_gpus_all_fail_takes_no_jobs_and_says_why() {
        let node = |gpus: Vec<GpuView>| {
            Ok(NodeView {
                gpus,
                ..NodeView::default()
            })
        };
        let ill = || gpu(Some("Xid 95: an uncontained memory error"), true);
        let lost = GpuView {
            lost: true,
            ..gpu(None, false)
        };
        let why = fault(&node(vec![ill(), lost])).unwrap();
        assert!(
            why.contains("Xid 95: an uncontained memory error") && why.contains("lost"),
            "{why}"
        );
        // One works, one was drained by a person, and one is used all the same.
        assert_eq!(fault(&node(vec![ill(), gpu(None, false)])), None);
        assert_eq!(fault(&node(vec![ill(), gpu(None, true)])), None);
        assert_eq!(fault(&node(vec![ill(), gpu(Some("Xid 95"), false)])), None);
    }
}
