//! Describes what the threads of a block that hangs wait for.

use super::{Sync, WaitRequests, lanes};

impl Sync {
    /// What each thread waits for, when none can go on.
    pub fn describe(&self, asked: &impl WaitRequests) -> String {
        let mut parts = Vec::new();
        for (id, barrier) in self
            .barriers
            .iter()
            .enumerate()
            .filter(|(_, barrier)| !barrier.waiting.is_empty())
        {
            let expected = if barrier.expected == 0 {
                self.live
            } else {
                barrier.expected
            };
            parts.push(format!(
                "{} of {expected} threads wait at barrier {id}",
                barrier.waiting.len()
            ));
        }
        for (number, warp) in self.warps.iter().enumerate() {
            let mut waiting = warp.grouped | warp.asking;
            while let Some(lane) = lanes(waiting).next() {
                let request = asked.of_warp(number as u32 * 32 + lane);
                let alike = |other: &u32| asked.of_warp(number as u32 * 32 + other).meets(request);
                let together = lanes(waiting)
                    .filter(alike)
                    .fold(0, |set, lane| set | 1u32 << lane);
                let mask = request.mask().unwrap_or(warp.live);
                parts.push(format!(
                    "lanes {together:#010x} of warp {number} wait in {} with mask {mask:#010x}, live lanes {:#010x}",
                    request.name(),
                    warp.live
                ));
                waiting &= !(together | 1 << lane);
            }
        }
        format!(
            "{} of {} threads have ended, {}",
            self.threads - self.live,
            self.threads,
            parts.join("; ")
        )
    }
}
