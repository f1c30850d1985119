//! The command line as a whole; each command's own arguments stand with the command.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
use mgb_slurm::{cluster, submit};

use crate::{
    batch, bench, container, demo, doctor, drain, explain, history, manual, metrics, queue, quota, relocate,
    run, start_mgbd, status, stop_mgbd, suspend, top, trace, why,
};

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 a job or check failed; 2 wrong usage or an unusable file; 3 no mgbd, GPU, permission or part of \
MGB. `mgb clang` and `mgb nvcc` exit as clang does, `mgb run` as the program does (123, 125 to 127: see `mgb run --help`).";

const LONG_HELP: &str = "\
Start here:
  mgb clang++ app.cu -o app     compile; every clang option works
  mgb clang++ -flto *.cu -o app the same for several files as one: tasks across files are found
  mgb nvcc app.cu -o app        the same with nvcc's options
  mgb run ./app                 run it on a GPU with room for it
  mgb batch jobs.txt            run many, a command a line
  mgb submit -- ./app           the same in a queue that outlives the terminal
  mgb queue                     see it
  mgb status                    see who holds what
  mgb history                   see who has used what, day by day
  mgb metrics                   serve metrics of the node to Prometheus
  mgb why PID                   see why a program waits, is held, or runs where it does
  mgb suspend PID               have a program leave the GPUs until `mgb resume PID`
  mgb move PID GPU              move a running program to another GPU
  mgb drain GPU                 keep new programs off a GPU until `mgb drain GPU --end`
  mgb stop                      stop mgbd; programs that run go on
  mgb doctor ./app              see what works here, what does not, and what to do about it
  mgb bench --quick             measure what sharing gains on this node
  mgb container cdi             have podman, docker or apptainer give containers MGB

Environment:
  MGB_SOCKET         where mgbd listens [default: $XDG_RUNTIME_DIR/mgb/mgbd.sock, else /tmp/mgb-UID/mgbd.sock]
  MGB_SOFTGPU        1: software GPUs, 0: real ones [default: real ones if there are any]
  SOFTGPU_DEVICES    which software GPUs, such as 4x256MiB
  MGB_CLANG          the clang 22 to use        CUDA_PATH  the CUDA 13 to use
  MGB_CUDA_ARCH      the GPU to compile for where none is named, such as sm_90
  MGB_HOST_KERNELS   off: compile no host code for kernels; quicker, and for real GPUs only
  MGB_LEGACY         1: sources may use what CUDA 12 and 13 have dropped
  MGB_PREFIX         MGB's own folder, if it is not above mgb
  MGB                in programs: off (run natively), require (fail without mgbd)

Exit codes: 0 done; 1 a job or check failed; 2 wrong usage or an unusable file; 3 no mgbd, GPU, permission or part of \
MGB. `mgb clang` and `mgb nvcc` exit as clang does, `mgb run` as the program does (123, 125 to 127: see `mgb run --help`).";

/// Share the GPUs of this machine between CUDA programs: no program runs out of memory, and the GPUs stay
/// busy.
#[derive(Debug, Parser)]
#[command(
    name = "mgb",
    version = env!("VERSION_TEXT"),
    max_term_width = 100,
    after_help = EXIT_CODES,
    after_long_help = LONG_HELP
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `mgb`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compile and link CUDA programs with MGB; takes clang's own command line.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Clang(Clang),
    /// The same as clang, for C++: `CXX=mgb-clang++ make` builds an unchanged project.
    #[command(name = "clang++", disable_help_flag = true, disable_version_flag = true)]
    ClangCxx(Clang),
    /// The same with nvcc's command line: `make NVCC=mgb-nvcc` builds an unchanged project.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Nvcc(Nvcc),
    Run(run::Args),
    Batch(batch::Args),
    Submit(Box<queue::SubmitArgs>),
    Queue(queue::QueueArgs),
    Status(status::Args),
    Top(top::Args),
    Trace(trace::Args),
    History(history::Args),
    Why(why::Args),
    Metrics(metrics::Args),
    Quota(quota::Args),
    Suspend(suspend::Suspend),
    Resume(suspend::Resume),
    /// Move a running program to another GPU.
    #[command(name = "move")]
    Move(relocate::Args),
    Drain(drain::Args),
    Stop(stop_mgbd::Args),
    Doctor(doctor::Args),
    Explain(explain::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Container(container::Args),
    Cluster(cluster::Args),
    /// Submit a job to Slurm with as much GPU memory as it needs, which nobody has to say.
    ///
    /// It asks for what earlier runs took, as Slurm's accounting has it: of the same script with the same
    /// arguments in the same folder, else of the script with any. Where there was none, it asks for what the
    /// compiler pass has found in the programs that the script names, else for an eighth of a GPU. What a job
    /// takes beyond that it gets on its node as there is room; it never fails for it.
    #[command(after_help = submit::SBATCH_HELP)]
    Sbatch(submit::Args),
    /// Run a program under Slurm's srun with as much GPU memory as it needs, in the same way as sbatch.
    #[command(after_help = submit::SRUN_HELP)]
    Srun(submit::Args),
    /// Have a job of Slurm's salloc with GPU memory, in the same way as sbatch.
    #[command(after_help = submit::SALLOC_HELP)]
    Salloc(submit::Args),
    Completions(manual::Completions),
    Man(manual::Man),
    #[command(hide = true)]
    StartMgbd(start_mgbd::Args),
    #[command(hide = true)]
    WatchJob(queue::WatchJob),
}

/// clang's command line.
#[derive(Debug, Args)]
pub struct Clang {
    /// What clang takes.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CLANG ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}

/// nvcc's command line.
#[derive(Debug, Args)]
pub struct Nvcc {
    /// What nvcc takes.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "NVCC ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}
