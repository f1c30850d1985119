//! On what a measurement was made: the machine, the build, the settings. What differs is not compared.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use mgb_command::machine::Machine;
use mgb_command::node;
use mgb_command::prefix::Prefix;
use mgb_probe::Hello;
use mgb_probe::byte_size::Bytes;
use serde::{Deserialize, Serialize};

use crate::batch::auto;

/// The facts about a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// `GPU-...`
    pub uuid: String,
    /// The product's name.
    pub name: String,
    /// Bytes of device memory.
    pub total_bytes: u64,
}

/// The facts about a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Software GPUs: the figures show function, never speed.
    pub software: bool,
    /// By mgbd's numbers.
    pub gpus: Vec<GpuFacts>,
    /// The driver's version; none without a driver.
    pub driver: Option<String>,
    /// The processor's name.
    pub cpu: String,
    /// Cores that programs may use.
    pub cores: usize,
    /// Bytes of host memory when the measurement began.
    pub memory_bytes: u64,
}

impl MachineFacts {
    /// Looks at this machine.
    ///
    /// # Errors
    /// When the kernel or the driver does not say.
    pub fn find(machine: &Machine, hello: &Hello) -> Result<Self> {
        let gpus = hello.gpus.iter().map(|gpu| GpuFacts {
            uuid: gpu.uuid.clone(),
            name: gpu.name.clone(),
            total_bytes: gpu.total_bytes,
        });
        let driver = match machine {
            Machine::Soft { .. } => None,
            Machine::Real { .. } => Some(
                node::driver_version().map_err(|why| anyhow::anyhow!("failed to ask the driver: {why}"))?,
            ),
        };
        let cores = std::thread::available_parallelism().context("failed to count cores")?;
        Ok(Self {
            software: machine.is_soft(),
            gpus: gpus.collect(),
            driver,
            cpu: cpu_name(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: cores.get(),
            memory_bytes: auto::memory_total().context("failed to read /proc/meminfo")?,
        })
    }

    /// In a line.
    pub fn describe(&self) -> String {
        let name = self.gpus.first().map_or("no GPU", |gpu| gpu.name.as_str());
        let driver = match &self.driver {
            Some(version) => format!("driver {version}"),
            None => "no driver".to_owned(),
        };
        format!(
            "{} x {name}, {driver}; {} cores ({}), {} of host memory",
            self.gpus.len(),
            self.cores,
            self.cpu,
            Bytes(self.memory_bytes)
        )
    }
}

fn cpu_name(cpuinfo: &str) -> String {
    let names = ["model name", "Model", "CPU part"];
    let line = names
        .iter()
        .find_map(|name| cpuinfo.lines().find(|line| line.starts_with(name)));
    line.and_then(|line| line.split_once(':')).map_or_else(
        || "unknown processor".to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchSettings {
    /// What jobs and their order were drawn from.
    pub seed: u64,
    /// Bytes of a GPU that sizes are parts of: what the ballast leaves, or what there is.
    pub capacity_bytes: u64,
    /// Whether a ballast holds the rest of real GPUs.
    pub ballast: bool,
    /// Whether jobs were profiled strictly one at a time, instead of one a GPU.
    pub alone_on_node: bool,
}

/// The commit that the tools were built from: what the build noted, else what git says of the sources beside.
pub fn commit(prefix: &Prefix) -> String {
    let noted = std::fs::read_to_string(prefix.path().join("share/commit"));
    if let Some(noted) = noted.ok().map(|text| text.trim().to_owned())
        && !noted.is_empty()
    {
        return noted;
    }
    of_git(prefix.path()).unwrap_or_else(|| "unknown".to_owned())
}

fn of_git(folder: &Path) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// On what a document's figures were measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The facts about the machine.
    pub machine: MachineFacts,
    /// What MGB was built from.
    pub commit: String,
    /// What was chosen.
    pub settings: BenchSettings,
}

impl Facts {
    /// What is not the same, each with both values: nothing where measurements can be put together. Host
    /// memory may grow while a virtual machine runs.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, before: String, now: String| {
            if before != now {
                differences.push(format!("{what}: {before} there, {now} here"));
            }
        };
        let gpus = |facts: &Self| {
            let gpus = facts.machine.gpus.iter();
            let names: Vec<String> = gpus
                .map(|gpu| format!("{} {} {}", gpu.uuid, gpu.name, Bytes(gpu.total_bytes)))
                .collect();
            names.join(", ")
        };
        compare("GPUs", gpus(self), gpus(now));
        let driver = |facts: &Self| facts.machine.driver.clone().unwrap_or_else(|| "none".to_owned());
        compare("driver", driver(self), driver(now));
        compare("processor", self.machine.cpu.clone(), now.machine.cpu.clone());
        compare(
            "cores",
            self.machine.cores.to_string(),
            now.machine.cores.to_string(),
        );
        compare("commit", self.commit.clone(), now.commit.clone());
        let (then, here) = (&self.settings, &now.settings);
        compare("seed", then.seed.to_string(), here.seed.to_string());
        compare(
            "capacity",
            then.capacity_bytes.to_string(),
            here.capacity_bytes.to_string(),
        );
        compare("ballast", then.ballast.to_string(), here.ballast.to_string());
        compare(
            "profiled one at a time",
            then.alone_on_node.to_string(),
            here.alone_on_node.to_string(),
        );
        differences
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A machine of two GPUs.
    pub fn facts() -> Facts {
        let gpu = |index: u32| GpuFacts {
            uuid: format!("GPU-{index}"),
            name: "NVIDIA H200".to_owned(),
            total_bytes: 143_771 << 20,
        };
        Facts {
            machine: MachineFacts {
                software: false,
                gpus: vec![gpu(0), gpu(1)],
                driver: Some("580.1".to_owned()),
                cpu: "A processor".to_owned(),
                cores: 32,
                memory_bytes: 256 << 30,
            },
            commit: "c0ffee".to_owned(),
            settings: BenchSettings {
                seed: 1,
                capacity_bytes: 64 << 30,
                ballast: true,
                alone_on_node: false,
            },
        }
    }

    #[test]
    fn what_differs_is_said_with_both_values() {
        let then = facts();
        assert_eq!(then.differences(&then), Vec::<String>::new());
        let mut now = facts();
        now.machine.memory_bytes *= 2;
        assert_eq!(then.differences(&now), Vec::<String>::new());
        now.machine.gpus.pop();
        now.machine.driver = None;
        now.commit = "decaf".to_owned();
        now.settings.seed = 7;
        insta::assert_snapshot!(then.differences(&now).join("\n"));
    }

    #[test]
    fn processors_have_names() {
        assert_eq!(cpu_name("processor : 0\nmodel name\t: A B  C\n"), "A B  C");
        assert_eq!(cpu_name(""), "unknown processor");
    }
}
