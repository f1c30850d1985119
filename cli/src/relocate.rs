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
    let (pid, start) = (args.pid, Instant::now());
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
    let moved = loop {
        let view = client.status().code(exit::NODE)?;
        match stands(&view, pid, gpu) {
            _ if was_there => break true,
            Stands::There => break true,
            Stands::Ended => return Err(Failure::new(exit::FAILED, anyhow!("process {pid} has ended"))),
            Stands::Elsewhere if start.elapsed() >= patience => break false,
            Stands::Elsewhere => std::thread::sleep(CHECK_INTERVAL),
        }
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
    let error = anyhow!(
        "process {pid} is not on GPU {gpu} after {} s: its GPU did not come to rest, or something ties it there; try \
         again",
        args.timeout
    );
    Err(Failure::new(exit::FAILED, error))
}

/// Where a process is.
enum Stands {
    There,
    Elsewhere,
    Ended,
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
