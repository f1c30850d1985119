//! What Slurm looks for in a plugin: three words about it, and functions by name.

use std::ffi::{CStr, c_char, c_int};

use crate::options::Options;
use crate::slurm::{self, Spank};
use crate::{fault, task};

/// What srun and slurmd call the plugin.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 4] = *b"mgb\0";
/// What kind of plugin it is.
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 6] = *b"spank\0";
/// The version of Slurm that it is for, as `SLURM_VERSION_NUMBER` has it; `mgb cluster plugin` writes it.
#[unsafe(no_mangle)]
pub static plugin_version: u32 = u32::from_be_bytes([0, 22, 5, 8]);
/// The version of the interface.
#[unsafe(no_mangle)]
pub static spank_plugin_version: u32 = 1;

fn read(count: c_int, words: *mut *mut c_char) -> (Options, Vec<String>) {
    let count = usize::try_from(count).unwrap_or(0);
    let words = (0..count).filter(|_| !words.is_null()).map(|at| {
        // SAFETY: Slurm passes `count` strings.
        unsafe { CStr::from_ptr(*words.add(at)) }
    });
    let words: Vec<&str> = words.filter_map(|word| word.to_str().ok()).collect();
    Options::read(words)
}

/// As slurmstepd begins with a step: says what is wrong in plugstack.conf.
///
/// # Safety
/// As spank(8) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_init(_: Spank, count: c_int, words: *mut *mut c_char) -> c_int {
    fault::contain(
        || {
            if slurm::is_remote() {
                for unknown in read(count, words).1 {
                    let text = format!(
                        "plugstack.conf: what is {unknown}? There are prefix=/FOLDER, timeout=SECONDS, \
                         suspend=SECONDS|no and required"
                    );
                    slurm::error(&text);
                }
            }
        },
        slurm::error,
    );
    0
}

/// In each task, as its user, before its program.
///
/// # Safety
/// As spank(8) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_task_init(spank: Spank, count: c_int, words: *mut *mut c_char) -> c_int {
    let options = read(count, words).0;
    // A fault of the plugin's own leaves it as it was.
    let mut is_under = false;
    fault::contain(|| is_under = task::init(spank, &options), slurm::error);
    if options.required && !is_under {
        slurm::error(
            "the task does not start: plugstack.conf has mgb with `required`, and it is not under mgbd",
        );
        // Not by the answer alone: that counts only where the plugin itself is required.
        // SAFETY: it ends the process, which is the task's and runs nothing of the user's yet.
        unsafe { libc::_exit(1) };
    }
    0
}

/// In slurmstepd, as root, once it has made a task.
///
/// # Safety
/// As spank(8) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_task_post_fork(
    spank: Spank,
    count: c_int,
    words: *mut *mut c_char,
) -> c_int {
    fault::contain(|| task::made(spank, &read(count, words).0), slurm::error);
    0
}

/// On each of a job's nodes as the job is over, in a process of its own that slurmd has started, as root.
///
/// # Safety
/// As spank(8) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_job_epilog(
    spank: Spank,
    count: c_int,
    words: *mut *mut c_char,
) -> c_int {
    fault::contain(|| task::over(spank, &read(count, words).0), slurm::error);
    0
}
