//! The lower bound on a mix's makespan, from what its jobs take alone: no schedule is shorter than the
//! busiest resource needs, or than the longest job. And one on the mean turnaround: by the time that so many
//! jobs have ended, each resource has done at least what as many of the smallest need of it, and a job that
//! takes as long as the longest of the shortest as many is over.
//!
//! A kernel counts as one that fills its GPU. Kernels that do not may overlap under MPS, and a schedule may
//! then beat the term `kernels`; the term is said beside the bound, so that this can be seen.

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
    /// Seconds of copies from GPUs to the host.
    pub copies_out_s: f64,
    /// The longest job.
    pub longest_s: f64,
    /// The lower bound on the mean turnaround; 0: from before there was one.
    #[serde(default)]
    pub turnaround_s: f64,
    /// Jobs that do not say where their time goes: they count in `longest_s` only, so that the bound is lower
    /// than it could be.
    pub unknown: usize,
}

impl Bound {
    /// Of these jobs.
    pub fn of(jobs: &[Alone], node: Resources) -> Self {
        let sum = |of: fn(&Profile) -> f64| -> f64 {
            jobs.iter().filter_map(|job| job.profile.as_ref()).map(of).sum()
        };
        let (gpus, cores) = (node.gpus.max(1) as f64, node.cores.max(1) as f64);
        let kernels = ends(jobs, gpus, |profile| profile.kernels_s);
        let host = ends(jobs, cores, |profile| profile.host_s);
        let copies_in = ends(jobs, gpus, |profile| copies(profile).0);
        let copies_out = ends(jobs, gpus, |profile| copies(profile).1);
        let mut walls: Vec<f64> = jobs.iter().map(|job| job.wall_s).collect();
        walls.sort_by(f64::total_cmp);
        let end = |at: usize| [&kernels, &host, &copies_in, &copies_out].map(|ends| ends[at]);
        let end = |at: usize| end(at).into_iter().fold(walls[at], f64::max);
        let all: f64 = (0..jobs.len()).map(end).sum();
        Self {
            kernels_s: sum(|profile| profile.kernels_s) / gpus,
            host_s: sum(|profile| profile.host_s) / cores,
            copies_in_s: sum(|profile| copies(profile).0) / gpus,
            copies_out_s: sum(|profile| copies(profile).1) / gpus,
            longest_s: jobs.iter().map(|job| job.wall_s).fold(0.0, f64::max),
            turnaround_s: all / jobs.len().max(1) as f64,
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

/// When the first job, the first two, ... can have ended at the earliest by what they need of one resource,
/// of which there are so many: the smallest first.
fn ends(jobs: &[Alone], units: f64, needs: fn(&Profile) -> f64) -> Vec<f64> {
    let mut needs: Vec<f64> = jobs
        .iter()
        .map(|job| job.profile.as_ref().map_or(0.0, needs))
        .collect();
    needs.sort_by(f64::total_cmp);
    let mut done = 0.0;
    let ends = needs.iter().map(|need| {
        done += need;
        done / units
    });
    ends.collect()
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
    fn turnaround_is_bound_by_jobs_and_by_resources() {
        let node = |gpus| Resources { gpus, cores: 64 };
        let job = |wall_s, kernels_s| alone(wall_s, 0.0, kernels_s, 0.0, (0, 0));
        // On one GPU the kernels end after 4, 8 and 12 s at the earliest, on four no job waits.
        let equal = [job(5.0, 4.0); 3];
        assert_eq!(Bound::of(&equal, node(1)).turnaround_s, (5.0 + 8.0 + 12.0) / 3.0);
        assert_eq!(Bound::of(&equal, node(4)).turnaround_s, 5.0);
        // The short one can be the first, whatever the order here.
        let mixed = [job(9.0, 8.0), job(2.0, 1.0)];
        assert_eq!(Bound::of(&mixed, node(1)).turnaround_s, (2.0 + 9.0) / 2.0);
        assert_eq!(Bound::of(&[], node(1)).turnaround_s, 0.0);
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
