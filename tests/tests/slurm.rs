//! A part of the trial under Slurm (`tests/slurm/slurm.py`), two minutes of it: jobs of unknown needs, jobs
//! that are cancelled and requeued, mgbd killed under load, and a node that fails. Where this machine cannot
//! play it, the test says why and is left out.

use std::time::Duration;

use mgb_tests::built;
use mgb_tests::prefix::{prefix, repository};
use mgb_tests::process::{RunningProgram, command};

/// Its parts have limits of their own, which add up to less.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(1000);

#[test]
fn a_part_of_the_trial_is_right() {
    let examples = built::at("-O1");
    let mut trial = command("python3", &["-B", "tests/slurm/slurm.py", "--slice"]);
    trial
        .arg("--prefix")
        .arg(prefix())
        .arg("--examples")
        .arg(examples);
    trial.current_dir(repository());
    let said = RunningProgram::start(&mut trial)
        .end_within(TRIAL_TIMEOUT)
        .success();
    match said.split_once("slurm.py: left out: ") {
        Some((_, why)) => eprintln!("left out: {why}"),
        None => assert!(said.contains("slurm.py: 0 wrong"), "{said}"),
    }
}
