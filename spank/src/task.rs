//! What happens to a task before the user's program begins.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use crate::answer::{self, AnswerLine};
use crate::options::Options;
use crate::slurm::{self, Spank};
use crate::{child, fault, watcher};

/// Has mgb say what a task has to know: before whoever waits for it gives up, so that it says why.
const PROLOG_MARGIN: Duration = Duration::from_millis(500);

/// Puts the task under the node's mgbd, if that is there. False: it is not under it, though it is to be.
pub fn init(spank: Spank, options: &Options) -> bool {
    let Some(environment) = slurm::environment(spank) else {
        return false;
    };
    let of = |wanted: &str| value(&environment, wanted);
    if of("MGB") == Some(OsStr::new("off")) {
        return true;
    }
    fault::make(options.fault.as_deref());
    let is_first = of("SLURM_LOCALID").is_none_or(|local| local == "0");
    let mgb = options.prefix.join("bin/mgb");
    let within = options
        .patience
        .saturating_sub(PROLOG_MARGIN)
        .max(options.patience / 2);
    let within = within.as_millis().to_string();
    let words = ["cluster", "prolog", "--within", &within];
    let said = child::output(&mgb, &words, environment.clone(), options.patience);
    let said = match said {
        Ok(said) => said,
        Err(why) => {
            let goes_on = if options.required {
                ""
            } else {
                "; the job goes on without MGB"
            };
            slurm::error(&format!("{why}{goes_on}"));
            return false;
        }
    };
    for line in answer::lines(&said) {
        match line {
            AnswerLine::Export(name, value) => {
                if !slurm::set(spank, name, value) {
                    slurm::error(&format!("Slurm refuses to set {name}"));
                }
            }
            AnswerLine::Unset(name) => slurm::unset(spank, name),
            // Once for all tasks of the step on this node.
            AnswerLine::Print(text) if is_first => slurm::print(text),
            AnswerLine::Print(_) => {}
        }
    }
    let is_under = is_under(&said);
    if is_under && options.suspends.is_some() {
        watcher::go_on_at_stop();
    }
    is_under
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

/// Whether what `mgb cluster prolog` says puts the task under an mgbd that is there.
fn is_under(said: &str) -> bool {
    let has = |wanted: fn(&AnswerLine<'_>) -> bool| answer::lines(said).any(|line| wanted(&line));
    // Without one, programs are told to insist on it.
    has(|line| matches!(line, AnswerLine::Export("MGB_JOB", _)))
        && !has(|line| matches!(line, AnswerLine::Export("MGB", "require")))
}

fn value<'a>(environment: &'a [(OsString, OsString)], wanted: &str) -> Option<&'a OsStr> {
    let found = environment.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_under_mgbd_where_that_is_there() {
        assert!(is_under("export MGB_JOB=534c000000070000\nexport A=b\n"));
        assert!(!is_under("print mgb: this task runs without MGB: why\n"));
        assert!(!is_under("export MGB=require\nexport MGB_JOB=534c000000070000\n"));
        assert!(!is_under(""));
    }
}
