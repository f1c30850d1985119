//! What happens to a task before the user's program begins.

use std::ffi::{OsStr, OsString};

use crate::answer::{self, Line};
use crate::options::Options;
use crate::slurm::{self, Spank};
use crate::{child, fault, watcher};

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
    let said = child::output(
        &mgb,
        &["cluster", "prolog"],
        environment.clone(),
        options.patience,
    );
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
    let is_under = answer::lines(&said).any(|line| matches!(line, Line::Export("MGB_JOB", _)));
    if is_under && options.suspends.is_some() {
        watcher::go_on_at_stop();
    }
}

/// Starts what watches over a step, in its slurmstepd, once it has made the step's first task here.
pub fn made(spank: Spank, options: &Options) {
    let Some(overtime) = options.suspends.filter(|_| slurm::task(spank) == Some(0)) else {
        return;
    };
    let is_off = |(name, value): &(OsString, OsString)| name == "MGB" && value == "off";
    if slurm::environment(spank).is_some_and(|environment| environment.iter().any(is_off)) {
        return;
    }
    let (Some(job), Some(task)) = (slurm::job(spank), slurm::task_pid(spank)) else {
        return;
    };
    if let Err(why) = watcher::start(&options.prefix.join("bin/mgb"), job, task, overtime) {
        slurm::error(&format!(
            "suspension will stop job {job} with its memory on the GPU: {why}"
        ));
    }
}

/// Has what a job took recorded: on each of its nodes, as root, after its last process has ended.
pub fn over(spank: Spank, options: &Options) {
    let (Some(job), Some(user)) = (slurm::job(spank), slurm::user(spank)) else {
        return;
    };
    let mgb = options.prefix.join("bin/mgb");
    let own = std::env::vars_os()
        .filter(|(name, _)| name == "PATH" || name == "SLURM_CONF" || name == "SLURMD_NODENAME");
    let (number, user) = (job.to_string(), user.to_string());
    let words = ["cluster", "epilog", "--job", &number, "--user", &user];
    if let Err(why) = child::output(&mgb, &words, own.collect(), options.patience) {
        slurm::error(&format!("job {job} is not recorded: {why}"));
    }
}

fn value<'a>(environment: &'a [(OsString, OsString)], wanted: &str) -> Option<&'a OsStr> {
    let found = environment.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_os_str())
}
