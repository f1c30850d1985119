//! Commands that change jobs of the queue, or how it works.

use std::str::FromStr;

use clap::Args;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
use mgb_command::table::plural;
use mgb_queue::id::{JobId, Selection};
use mgb_queue::protocol::{Edit, Places, Request};
use mgb_queue::record::Dependency;

use super::connect;
use super::select::{Which, shown};
use crate::deadline;
use crate::parallel::Parallel;

/// End jobs that run, and never start those that wait.
///
/// A job that runs gets SIGTERM with all that it started, and SIGKILL ten seconds later.
#[derive(Debug, Args)]
pub struct Cancel {
    #[command(flatten)]
    which: Which,
    /// All jobs that have not ended.
    #[arg(long)]
    all: bool,
}

/// Do not start jobs that wait, until they are released.
#[derive(Debug, Args)]
pub struct Hold {
    #[command(flatten)]
    which: Which,
    /// All jobs that wait.
    #[arg(long)]
    all: bool,
}

/// Let jobs start that were held.
#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    which: Which,
    /// All jobs that are held.
    #[arg(long)]
    all: bool,
}

/// Change what was asked for of jobs that have not ended. For one that runs, it counts from its next attempt.
#[derive(Debug, Args)]
pub struct EditArgs {
    #[command(flatten)]
    which: Which,
    /// Jobs with a higher priority start first.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// How long it may run, such as 90s or 1h30m; none: as long as it likes.
    #[arg(long, value_name = "SPAN", value_parser = limit)]
    limit: Option<f64>,
    /// How often it is run again after it has failed.
    #[arg(long, value_name = "COUNT")]
    retries: Option<u32>,
    /// What it is called.
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,
    /// The jobs that it follows, however they end, in place of those given before.
    #[arg(long, value_name = "JOB")]
    after: Vec<Selection>,
    /// The jobs that it follows if they end well, in place of those given before.
    #[arg(long, value_name = "JOB")]
    after_ok: Vec<Selection>,
    /// How many elements of its array run at once at most; 0: any number.
    #[arg(long, value_name = "COUNT")]
    at_once: Option<u32>,
}

/// Forget jobs that have ended, and remove their logs.
///
/// Jobs are kept that others follow which wait.
#[derive(Debug, Args)]
pub struct Clean {
    #[command(flatten)]
    which: Which,
    /// All jobs that have ended.
    #[arg(long)]
    all: bool,
}

/// Set how many jobs run at once.
#[derive(Debug, Args)]
pub struct PlacesArgs {
    /// A number, or auto: as many as the node can use.
    #[arg(value_name = "N|auto")]
    places: Parallel,
}

/// End the queue's service; jobs that run go on, and the next command starts it anew.
#[derive(Debug, Args)]
pub struct Stop {}

/// Runs `mgb queue cancel`.
pub fn cancel(args: &Cancel) -> CommandResult {
    done(&Request::Cancel(args.which.some(args.all)?), "cancelled")
}

/// Runs `mgb queue hold`.
pub fn hold(args: &Hold) -> CommandResult {
    done(&Request::Hold(args.which.some(args.all)?), "held")
}

/// Runs `mgb queue release`.
pub fn release(args: &Release) -> CommandResult {
    done(&Request::Release(args.which.some(args.all)?), "released")
}

/// Runs `mgb queue edit`.
pub fn edit(args: &EditArgs) -> CommandResult {
    let after = dependencies(&args.after, &args.after_ok);
    let edit = Edit {
        priority: args.priority,
        limit_s: args.limit,
        retries: args.retries,
        name: args.rename.clone(),
        after: (!after.is_empty()).then_some(after),
        array_most: args.at_once,
    };
    done(&Request::Edit(args.which.some(false)?, edit), "changed")
}

/// Runs `mgb queue clean`.
pub fn clean(args: &Clean) -> CommandResult {
    done(&Request::Clean(args.which.some(args.all)?), "forgotten")
}

/// Runs `mgb queue places`.
pub fn places(args: &PlacesArgs) -> CommandResult {
    let places = Some(match args.places {
        Parallel::Auto => Places::Auto,
        Parallel::Count(count) => Places::Count(count),
    });
    connect::changed(&Request::Settings {
        is_paused: None,
        places,
    })?;
    Ok(exit::OK)
}

/// Runs `mgb queue stop`.
pub fn stop(_: &Stop) -> CommandResult {
    match connect::running().code(exit::NODE)? {
        None => out::print("no service runs\n"),
        Some(service) => {
            service.stop(connect::SERVICE_LIMIT).code(exit::NODE)?;
            out::print("stopped; jobs that run go on\n");
        }
    }
    Ok(exit::OK)
}

fn done(request: &Request, what: &str) -> CommandResult {
    let ids = connect::changed(request)?;
    Ok(say(&ids, what))
}

/// Says which jobs were changed.
pub fn say(ids: &[JobId], what: &str) -> u8 {
    if ids.is_empty() {
        mgb_command::tell!("mgb queue: no such job to be {what}; `mgb queue list --all` shows them");
        return exit::FAILED;
    }
    out::print(&format!("{what} {}: {}\n", plural(ids.len(), "job"), shown(ids)));
    exit::OK
}

/// The jobs that another follows.
pub fn dependencies(after: &[Selection], after_ok: &[Selection]) -> Vec<Dependency> {
    let of = |jobs: &[Selection], ended_well| {
        let each = jobs.iter().map(move |jobs| Dependency {
            jobs: *jobs,
            ended_well,
        });
        each.collect::<Vec<_>>()
    };
    [of(after, false), of(after_ok, true)].concat()
}

/// A time limit in seconds; `none`: 0.
pub fn limit(text: &str) -> Result<f64, String> {
    if text == "none" {
        return Ok(0.0);
    }
    if let Ok(seconds) = f64::from_str(text) {
        let hint = format!("`{text}` has no unit: write {seconds}s, {seconds}m or {seconds}h");
        return Err(hint);
    }
    let span = deadline::length(text).map(|span| span.as_secs_f64());
    span.ok_or_else(|| format!("`{text}` is no span such as 90s or 1h30m (ms, s, m, h, d)"))
}
