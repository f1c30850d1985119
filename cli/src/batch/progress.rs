//! Shows how a batch goes: a bar on a terminal, plain lines elsewhere. Always on standard error.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mgb_command::table::seconds;

use super::engine::Observer;
use super::jobfile::FileJob;
use super::outcome::{JobOutcome, JobState};

/// A batch's progress.
pub struct BatchProgress {
    bar: Option<ProgressBar>,
    total: usize,
    ended: usize,
    running: usize,
}

impl BatchProgress {
    /// For so many jobs.
    pub fn new(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} jobs, {msg}");
            bar.set_style(
                style
                    .unwrap_or_else(|_| ProgressStyle::default_bar())
                    .progress_chars("=> "),
            );
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            total,
            ended: 0,
            running: 0,
        }
    }

    /// Takes the bar away; what was printed stays.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => mgb_command::tell!("{line}"),
        }
    }

    fn show(&self) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.ended as u64);
            bar.set_message(format!("{} running", self.running));
        }
    }
}

impl Observer for BatchProgress {
    fn started(&mut self, _job: &FileJob) {
        self.running += 1;
        self.show();
    }

    fn ended(&mut self, outcome: &JobOutcome) {
        self.ended += 1;
        // Jobs that could not be started never counted as running.
        self.running = self.running.saturating_sub(usize::from(outcome.log.is_some()));
        if outcome.state != JobState::NotStarted {
            let width = self.total.to_string().len();
            self.say(&format!(
                "[{:>width$}/{}] {}",
                self.ended,
                self.total,
                line(outcome)
            ));
        }
        self.show();
    }

    fn postponed(&mut self, outcome: &JobOutcome) {
        self.running = self.running.saturating_sub(1);
        self.say(&format!("{}; again at the end", line(outcome)));
        self.show();
    }

    fn stopping(&mut self, by_force: bool) {
        let how = if by_force {
            "killing what still runs"
        } else {
            "stopping; press Ctrl-C again to kill"
        };
        self.say(&format!("mgb: {how}"));
    }
}

fn line(outcome: &JobOutcome) -> String {
    let how = match (&outcome.state, &outcome.cause) {
        (JobState::Done, _) => "done".to_owned(),
        (_, Some(cause)) => format!("failed ({})", cause.short()),
        _ => "stopped".to_owned(),
    };
    format!(
        "{how}, {}: {}",
        seconds(outcome.waited + outcome.ran),
        outcome.command
    )
}
