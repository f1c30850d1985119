//! The lower bound on a mix's makespan, from what its jobs take alone: no schedule is shorter than the busiest resource
//! needs, or than the longest job.
//!
//! A kernel counts as one that fills its GPU. Kernels that do not may overlap under MPS, and a schedule may then beat the
//! term `kernels`; the term is said beside the bound, so that this can be seen.

use serde::{Deserialize, Serialize};

use super::profile::Profile;

/// One job alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// Seconds from its start to its end.
    pub wall_s: f64,
    /// Where they went, if it says so.
    pub profile: Option<Profile>,
}

/// What a node has of each resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resources {
    /// GPUs, each with a link that has an engine a direction.
    pub gpus: usize,
    /// Cores that jobs may use.
    pub cores: usize,
}

/// The bound and its terms, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Kernel time over GPUs.
    pub kernels_s: f64,
    /// Host phases over cores. A host phase counts as one core.
    pub host_s: f64,
    /// Copies to devices over links,
    pub copies_in_s: f64,
    /// and back.
    pub copies_out_s: f64,
    /// The longest job.
    pub longest_s: f64,
    /// Jobs that do not say where their time goes: they count in `longest_s` only, so that the bound is lower than it
    /// could be.
    pub unknown: usize,
}

impl Bound {
    /// Of these jobs.
    pub fn of(jobs: &[Alone], node: Resources) -> Self {
        let sum = |of: fn(&Profile) -> f64| -> f64 {
            jobs.iter().filter_map(|job| job.profile.as_ref()).map(of).sum()
        };
        let gpus = node.gpus.max(1) as f64;
        Self {
            kernels_s: sum(|profile| profile.kernels_s) / gpus,
            host_s: sum(|profile| profile.host_s) / node.cores.max(1) as f64,
            copies_in_s: sum(|profile| copies(profile).0) / gpus,
            copies_out_s: sum(|profile| copies(profile).1) / gpus,
            longest_s: jobs.iter().map(|job| job.wall_s).fold(0.0, f64::max),
            unknown: jobs.iter().filter(|job| job.profile.is_none()).count(),
        }
    }

    /// The bound: the greatest of the terms.
    pub fn seconds(&self) -> f64 {
        self.terms()
            .iter()
            .map(|(_, seconds)| *seconds)
            .fold(0.0, f64::max)
    }

    /// Which term that is.
    pub fn busiest(&self) -> &'static str {
        let terms = self.terms();
        let greatest = terms.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        greatest.map_or("", |(name, _)| name)
    }

    fn terms(&self) -> [(&'static str, f64); 5] {
        [
            ("kernels", self.kernels_s),
            ("host", self.host_s),
            ("copies in", self.copies_in_s),
            ("copies out", self.copies_out_s),
            ("longest job", self.longest_s),
        ]
    }
}

/// Seconds of copies in and out: the clock tells them together, the bytes tell them apart.
fn copies(profile: &Profile) -> (f64, f64) {
    let all = (profile.bytes_in + profile.bytes_out) as f64;
    if all == 0.0 {
        return (0.0, 0.0);
    }
    let inwards = profile.copies_s * profile.bytes_in as f64 / all;
    (inwards, profile.copies_s - inwards)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(wall_s: f64, host_s: f64, kernels_s: f64, copies_s: f64, bytes: (u64, u64)) -> Alone {
        Alone {
            wall_s,
            profile: Some(Profile {
                host_s,
                kernels_s,
                copies_s,
                bytes_in: bytes.0,
                bytes_out: bytes.1,
                ..Profile::default()
            }),
        }
    }

    #[test]
    fn the_busiest_resource_bounds() {
        let node = |gpus, cores| Resources { gpus, cores };
        let job = alone(10.0, 6.0, 3.0, 1.0, (300, 100));
        let many = [job; 16];
        let bound = Bound::of(&many, node(2, 8));
        assert_eq!(
            (
                bound.kernels_s,
                bound.host_s,
                bound.copies_in_s,
                bound.copies_out_s
            ),
            (24.0, 12.0, 6.0, 2.0)
        );
        assert_eq!((bound.seconds(), bound.busiest()), (24.0, "kernels"));
        assert_eq!(Bound::of(&many, node(4, 2)).busiest(), "host");
        let few = Bound::of(&many[..2], node(4, 64));
        assert_eq!((few.seconds(), few.busiest()), (10.0, "longest job"));
        let copying = Bound::of(&[alone(5.0, 0.0, 0.0, 4.0, (0, 9)); 8], node(2, 64));
        assert_eq!((copying.seconds(), copying.busiest()), (16.0, "copies out"));
    }

    #[test]
    fn jobs_that_say_nothing_count_by_their_length() {
        let silent = Alone {
            wall_s: 7.0,
            profile: None,
        };
        let bound = Bound::of(&[silent; 3], Resources { gpus: 1, cores: 1 });
        assert_eq!((bound.seconds(), bound.unknown), (7.0, 3));
        assert_eq!(Bound::of(&[], Resources { gpus: 0, cores: 0 }).seconds(), 0.0);
    }
}
