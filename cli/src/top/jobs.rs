//! The user's own jobs in the queue.

use mgb_command::table::plural;
use mgb_queue::protocol::{Answer, JobFilter, Listing, Request};
use mgb_queue::record::JobState;
use ratatui::text::{Line, Span};

use super::grid::cut;
use super::palette::{Palette, Role};
use super::state::TopState;
use crate::queue;

/// The user's jobs that have not ended. `None`: no service of the queue runs, or it cannot be asked; none is started
/// for who only looks.
pub(super) fn own_jobs() -> Option<Listing> {
    let mut service = queue::running().ok()??;
    let states = JobState::ALL.map(|(_, state)| state);
    let filter = JobFilter {
        states: states.into_iter().filter(|state| !state.is_final()).collect(),
        ..JobFilter::default()
    };
    match service.ask(&Request::List(filter)).ok()? {
        Answer::Listing(listing) => Some(*listing),
        _ => None,
    }
}

/// How many jobs there are, for the first line: nothing where there are none.
pub(super) fn said_of_jobs(state: &TopState) -> String {
    let (runs, waits) = (state.jobs_in(JobState::Running), state.jobs_in(JobState::Queued));
    match runs + waits {
        0 => String::new(),
        all => format!(", {} of yours ({runs} running)", plural(all, "job")),
    }
}

/// The head of their table, and its lines; none where there are no jobs.
pub(super) fn job_lines(
    state: &TopState,
    width: usize,
    palette: Palette,
) -> (Line<'static>, Vec<Line<'static>>) {
    let tasks = state.view.as_ref().map_or(&[][..], |view| &view.tasks);
    let jobs = state.jobs.as_ref().filter(|listing| !listing.jobs.is_empty());
    let text = jobs.map(|listing| queue::table(listing, tasks, false));
    let text = text.unwrap_or_else(|| "job".to_owned());
    let mut lines = text.lines().map(|line| cut(line, width, palette));
    let head = Line::from(Span::styled(
        lines.next().unwrap_or_default(),
        palette.style(Role::Head),
    ));
    let mut lines: Vec<Line<'static>> = lines.map(Line::raw).collect();
    let paused = jobs.filter(|listing| listing.settings.is_paused);
    let paused = paused.map(|_| "the queue is paused: `mgb queue resume` has it start jobs".to_owned());
    let trouble = jobs.and_then(|listing| listing.trouble.as_ref());
    let trouble = trouble.map(|trouble| format!("no job is started: {trouble}"));
    for said in paused.into_iter().chain(trouble) {
        lines.push(Line::from(Span::styled(
            cut(&said, width, palette),
            palette.style(Role::Bad),
        )));
    }
    (head, lines)
}
