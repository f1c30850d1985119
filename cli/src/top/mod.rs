//! `mgb top`: the node as it is, again and again, with keys to end, suspend and move programs.

mod act;
mod gpu_lines;
mod grid;
mod jobs;
mod palette;
mod rows;
mod screen;
mod sizes;
mod state;
mod tables;
mod terminal;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::anyhow;
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::out;
use mgb_probe::socket_path;
use ratatui::crossterm::terminal::size;

use self::jobs::own_jobs;
use self::palette::Palette;
use self::state::TopState;
use crate::look::look;

/// How wide a frame for scripts is where nothing says how wide it can be.
const ONCE_WIDTH: usize = 120;

const HELP: &str = "\
Keys: up and down select; x ends the selected process by SIGTERM after a question, s suspends and resumes it, m moves it to \
another GPU; o changes the order; b shows your jobs in the queue, u users; ? shows all keys and what the marks mean; q quits.

Colours are those that people who see colours differently tell apart; nothing is said by colour alone. NO_COLOR=1 has \
none, and a locale without UTF-8 gets ASCII.

Exit code: 0; with --once 3 if no mgbd answers.";

/// Show GPUs, tasks, what waits and why, the queue and users, live; end, suspend or move programs.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Print one frame as text, as wide as the terminal or $COLUMNS, with all rows.
    #[arg(long)]
    once: bool,
    /// Seconds between two looks at mgbd.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds: &f64| (0.1..=60.0).contains(seconds));
    seconds.ok_or_else(|| "0.1 to 60 seconds".to_owned())
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let palette = Palette::of_environment();
    if args.once {
        let mut state = TopState::new();
        state.saw(Ok(look(&socket_path()).code(exit::NODE)?), own_jobs());
        out::print(&screen::text(&state, once_width(), palette));
        return Ok(exit::OK);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let error =
            anyhow!("standard input and output are to be a terminal; --once prints one frame anywhere");
        return Err(Failure::new(exit::USAGE, error));
    }
    let every = Duration::from_secs_f64(args.interval);
    terminal::interact(&socket_path(), every, palette).code(exit::NODE)?;
    Ok(exit::OK)
}

fn once_width() -> usize {
    let of_shell = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let of_terminal = || {
        let is_terminal = std::io::stdout().is_terminal();
        is_terminal
            .then(size)?
            .ok()
            .map(|(columns, _)| usize::from(columns))
    };
    let width = of_shell.or_else(of_terminal).filter(|columns| *columns > 0);
    width.unwrap_or(ONCE_WIDTH).clamp(20, 1000)
}

#[cfg(test)]
mod tests;
