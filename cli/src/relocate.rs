//! `mgb move`: a running program goes on, on another GPU.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use mgb_command::daemon;
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::node;
use mgb_command::out;
use mgb_probe::view::{NodeView, TaskState};
use mgb_probe::{Changed, Client, socket_path};
use serde::Serialize;

const HELP: &str = "\
The program is not stopped: what it has given to its GPU finishes first, its memory is copied from GPU to GPU, keeping \
its addresses, and its next call runs on the other one. Room is reserved there before anything is copied.

Only tasks of which the compiler has proven that nothing in their data depends on the GPU can move (`mgb explain` says \
which they are, and why not). mgbd moves them by itself where that evens out the work, or makes room for who waits; it \
may move this one again.

Exit code: 0 when the program is on that GPU, 1 if it has to stay where it is or there is no such process, 2 if there \
is no such GPU, 3 if no mgbd answers.";

/// Between two looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// Move a running program to another GPU.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The process, as `mgb status` shows it.
    #[arg(value_name = "PID")]
    pid: u32,
    /// The GPU where it is to go, by its number in `mgb status`, or its UUID.
    #[arg(value_name = "GPU")]
    gpu: String,
    /// How long to wait until it is there.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Print what came of it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Moved {
    pid: u32,
    gpu: u32,
    /// It is there.
    moved: bool,
    /// It was there before.
    was_there: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let client = Client::observe(&socket_path())
        .map_err(daemon::way_out)
        .code(exit::NODE)?;
    let gpu = node::gpu_number(&args.gpu, &client).code(exit::USAGE)?;
    let pid = args.pid;
    let was_there = match client.move_to(pid, gpu).code(exit::FAILED)? {
        Changed::Now => false,
        Changed::Before => true,
        Changed::Unknown => {
            let error = anyhow!(
                "mgbd knows no process {pid}: it has ended, has used no GPU yet, or does not use MGB"
            );
            return Err(Failure::new(exit::FAILED, error));
        }
    };
    let patience = Duration::from_secs(args.timeout);
    let moved = was_there
        || match wait_until_there(&client, pid, gpu, patience).code(exit::NODE)? {
            Stands::There => true,
            Stands::Elsewhere => false,
            Stands::Ended => return Err(Failure::new(exit::FAILED, anyhow!("process {pid} has ended"))),
        };
    if args.json {
        let document = Moved {
            pid,
            gpu,
            moved,
            was_there,
        };
        out::print(&out::json(&document).code(exit::NODE)?);
    } else if was_there {
        out::print(&format!("process {pid} is on GPU {gpu} already\n"));
    } else if moved {
        out::print(&format!("process {pid} goes on, on GPU {gpu}\n"));
    }
    if moved {
        return Ok(exit::OK);
    }
    Err(Failure::new(
        exit::FAILED,
        anyhow!("{}", why_elsewhere(pid, gpu, patience)),
    ))
}

/// Why a process may not be there yet.
pub fn why_elsewhere(pid: u32, gpu: u32, after: Duration) -> String {
    format!(
        "process {pid} is not on GPU {gpu} after {} s: its GPU did not come to rest, or something ties it there; try \
         again",
        after.as_secs()
    )
}

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// On the GPU that is meant, with all its tasks.
    There,
    /// On another one, or on its way.
    Elsewhere,
    /// It has ended.
    Ended,
}

/// Waits until a process is on a GPU, or has ended, for so long at most.
///
/// # Errors
/// mgbd's view cannot be read.
pub fn wait_until_there(client: &Client, pid: u32, gpu: u32, patience: Duration) -> anyhow::Result<Stands> {
    let start = Instant::now();
    loop {
        match stands(&client.status()?, pid, gpu) {
            Stands::Elsewhere if start.elapsed() < patience => std::thread::sleep(CHECK_INTERVAL),
            stands => return Ok(stands),
        }
    }
}

fn stands(view: &NodeView, pid: u32, gpu: u32) -> Stands {
    let mut tasks = view.tasks.iter().filter(|task| task.pid == pid).peekable();
    if tasks.peek().is_none() {
        if view.cut.tasks > 0 {
            return Stands::Elsewhere;
        }
        return Stands::Ended;
    }
    let is_there = tasks.all(|task| task.gpu == gpu && task.state != TaskState::Moving);
    if is_there {
        Stands::There
    } else {
        Stands::Elsewhere
    }
}
