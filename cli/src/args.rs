//! The command line as a whole; each command's own arguments stand with the command.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::explain;

/// Share the GPUs of this machine between CUDA programs: nobody runs out of memory, and the GPUs stay busy.
#[derive(Debug, Parser)]
#[command(name = "mgb", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compile and link CUDA programs with MGB; takes clang's own command line.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Clang(Clang),
    /// The same as clang, for C++: `CXX=mgb-clang++ make` builds an unchanged project.
    #[command(name = "clang++", disable_help_flag = true, disable_version_flag = true)]
    ClangCxx(Clang),
    Explain(explain::Args),
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
