//! The demo's jobs: all examples, with sizes that are parts of what a GPU has.

use std::path::Path;

use anyhow::Result;

use crate::batch::jobfile::FileJob;

/// What the host phases of the jobs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HostPhase {
    /// Real arithmetic on one core.
    Compute,
    /// Sleep, as for a disk.
    Wait,
}

/// One job: an example, and how large it is.
enum DemoJob {
    /// `phases`: holds memory for some rounds of a host phase and a GPU phase.
    Phases { percent: u64, rounds: u64, host_ms: u64 },
    /// An example whose first argument is its number of elements, each of so many bytes at its peak.
    Elements {
        name: &'static str,
        percent: u64,
        bytes_each: u64,
        more: &'static [&'static str],
    },
    /// An example with arguments of its own, whatever the GPU.
    Fixed {
        name: &'static str,
        arguments: &'static [&'static str],
    },
    /// `twotasks`: two tasks, of which each may go where there is room.
    TwoTasks { percent: [u64; 2] },
}

use DemoJob::{Elements, Fixed, Phases, TwoTasks};

const fn phases(percent: u64, rounds: u64, host_ms: u64) -> DemoJob {
    Phases {
        percent,
        rounds,
        host_ms,
    }
}

const fn elements(
    name: &'static str,
    percent: u64,
    bytes_each: u64,
    more: &'static [&'static str],
) -> DemoJob {
    Elements {
        name,
        percent,
        bytes_each,
        more,
    }
}

const fn fixed(name: &'static str, arguments: &'static [&'static str]) -> DemoJob {
    Fixed { name, arguments }
}

/// Memory in percent of a GPU. Most jobs are between a fifth and two fifths: so two or three share a GPU
/// safely, and four sometimes do.
const JOBS: [DemoJob; 26] = [
    phases(38, 3, 800),
    phases(25, 3, 700),
    elements("vecadd", 24, 12, &[]),
    fixed("scan", &["150000"]),
    phases(31, 3, 700),
    phases(20, 4, 500),
    elements("stencil", 20, 8, &["4"]),
    phases(40, 3, 800),
    elements("chain", 22, 8, &[]),
    elements("symbol", 10, 4, &["2"]),
    fixed("matmul", &["200"]),
    phases(28, 3, 650),
    TwoTasks { percent: [20, 16] },
    elements("threads", 24, 64, &["2"]),
    phases(35, 3, 700),
    elements("init_run", 24, 8, &["3"]),
    elements("structs", 8, 64, &["6", "2"]),
    phases(22, 4, 550),
    elements("init_run_split", 20, 8, &["3"]),
    phases(38, 3, 750),
    elements("reduce", 16, 4, &["2"]),
    elements("streams", 12, 4, &["4", "4"]),
    fixed("bfs", &["100000", "4"]),
    elements("devices", 20, 16, &["4"]),
    phases(26, 3, 800),
    elements("unwinding", 20, 8, &["1"]),
];

/// The jobs for GPUs on which `capacity` bytes are free, from the programs in `folder`.
///
/// # Errors
/// When an example is not there.
pub fn list(folder: &Path, capacity: u64, host: HostPhase) -> Result<Vec<FileJob>> {
    let jobs = JOBS.iter().enumerate();
    jobs.map(|(index, kind)| {
        let (name, arguments) = command(kind, capacity, host);
        FileJob::of_own(index + 1, ("example", "examples"), folder, name, arguments)
    })
    .collect()
}

fn command(kind: &DemoJob, capacity: u64, host: HostPhase) -> (&'static str, Vec<String>) {
    // Not capacity * percent: that could pass 64 bits.
    let part = |percent: u64| capacity / 100 * percent;
    match *kind {
        Phases {
            percent,
            rounds,
            host_ms,
        } => {
            let mib = (part(percent) >> 20).max(1);
            let phase = match host {
                HostPhase::Compute => "compute",
                HostPhase::Wait => "wait",
            };
            let (steps, blocks) = ("4", "32");
            let [mib, rounds, host_ms] = [mib, rounds, host_ms].map(|number| number.to_string());
            (
                "phases",
                vec![
                    mib,
                    rounds,
                    host_ms,
                    phase.to_owned(),
                    steps.to_owned(),
                    blocks.to_owned(),
                ],
            )
        }
        Elements {
            name,
            percent,
            bytes_each,
            more,
        } => {
            let n = (part(percent) / bytes_each).max(1);
            (
                name,
                [n.to_string()]
                    .into_iter()
                    .chain(more.iter().map(|&word| word.to_owned()))
                    .collect(),
            )
        }
        Fixed { name, arguments } => (name, arguments.iter().map(|&word| word.to_owned()).collect()),
        // One of its tasks takes 8 bytes an element, and so does the other.
        TwoTasks { percent } => (
            "twotasks",
            percent
                .map(|percent| (part(percent) / 8).max(1).to_string())
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_small_and_large_gpus() {
        let lines = |capacity, host| {
            let line = |kind: &DemoJob| {
                let (name, arguments) = command(kind, capacity, host);
                format!("{name} {}", arguments.join(" "))
            };
            JOBS.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(lines(254 << 20, HostPhase::Wait));
        assert!(lines(16 << 30, HostPhase::Compute).starts_with("phases 6225 3 800 compute"));
    }

    #[test]
    fn a_missing_example_is_named() {
        let error = list(Path::new("/nowhere"), 1 << 28, HostPhase::Wait)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/nowhere/phases is missing") && error.contains("make examples"),
            "{error}"
        );
    }
}
