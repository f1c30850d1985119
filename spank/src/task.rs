//! What happens to a task before the user's program begins.

use std::ffi::{OsStr, OsString};

use crate::answer::{self, Line};
use crate::options::Options;
use crate::slurm::{self, Spank};
use crate::{child, fault};

/// Puts the task under the node's mgbd, if that is there.
pub fn init(spank: Spank, options: &Options) {
    let Some(environment) = slurm::environment(spank) else {
        return;
    };
    let of = |wanted: &str| value(&environment, wanted);
    if of("MGB") == Some(OsStr::new("off")) {
        return;
    }
    fault::make(options.fault.as_deref());
    let is_first = of("SLURM_LOCALID").is_none_or(|local| local == "0");
    let mgb = options.prefix.join("bin/mgb");
    let said = child::output(&mgb, &["cluster", "prolog"], environment.clone(), options.patience);
    let said = match said {
        Ok(said) => said,
        Err(why) => {
            slurm::error(&format!("{why}; the job goes on without MGB"));
            return;
        }
    };
    for line in answer::lines(&said) {
        match line {
            Line::Export(name, value) => {
                if !slurm::set(spank, name, value) {
                    slurm::error(&format!("Slurm refuses to set {name}"));
                }
            }
            Line::Unset(name) => slurm::unset(spank, name),
            // Once for all tasks of the step on this node.
            Line::Print(text) if is_first => slurm::print(text),
            Line::Print(_) => {}
        }
    }
}

fn value<'a>(environment: &'a [(OsString, OsString)], wanted: &str) -> Option<&'a OsStr> {
    let found = environment.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_os_str())
}
