//! Starts `mgb cluster watch` beside a step's tasks. Slurm signals a step's suspension to the processes that
//! its slurmstepd has made itself, and to no others: so this one is made by slurmstepd.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Has this process, and what it becomes and starts, go on at SIGTSTP: its memory has two seconds to leave
/// the GPUs before Slurm stops it, and a stopped program's cannot.
pub fn go_on_at_stop() {
    // A terminal's user suspends what runs there by hand.
    // SAFETY: a descriptor, or none.
    if unsafe { libc::isatty(libc::STDIN_FILENO) } != 1 {
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGTSTP, libc::SIG_IGN) };
    }
}

/// Starts the watcher of a task. `overtime`: seconds, see [`crate::options::Options::suspends`].
///
/// # Errors
/// Why there is none.
pub fn start(mgb: &Path, job: u32, task: libc::pid_t, overtime: u32) -> Result<(), String> {
    let program = string(mgb.as_os_str().as_bytes())?;
    let [job, task, overtime] = [job.to_string(), task.to_string(), overtime.to_string()];
    let words = [
        program.as_bytes(),
        b"cluster",
        b"watch",
        b"--job",
        job.as_bytes(),
        b"--task",
        task.as_bytes(),
        b"--overtime",
        overtime.as_bytes(),
    ];
    let words: Vec<CString> = words.into_iter().map(string).collect::<Result<_, _>>()?;
    let words: Vec<*const c_char> = words
        .iter()
        .map(|word| word.as_ptr())
        .chain([std::ptr::null()])
        .collect();
    let environment = [c"PATH=/usr/sbin:/usr/bin:/sbin:/bin".as_ptr(), std::ptr::null()];
    // SAFETY: from here to the exec the child makes system calls alone: it has one thread of slurmstepd's.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().to_string()),
        // SAFETY: the strings and lists live on in the child.
        0 => unsafe { become_watcher(&program, &words, &environment) },
        _ => Ok(()),
    }
}

/// # Safety
/// In a child, with lists of strings that end with a null pointer.
unsafe fn become_watcher(program: &CString, words: &[*const c_char], environment: &[*const c_char]) -> ! {
    // SAFETY: system calls alone; nothing is allocated.
    unsafe {
        // It ends with its slurmstepd, whatever becomes of it.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
        // Who reads what the task writes waits until nobody has that open.
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for at in 0..3 {
            libc::dup2(null, at);
        }
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::execve(program.as_ptr(), words.as_ptr(), environment.as_ptr());
        libc::_exit(127)
    }
}

fn string(bytes: &[u8]) -> Result<CString, String> {
    CString::new(bytes).map_err(|error| error.to_string())
}
