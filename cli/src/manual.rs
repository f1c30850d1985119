//! `mgb completions` and `mgb man`: made from the command line's own description.

use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;

/// Print the completions of mgb for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: mgb completions bash > ~/.local/share/bash-completion/completions/mgb")]
pub struct Completions {
    /// The shell that completes.
    shell: Shell,
}

/// Print mgb's manual page, or write the pages of all commands into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mgb man | man -l -\n  mgb man ~/.local/share/man/man1")]
pub struct Man {
    /// The folder for the pages of all commands.
    folder: Option<PathBuf>,
}

/// Runs `mgb completions` for the command line `mgb`.
pub fn completions(args: &Completions, mut mgb: Command) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut mgb, "mgb", &mut script);
    out::print(&String::from_utf8_lossy(&script));
    Ok(exit::OK)
}

/// Runs `mgb man` for the command line `mgb`.
pub fn man(args: &Man, mgb: Command) -> CommandResult {
    match &args.folder {
        Some(folder) => {
            let written =
                std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(mgb, folder));
            written
                .with_context(|| format!("failed to write pages into {}", folder.display()))
                .code(exit::USAGE)?;
            Ok(exit::OK)
        }
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(mgb).render(&mut page);
            rendered.context("failed to make the page").code(exit::USAGE)?;
            out::print(&String::from_utf8_lossy(&page));
            Ok(exit::OK)
        }
    }
}
