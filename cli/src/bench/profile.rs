//! What a job prints about itself: where its time went, and the checksum of its result.

use serde::{Deserialize, Serialize};

/// Where a workload's time went: seconds by its own clock, and bytes. See `benches/workloads/workload.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// In its first CUDA calls: driver and context.
    pub start_s: f64,
    /// In host phases: input, reference, output, and what the host computes between kernels.
    pub host_s: f64,
    /// In copies, both directions.
    pub copies_s: f64,
    /// Waiting for its kernels.
    pub kernels_s: f64,
    /// Copied to the device,
    pub bytes_in: u64,
    /// Bytes that are copied from GPUs to the host.
    pub bytes_out: u64,
}

/// The profile in a job's log, if it printed one.
pub fn of_log(log: &str) -> Option<Profile> {
    let lines = log.lines().filter(|line| line.starts_with('{'));
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .next_back()
}

/// The checksums in a job's log, in their order; none if it printed none.
pub fn checksums(log: &str) -> Option<String> {
    let words: Vec<&str> = log.split_whitespace().collect();
    let found: Vec<&str> = words
        .windows(2)
        .filter(|pair| pair[0].eq_ignore_ascii_case("checksum"))
        .map(|pair| pair[1])
        .collect();
    (!found.is_empty()).then(|| found.join(" "))
}

/// How a job's result compares with that of the same job alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultMatch {
    /// The same checksum.
    Same,
    /// Another, or none.
    Other,
    /// The program prints none: its exit code is all there is.
    Unchecked,
}

impl ResultMatch {
    /// Compares what a job printed with what it printed alone.
    pub fn compare(alone: Option<&str>, now: Option<&str>) -> Self {
        match (alone, now) {
            (None, _) => Self::Unchecked,
            (Some(alone), Some(now)) if alone == now => Self::Same,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "mgb: a notice\n{\"program\":\"busy\",\"bytes\":1,\"steps\":2,\"start_s\":0.5,\"host_s\":1.25,\
        \"memory_s\":0.1,\"copies_s\":0.25,\"kernels_s\":3.0,\"bytes_in\":100,\"bytes_out\":50}\nbusy: ok, checksum 00C0FFEE\n";

    #[test]
    fn a_log_is_read() {
        let profile = of_log(LOG).unwrap();
        assert_eq!(
            (profile.host_s, profile.kernels_s, profile.bytes_out),
            (1.25, 3.0, 50)
        );
        assert_eq!(checksums(LOG).as_deref(), Some("00C0FFEE"));
        assert_eq!((of_log("{ no\n"), checksums("vecadd: n=3 PASS\n")), (None, None));
    }

    #[test]
    fn results_are_compared_with_those_of_the_job_alone() {
        let compare = ResultMatch::compare;
        assert_eq!(compare(Some("A"), Some("A")), ResultMatch::Same);
        assert_eq!(compare(Some("A"), Some("B")), ResultMatch::Other);
        assert_eq!(compare(Some("A"), None), ResultMatch::Other);
        assert_eq!(compare(None, Some("B")), ResultMatch::Unchecked);
    }
}
