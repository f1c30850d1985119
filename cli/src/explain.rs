//! `mgb explain`: what the pass found in an object, a program or an archive.

mod read;
mod render;

use std::path::PathBuf;

use crate::exit::{self, Outcome, WithCode};
use crate::out;

/// Print what the compiler pass found: every GPU task, its operations with source lines, what it needs, and whether
/// it is bound before it runs (static) or at run time (lazy), with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb explain ./app         every task of a program
  mgb explain app.o --json  one document per module, for scripts")]
pub struct Args {
    /// An object file, a program, a shared library or a static archive that mgb clang has made.
    file: PathBuf,
    /// Print the reports as a JSON array.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let reports = read::reports(&args.file).code(exit::USAGE)?;
    let text = if args.json {
        serde_json::to_string_pretty(&reports)
            .map(|text| text + "\n")
            .code(exit::USAGE)?
    } else {
        render::text(&reports)
    };
    out::print(&text);
    Ok(exit::OK)
}
