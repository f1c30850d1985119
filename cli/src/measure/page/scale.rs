//! From times and lengths to positions in a drawing.

use std::time::Duration;

/// Room for names at the left, in the drawing's own units.
pub const LEFT: f64 = 88.0;
/// The width of the plot beside them.
pub const PLOT: f64 = 1000.0;
/// Time to place, the same for every policy.
#[derive(Debug)]
pub struct Scale {
    longest: f64,
}

impl Scale {
    /// With so much time from the left to the right.
    pub fn new(longest: Duration) -> Self {
        Self {
            longest: longest.as_secs_f64().max(1e-3),
        }
    }

    /// Where a moment is.
    pub fn x(&self, at: Duration) -> f64 {
        LEFT + (at.as_secs_f64() / self.longest).min(1.0) * PLOT
    }

    /// Round times, no more than ten of them.
    pub fn ticks(&self) -> Vec<(Duration, String)> {
        let steps = [
            0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0,
        ];
        let fits = |step: &&f64| self.longest / **step <= 10.0;
        let step = steps.iter().find(fits).copied().unwrap_or(self.longest);
        let count = (self.longest / step) as usize;
        let tick = |index: usize| {
            let at = index as f64 * step;
            let label = if step < 1.0 {
                format!("{at:.1} s")
            } else {
                format!("{at:.0} s")
            };
            (Duration::from_secs_f64(at), label)
        };
        (0..=count).map(tick).collect()
    }
}

/// A tenth of a unit is finer than any screen.
pub fn place(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
