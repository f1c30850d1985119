//! When each part of a launch is stopped, and whether launches are made in parts at all.

use std::sync::OnceLock;
use std::time::Duration;

/// When a part is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// When memory is to leave the GPU, or launches are held for a latency program.
    WhenWanted,
    /// At random, so long after it has begun on average.
    AtRandom(Duration),
    /// Not at all: what a twin costs by itself.
    Never,
}

impl Stops {
    /// What the environment says; none: launches are made as wholes.
    pub fn of_process() -> Option<Stops> {
        static STOPS: OnceLock<Option<Stops>> = OnceLock::new();
        *STOPS.get_or_init(|| Stops::at_random().or_else(Stops::when_wanted))
    }

    fn at_random() -> Option<Stops> {
        let text = std::env::var("MGB_STOP_EVERY").ok()?;
        let milliseconds = text.parse::<f64>().ok();
        match milliseconds.and_then(|number| Duration::try_from_secs_f64(number / 1000.0).ok()) {
            Some(Duration::ZERO) => Some(Stops::Never),
            Some(every) => Some(Stops::AtRandom(every)),
            None => {
                mgb_stderr::say!(
                    "mgb: MGB_STOP_EVERY={text} is no number of milliseconds: no launch is stopped"
                );
                None
            }
        }
    }

    fn when_wanted() -> Option<Stops> {
        let value = std::env::var_os("MGB_RUN_PARTS").unwrap_or_default();
        (!matches!(value.as_encoded_bytes(), b"0" | b"off")).then_some(Stops::WhenWanted)
    }
}
