//! `mgb explain`: what the pass found in an object, a program, an archive or a source.

#[cfg(test)]
mod any_tests;
mod compile;
mod dot;
mod looks;
mod read;
mod reason;
mod render;
#[cfg(test)]
mod samples;
mod svg;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use mgb_catalogue::report::TaskKind;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;

/// Print what the compiler pass found: every GPU task, its operations with source lines, what it needs, and
/// whether it is bound before it runs (static) or at run time (lazy), with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb explain ./app         every task of a program
  mgb explain app.cu -- -O2 -Iinclude
                            a source, compiled with these options for its report alone
  mgb explain app.o --json  one document per module, for scripts
  mgb explain app --svg > app.svg
                            a drawing; open it with a browser
  mgb explain app --dot | dot -Tpdf -o app.pdf
                            the same drawn by Graphviz
  mgb explain --reason address-escapes
                            what a reason means, and what to do about it")]
pub struct Args {
    /// An object file, a program, a shared library or a static archive that mgb clang has made; or a source,
    /// which is compiled for its report.
    #[arg(required_unless_present = "reason")]
    file: Option<PathBuf>,
    /// Print the reports as a JSON array.
    #[arg(long)]
    json: bool,
    /// Draw the tasks as an SVG picture, for a browser: per task a frame with what it needs, its operations
    /// in the order of the source on the left, its memory objects on the right, and a line from each
    /// operation to what it touches.
    #[arg(long, conflicts_with = "json")]
    svg: bool,
    /// Draw the same as text in Graphviz's language DOT, for `dot` and other tools.
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    dot: bool,
    /// Print what a reason means and what the programmer can do, by its name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "json", "svg", "dot"])]
    reason: Option<String>,
    /// Options of clang's for a source, after `--`.
    #[arg(last = true, value_name = "OPTIONS", conflicts_with = "reason")]
    options: Vec<OsString>,
}

/// How many tasks the pass found in a program, and how many of them are lazy; none where it has no report.
pub fn tasks(program: &Path) -> Option<(usize, usize)> {
    let reports = read::reports(program).ok()?;
    let tasks = || reports.iter().flat_map(|report| &report.tasks);
    Some((
        tasks().count(),
        tasks().filter(|task| task.kind == TaskKind::Lazy).count(),
    ))
}

/// Bytes that a program's tasks need at most, whatever its arguments are; `None` where it has no report, or
/// any task needs what only a run can say.
pub fn constant_need(program: &Path) -> Option<u64> {
    let reports = read::reports(program).ok()?;
    let tasks = reports.iter().flat_map(|report| &report.tasks);
    let needs: Option<Vec<u64>> = tasks.map(|task| task.need.as_ref()?.peak.parse().ok()).collect();
    needs?.into_iter().max()
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    if let Some(name) = &args.reason {
        out::print(reason::section(name).code(exit::USAGE)?);
        return Ok(exit::OK);
    }
    let file = args.file.as_deref().unwrap_or(Path::new(""));
    let reports = if compile::is_source(file) && file.exists() {
        let object = compile::compile(file, &args.options)?;
        read::reports_of(&object.path(), file).code(exit::USAGE)?
    } else if args.options.is_empty() {
        read::reports(file).code(exit::USAGE)?
    } else {
        let shown = file.display();
        return Err(anyhow!("options after -- are for a source, and {shown} is none")).code(exit::USAGE);
    };
    let text = if args.json {
        serde_json::to_string_pretty(&reports)
            .map(|text| text + "\n")
            .code(exit::USAGE)?
    } else if args.svg {
        svg::document(&reports)
    } else if args.dot {
        dot::document(&reports)
    } else {
        render::text(&reports)
    };
    out::print(&text);
    Ok(exit::OK)
}
