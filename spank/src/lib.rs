//! `mgb_spank.so`: Slurm loads it into srun, slurmd and slurmstepd, and it puts the tasks of jobs under the
//! node's mgbd.
//!
//! What matters happens in the task's own process, after slurmstepd has made it and before the user's program
//! begins: it runs `mgb cluster prolog`, as the user, and takes over what that says about the environment.
//! What fails there fails for this task alone. slurmstepd makes it start two processes that do the rest: `mgb
//! cluster watch` beside the tasks, and `mgb cluster epilog` after the job. In slurmd and slurmctld it does
//! nothing, and it needs nothing of Slurm but functions that Slurm's own manual page spank(8) describes,
//! looked up by name: one file serves every version, once
//! `mgb cluster plugin` has written that version's number into it (Slurm loads no plugin of another).

mod answer;
mod child;
mod entry;
mod fault;
#[cfg(fuzzing)]
pub mod fuzzing;
mod options;
mod slurm;
mod task;
mod watcher;
