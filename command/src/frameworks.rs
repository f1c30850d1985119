//! Frameworks that take most of a GPU's memory when they start, whatever they need: each has a variable that
//! makes it take memory as it goes. Under MGB it is set, unless the user has set it.

use std::process::Command;

use crate::machine::Machine;
use crate::prefix::Prefix;

/// JAX takes 75 % of the GPU, TensorFlow nearly all of it.
const AS_NEEDED: [(&str, &str); 2] = [
    ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
];

/// Has them take memory as they need it. Those that the user has told how much to take are left alone.
pub fn take_as_needed(command: &mut Command) {
    // JAX's own way to say how much.
    let told = ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"];
    let is_told = told.iter().any(|name| std::env::var_os(name).is_some());
    for (name, value) in AS_NEEDED {
        let is_jax = name.starts_with("XLA");
        if std::env::var_os(name).is_none() && !(is_jax && is_told) {
            command.env(name, value);
        }
    }
}

/// Has a program, and all that it starts, ask mgbd for room: as one job, and not only what was built with
/// MGB.
pub fn under_mgbd(
    machine: &Machine,
    prefix: &Prefix,
    job: &str,
    command: &mut Command,
) -> anyhow::Result<()> {
    machine.apply_with_front(&prefix.front()?, command);
    take_as_needed(command);
    command.env(mgb_probe::JOB, job);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_set_for_both() {
        let mut command = Command::new("true");
        take_as_needed(&mut command);
        let set: Vec<_> = command.get_envs().collect();
        assert_eq!(
            set.len(),
            AS_NEEDED.len(),
            "the tests' own environment has none of them"
        );
    }
}
