//! The commands of Slurm that ask for a job: what differs between their command lines.

use std::os::unix::process::CommandExt;
use std::process::Command;

use mgb_command::exit::{self, CommandResult, WithCode};

/// Long options that take no value, or one behind `=` only: of all three, of Slurm 22.05 to 24.11. None takes
/// a value in one of them and none in another, but for `wait`.
const PLAIN_WORDS: [&str; 51] = [
    "async",
    "bcast",
    "bell",
    "compress",
    "contiguous",
    "disable-status",
    "exact",
    "exclusive",
    "external-launcher",
    "get-user-env",
    "help",
    "hold",
    "ignore-pbs",
    "immediate",
    "interactive",
    "kill-command",
    "kill-on-bad-exit",
    "label",
    "multi-prog",
    "nice",
    "no-allocate",
    "no-bell",
    "no-kill",
    "no-requeue",
    "no-shell",
    "oom-kill-step",
    "overcommit",
    "overlap",
    "oversubscribe",
    "parsable",
    "preserve-env",
    "print",
    "propagate",
    "pty",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "requeue",
    "resv-ports",
    "send-libs",
    "share",
    "spread-job",
    "stepmgr",
    "test-only",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "whole",
    "x11",
];

/// Which of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tool {
    /// Submits a script.
    #[default]
    Sbatch,
    /// Runs a program, in a job of its own.
    Srun,
    /// Has a job for what one runs by hand.
    Salloc,
}

impl Tool {
    /// The name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Sbatch => "sbatch",
            Tool::Srun => "srun",
            Tool::Salloc => "salloc",
        }
    }

    /// The variable that stands for its option `--gres`.
    pub fn gres_variable(self) -> &'static str {
        match self {
            Tool::Sbatch => "SBATCH_GRES",
            Tool::Srun => "SLURM_GRES",
            Tool::Salloc => "SALLOC_GRES",
        }
    }

    /// Whether an option of one letter takes no value, or one right behind it only.
    pub fn is_plain_letter(self, letter: char) -> bool {
        let plain = match self {
            Tool::Sbatch => "HhIkOQsVvW",
            Tool::Srun => "EHhIKklOQsuVvXZ",
            Tool::Salloc => "HhIKkOQsVv",
        };
        plain.contains(letter)
    }

    /// Whether what follows such a letter in its word is its value.
    pub fn may_have_value(self, letter: char) -> bool {
        letter == 'I' || letter == 'K'
    }

    /// Whether a long option takes no value, or one behind `=` only.
    pub fn is_plain_word(self, name: &str) -> bool {
        PLAIN_WORDS.contains(&name) || name == "wait" && self == Tool::Sbatch
    }

    /// Runs it in this process's place. Returns only where that fails.
    pub fn exec(self, arguments: &[String]) -> CommandResult {
        let name = self.name();
        let error = Command::new(name).args(arguments).exec();
        let why = format!("failed to run {name}: is this a machine of a Slurm cluster?");
        Err(anyhow::Error::new(error).context(why)).code(exit::RUN_NOT_FOUND)
    }
}
