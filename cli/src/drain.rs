//! `mgb drain`: a GPU takes nobody any more, and empties.

use std::time::Duration;

use mgb_command::daemon;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::node;
use mgb_command::out;
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{LeavingView, NodeView};
use mgb_probe::{Changed, Client, OrderError, socket_path};
use serde::Serialize;

use crate::wait_evicted::{self, Remaining};

const HELP: &str = "\
New programs go to other GPUs; what can only run on this one waits until the drain ends, as does everything where \
all GPUs are drained. Programs that are there go on while they are at work, to their end or until they go idle; the \
memory of an idle one goes to the host, and comes back to this GPU after the drain.

A drained GPU has no memory of any task. A small context of each program that is to come back to it stays there; \
mgbd keeps the GPU drained until `mgb drain GPU --end`, or until mgbd ends.

Exit code: 0 when the GPU is empty, 1 if it is not after --timeout, 2 if there is no such GPU, 3 if no mgbd answers.";

/// Keep new programs off a GPU, and wait until it is empty.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The GPU, by its number in `mgb status`, or its UUID.
    #[arg(value_name = "GPU")]
    gpu: String,
    /// Have it used again.
    #[arg(long, conflicts_with_all = ["no_wait", "timeout"])]
    end: bool,
    /// Do not wait until it is empty.
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for that [default: as long as it takes].
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_wait")]
    timeout: Option<u64>,
    /// Print what came of it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Drained {
    gpu: u32,
    /// It is empty, and nobody is admitted.
    drained: bool,
    left_bytes: u64,
    /// Who is still there.
    leaving: Vec<LeavingView>,
}

/// What `--end --json` prints.
#[derive(Serialize)]
struct Ended {
    gpu: u32,
    /// False: it was not drained.
    was_drained: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let client = Client::observe(&socket_path())
        .map_err(daemon::way_out)
        .code(exit::NODE)?;
    let gpu = node::gpu_number(&args.gpu, &client).code(exit::USAGE)?;
    let is_unknown = |changed: Result<Changed, OrderError>| match changed.code(exit::NODE)? {
        Changed::Unknown => Err(node::unknown_gpu(&args.gpu, &client)).code(exit::USAGE),
        changed => Ok(changed),
    };
    if args.end {
        let was_drained = is_unknown(client.end_drain(gpu))? == Changed::Now;
        out::print(&if args.json {
            out::json(&Ended { gpu, was_drained }).code(exit::NODE)?
        } else if was_drained {
            format!("GPU {gpu} is used again\n")
        } else {
            format!("GPU {gpu} was not drained\n")
        });
        return Ok(exit::OK);
    }
    is_unknown(client.drain(gpu))?;
    let patience = if args.no_wait {
        Some(Duration::ZERO)
    } else {
        args.timeout.map(Duration::from_secs)
    };
    let doing = format!("draining GPU {gpu}");
    let (_, left) = wait_evicted::wait(&doing, patience, |view| left(view, gpu)).code(exit::NODE)?;
    let (bytes, is_drained) = (left.bytes(), left.is_none());
    if args.json {
        let document = Drained {
            gpu,
            drained: is_drained,
            left_bytes: bytes,
            leaving: left.what,
        };
        out::print(&out::json(&document).code(exit::NODE)?);
    } else if is_drained {
        out::print(&format!(
            "GPU {gpu} is drained; `mgb drain {gpu} --end` has it used again\n"
        ));
    } else {
        let mut said = format!("GPU {gpu} is draining: {} left\n", Bytes(bytes));
        for one in &left.what {
            said.push_str(&wait_evicted::sentence(std::slice::from_ref(one)));
            said.push('\n');
        }
        if left.is_cut {
            said.push_str(wait_evicted::CUT);
            said.push('\n');
        }
        out::print(&said);
    }
    Ok(if is_drained || args.no_wait {
        exit::OK
    } else {
        exit::FAILED
    })
}

/// What the GPU still has.
fn left(view: &NodeView, gpu: u32) -> Remaining {
    let what = view.leaving.iter().filter(|left| left.gpu == gpu);
    let own = view.gpus.iter().find(|one| one.gpu.index == gpu);
    Remaining {
        what: what.cloned().collect(),
        reclaiming: own.map_or(0, |own| own.reclaiming_bytes),
        is_cut: !view.cut.shows_all_that_leaves(),
    }
}
