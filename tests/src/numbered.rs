//! A process with a number that another one had: the kernel gives numbers again, and a test cannot wait for
//! it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::wait;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};

/// A process with the number that was wanted. Dropping it ends it.
#[derive(Debug)]
pub struct Numbered {
    pid: Pid,
    process: OwnedFd,
}

/// The kernel's `struct clone_args`, as far as `set_tid`.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
}

impl Numbered {
    /// Starts one that only waits, with a number that is free. `None`: this process may not choose numbers.
    ///
    /// # Panics
    ///
    /// When the number is not free.
    pub fn start(number: u32) -> Option<Numbered> {
        Numbered::fork(number, || {
            loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            }
        })
    }

    /// Starts a program with a number that is free; of the command only program, arguments and environment
    /// count. `None`: this process may not choose numbers.
    ///
    /// # Panics
    ///
    /// When the number is not free.
    pub fn run(number: u32, command: &Command) -> Option<Numbered> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<CString> = words.map(text).collect();
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => drop(environment.insert(name.to_owned(), value.to_owned())),
                None => drop(environment.remove(name)),
            }
        }
        let environment = environment.iter().map(|(name, value)| {
            let mut line = name.clone();
            line.push("=");
            line.push(value);
            text(&line)
        });
        let environment: Vec<CString> = environment.collect();
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            texts
                .iter()
                .map(|text| text.as_ptr())
                .chain([std::ptr::null()])
                .collect()
        };
        let (arguments, variables) = (pointers(&words), pointers(&environment));
        Numbered::fork(number, || {
            // SAFETY: lists of strings that live, each with a null at its end; nothing is allocated.
            unsafe {
                libc::execve(arguments[0], arguments.as_ptr(), variables.as_ptr());
            }
        })
    }

    /// Has a child with this number do something, by system calls only.
    fn fork(number: u32, child: impl FnOnce()) -> Option<Numbered> {
        let wanted = [number as libc::pid_t];
        let arguments = CloneArgs {
            exit_signal: libc::SIGCHLD as u64,
            set_tid: wanted.as_ptr() as u64,
            set_tid_size: 1,
            ..CloneArgs::default()
        };
        // SAFETY: as fork does; the child makes only system calls, and ends.
        let done = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArgs>()) };
        match done {
            0 => {
                child();
                // SAFETY: ends this process, without what the parent has to be done at its end.
                unsafe { libc::_exit(127) }
            }
            -1 => {
                let error = std::io::Error::last_os_error();
                assert_eq!(
                    error.raw_os_error(),
                    Some(libc::EPERM),
                    "process {number}: {error}"
                );
                None
            }
            _ => {
                let pid = Pid::from_raw(done as i32).expect("a process id is not 0");
                let process = pidfd_open(pid, PidfdFlags::empty()).expect("it is our child");
                Some(Numbered { pid, process })
            }
        }
    }

    /// Whether it ends by itself in time, with exit code 0.
    pub fn ends_well(&self) -> bool {
        let ended = wait::try_until(|| match waitpid(Some(self.pid), WaitOptions::NOHANG) {
            Ok(None) => None,
            Ok(Some((_, status))) => Some(status.exit_status() == Some(0)),
            Err(_) => Some(false),
        });
        ended == Some(true)
    }

    /// Whether nobody has ended it.
    pub fn runs(&self) -> bool {
        matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None))
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

fn text(word: &OsStr) -> CString {
    CString::new(word.as_bytes()).expect("it has no null")
}
