//! What is compared: a policy, with its queue discipline, with or without MPS, with so many jobs at once.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::parallel::Parallel;

/// Processes per GPU that `cg` alone stands for.
const SWEEP: [u32; 5] = [2, 3, 4, 6, 8];

/// One way of running a mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// The policy's name, as mgbd takes it.
    pub policy: String,
    /// The queue discipline's name, as mgbd takes it; none for its default.
    pub queue: Option<String>,
    /// Whether the arm runs under MPS.
    pub mps: bool,
    /// Jobs at once: a number, or `auto`; none for what the policy says itself.
    pub at_once: Option<String>,
}

impl Arm {
    /// Whether whole processes are placed, with plain binaries.
    pub fn places_processes(&self) -> bool {
        self.policy == "sa" || self.processes_per_gpu().is_some()
    }

    fn processes_per_gpu(&self) -> Option<usize> {
        self.policy.strip_prefix("cg:")?.parse().ok()
    }

    /// How many jobs run at once on so many GPUs.
    pub fn parallel(&self, gpus: usize) -> Parallel {
        let placed = |each: usize| Parallel::Count((each * gpus).max(1));
        match (self.policy.as_str(), self.processes_per_gpu(), &self.at_once) {
            ("sa", ..) => placed(1),
            (_, Some(each), _) => placed(each),
            (.., Some(text)) => text.parse().unwrap_or(Parallel::Auto),
            (.., None) => Parallel::Auto,
        }
    }

    /// Whether mgbd is to have seen the jobs before: who serves the shortest first has to know which they
    /// are.
    pub fn rehearses(&self) -> bool {
        self.queue.as_deref() == Some("shortest")
    }

    /// Options for its mgbd.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec!["--policy".to_owned(), self.policy.clone()];
        if let Some(queue) = &self.queue {
            options.extend(["--queue".to_owned(), queue.clone()]);
        }
        if !self.mps {
            options.push("--no-mps".to_owned());
        }
        options
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.policy)?;
        if let Some(queue) = &self.queue {
            write!(f, "/{queue}")?;
        }
        if let Some(at_once) = &self.at_once {
            write!(f, " -j {at_once}")?;
        }
        if !self.mps {
            f.write_str(" without MPS")?;
        }
        Ok(())
    }
}

/// What the user asks to compare.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Policies; `cg` is swept, and `NAME/QUEUE` names a queue discipline.
    pub policies: Vec<String>,
    /// Jobs at once under policies that know what fits.
    pub at_once: Vec<Parallel>,
    /// With MPS, without, or both.
    pub mps: Vec<bool>,
}

impl Wanted {
    /// Every combination once.
    pub fn arms(&self) -> Vec<Arm> {
        let mut arms = Vec::new();
        for &mps in &self.mps {
            for name in self.policies.iter().flat_map(|name| swept(name)) {
                let (policy, queue) = match name.split_once('/') {
                    Some((policy, queue)) => (policy.to_owned(), Some(queue.to_owned())),
                    None => (name, None),
                };
                let arm = Arm {
                    policy,
                    queue,
                    mps,
                    at_once: None,
                };
                let numbers: &[Parallel] = if arm.places_processes() {
                    &[]
                } else {
                    &self.at_once
                };
                let with = |number: &Parallel| Arm {
                    at_once: Some(number.to_string()),
                    ..arm.clone()
                };
                let made: Vec<Arm> = numbers.iter().map(with).collect();
                let made = if made.is_empty() { vec![arm] } else { made };
                for arm in made {
                    if !arms.contains(&arm) {
                        arms.push(arm);
                    }
                }
            }
        }
        arms
    }
}

fn swept(name: &str) -> Vec<String> {
    if name == "cg" {
        return SWEEP.iter().map(|each| format!("cg:{each}")).collect();
    }
    vec![name.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_once() {
        let wanted = Wanted {
            policies: ["sa", "cg", "cg:4", "mgb", "mgb/shortest"]
                .map(str::to_owned)
                .to_vec(),
            at_once: vec![Parallel::Auto, Parallel::Count(16)],
            mps: vec![true, false],
        };
        let names: Vec<String> = wanted.arms().iter().map(Arm::to_string).collect();
        insta::assert_snapshot!(names.join("\n"));
    }

    #[test]
    fn how_an_arm_is_run() {
        let arm = |policy: &str, at_once: Option<&str>| Arm {
            policy: policy.to_owned(),
            queue: Some("in-order".to_owned()),
            mps: false,
            at_once: at_once.map(str::to_owned),
        };
        assert_eq!(arm("sa", None).parallel(4), Parallel::Count(4));
        assert_eq!(arm("cg:3", None).parallel(4), Parallel::Count(12));
        assert_eq!(arm("mgb", Some("16")).parallel(4), Parallel::Count(16));
        assert_eq!(arm("mgb", Some("auto")).parallel(4), Parallel::Auto);
        let mut shortest = arm("mgb", None);
        assert!(!shortest.rehearses());
        shortest.queue = Some("shortest".to_owned());
        assert!(shortest.rehearses());
        assert_eq!(
            arm("mgb", None).options(),
            ["--policy", "mgb", "--queue", "in-order", "--no-mps"]
        );
    }
}
