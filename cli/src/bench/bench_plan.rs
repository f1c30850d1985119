//! What is to be measured. It is in the document, so that `--resume` alone goes on with what was begun.

use std::path::PathBuf;

use anyhow::Result;
use mgb_command::machine::Machine;
use serde::{Deserialize, Serialize};

use super::args::{Args, Mps};
use super::arm::Wanted;
use crate::parallel::Parallel;

/// What is compared where the user does not say.
const POLICIES: [&str; 4] = ["sa", "cg", "alg3", "mgb"];

/// The same for a quick look.
const QUICK_POLICIES: [&str; 3] = ["sa", "cg:4", "mgb"];

/// The mix for a quick look,
const QUICK_MIX: &str = "W1";

/// and how large real GPUs are for it, in bytes: jobs of a few seconds. Software GPUs are small enough.
const QUICK_CAPACITY: u64 = 4 << 30;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchRequest {
    /// Mixes by name; empty for all.
    pub mixes: Vec<String>,
    /// The job file that is measured instead.
    pub list: Option<PathBuf>,
    /// Policies, as the user names them.
    pub policies: Vec<String>,
    /// Numbers of jobs at once, or `auto`.
    pub at_once: Vec<String>,
    /// With MPS, without, or both.
    pub mps: Vec<bool>,
    /// How often each.
    pub runs: usize,
    /// Bytes that each GPU is made small to.
    pub capacity_bytes: Option<u64>,
    /// Where jobs are drawn from; none for what the mixes' file says.
    pub seed: Option<u64>,
    /// Whether jobs are profiled strictly one at a time.
    pub alone_on_node: bool,
}

impl BenchRequest {
    /// What these arguments ask for; what they leave open is as in `before`, if there is something to go on
    /// with.
    pub fn new(args: &Args, machine: &Machine, before: Option<&Self>) -> Result<Self> {
        let default = before.cloned().unwrap_or_else(|| Self {
            mixes: args.quick.then(|| QUICK_MIX.to_owned()).into_iter().collect(),
            policies: if args.quick {
                strings(&QUICK_POLICIES)
            } else {
                strings(&POLICIES)
            },
            at_once: vec![Parallel::Auto.to_string()],
            mps: vec![true],
            runs: 1,
            capacity_bytes: (args.quick && !machine.is_soft()).then_some(QUICK_CAPACITY),
            ..Self::default()
        });
        let or = |given: &[String], default: Vec<String>| {
            if given.is_empty() { default } else { given.to_vec() }
        };
        let numbers: Vec<String> = args.jobs.iter().map(Parallel::to_string).collect();
        let list = args.list.as_ref().map(std::path::absolute).transpose()?;
        let asked = Self {
            // Mixes take the place of a list.
            list: list.or(default.list).filter(|_| args.mix.is_empty()),
            mixes: or(&args.mix, default.mixes),
            policies: or(&args.policy, default.policies),
            at_once: or(&numbers, default.at_once),
            mps: match args.mps {
                None => default.mps,
                Some(Mps::On) => vec![true],
                Some(Mps::Off) => vec![false],
                Some(Mps::Both) => vec![true, false],
            },
            runs: args.runs.map_or(default.runs, usize::from),
            capacity_bytes: args.capacity.or(default.capacity_bytes),
            seed: args.seed.or(default.seed),
            alone_on_node: args.alone_on_node || default.alone_on_node,
        };
        // Before an hour of measurement, not after it. A queue discipline is mgbd's to know.
        for name in asked.policies.iter().filter(|name| *name != "cg") {
            let policy = name.split_once('/').map_or(name.as_str(), |(policy, _)| policy);
            policy.parse::<mgb_interface::Policy>()?;
        }
        Ok(asked)
    }

    /// Every way of running a mix.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            policies: self.policies.clone(),
            at_once: self.at_once.iter().filter_map(|text| text.parse().ok()).collect(),
            mps: self.mps.clone(),
        }
    }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct BenchCommand {
        #[command(flatten)]
        args: Args,
    }

    fn asked(words: &str, before: Option<&BenchRequest>) -> Result<BenchRequest> {
        let words = std::iter::once("bench").chain(words.split_whitespace());
        let args = BenchCommand::try_parse_from(words)?.args;
        BenchRequest::new(&args, &Machine::Real { gpus: 2 }, before)
    }

    #[test]
    fn going_on_asks_for_the_same_but_what_is_given() {
        let first = asked(
            "--mix W1,W2 --policy sa,mgb --jobs 8,auto --mps both --capacity 64GiB --seed 3",
            None,
        )
        .unwrap();
        assert_eq!(asked("--resume a.json", Some(&first)).unwrap(), first);
        let more = asked("--resume a.json --policy cg --runs 3", Some(&first)).unwrap();
        assert_eq!((more.policies, more.runs), (vec!["cg".to_owned()], 3));
        assert_eq!(
            (more.mixes, more.at_once, more.mps),
            (first.mixes, first.at_once, first.mps)
        );
    }

    #[test]
    fn a_quick_look_is_small() {
        let quick = asked("--quick", None).unwrap();
        assert_eq!(
            (quick.mixes, quick.capacity_bytes),
            (vec!["W1".to_owned()], Some(4 << 30))
        );
        let mine = asked("--quick --capacity 8GiB --mix W5", None).unwrap();
        assert_eq!(
            (mine.mixes, mine.capacity_bytes),
            (vec!["W5".to_owned()], Some(8 << 30))
        );
    }

    #[test]
    fn unknown_policies_are_named_at_once() {
        let error = asked("--policy sa,cg,fastest", None).unwrap_err().to_string();
        assert!(error.contains("fastest"), "{error}");
        assert!(asked("--policy cg:0/in-order", None).is_err());
        assert!(asked("--jobs 0", None).is_err());
    }
}
