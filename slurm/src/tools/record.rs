//! What stands in a job's AdminComment: `mgb{n1 peak_mib=12 gpu_peak_mib=12 waited=0.50s held=2.10s tasks=1;
//! n2 …}`, and at the end of a part `refused_mib=40` where the job wanted more than the node's GPUs have.

use std::fmt;

use mgb_probe::view::JobView;

use super::note;

/// What a job took on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// The node, in small letters.
    pub node: String,
    /// The most MiB of GPU memory at once, of all GPUs together.
    pub peak_mib: u64,
    /// The same of one GPU.
    pub gpu_peak_mib: u64,
    /// MiB of one GPU that it wanted and that no GPU of the node has; 0: it had what it wanted.
    pub refused_mib: u64,
    /// Seconds that its tasks waited for room, added up.
    pub waited: f64,
    /// Seconds that its tasks had a GPU, added up.
    pub held: f64,
    /// Tasks that were granted.
    pub tasks: u64,
}

impl JobRecord {
    /// What mgbd says.
    pub fn of(node: &str, view: &JobView) -> JobRecord {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let seconds = |millis: u64| (millis as f64 / 10.0).round() / 100.0;
        JobRecord {
            node: node.to_lowercase(),
            peak_mib: mib(view.peak_bytes),
            gpu_peak_mib: mib(view.gpu_peak_bytes),
            refused_mib: mib(view.refused_bytes),
            waited: seconds(view.waited_ms),
            held: seconds(view.held_ms),
            tasks: view.tasks,
        }
    }

    fn parse(text: &str) -> Option<JobRecord> {
        let of = |name: &str| note::value(text, name);
        Some(JobRecord {
            node: text.split_whitespace().next()?.to_owned(),
            peak_mib: of("peak_mib")?.parse().ok()?,
            gpu_peak_mib: of("gpu_peak_mib")?.parse().ok()?,
            refused_mib: of("refused_mib").map_or(Some(0), |mib| mib.parse().ok())?,
            waited: of("waited")?.strip_suffix('s')?.parse().ok()?,
            held: of("held")?.strip_suffix('s')?.parse().ok()?,
            tasks: of("tasks")?.parse().ok()?,
        })
    }
}

impl fmt::Display for JobRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} peak_mib={} gpu_peak_mib={} waited={:.2}s held={:.2}s tasks={}",
            self.node, self.peak_mib, self.gpu_peak_mib, self.waited, self.held, self.tasks
        )?;
        match self.refused_mib {
            0 => Ok(()),
            mib => write!(f, " refused_mib={mib}"),
        }
    }
}

/// The records in a comment.
pub fn read(comment: &str) -> Vec<JobRecord> {
    let own = note::read(comment).unwrap_or("");
    own.split(';').filter_map(JobRecord::parse).collect()
}

/// The comment with these records instead of those that it had.
pub fn comment(before: &str, records: &[JobRecord]) -> String {
    let records: Vec<String> = records.iter().map(JobRecord::to_string).collect();
    note::replace(before, &records.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_several_nodes_stand_together() {
        let view = JobView {
            peak_bytes: (12 << 20) + 1,
            gpu_peak_bytes: 12 << 20,
            waited_ms: 504,
            held_ms: 2100,
            tasks: 3,
            ..JobView::default()
        };
        let one = JobRecord::of("N1", &view);
        let two = JobRecord {
            node: "n2".to_owned(),
            ..one.clone()
        };
        let text = comment("project x", std::slice::from_ref(&one));
        assert_eq!(
            text,
            "project x mgb{n1 peak_mib=13 gpu_peak_mib=12 waited=0.50s held=2.10s tasks=3}"
        );
        assert_eq!(read(&text), std::slice::from_ref(&one));
        let two = JobRecord {
            refused_mib: 40,
            ..two
        };
        let both = comment(&text, &[one.clone(), two.clone()]);
        assert_eq!(read(&both), [one, two]);
        assert!(read("").is_empty() && read("mgb{n1 peak_mib=x}").is_empty());
    }
}
