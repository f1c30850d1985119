//! What Slurm offers to plugins, found by name in the process that has loaded this one. A function that is
//! not there answers as one that failed.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;

/// A handle that Slurm passes to every entry, and takes back.
pub type Spank = *mut c_void;

/// spank_err_t: it worked.
const SUCCESS: c_int = 0;
/// spank_context_t: in a task's slurmstepd, or the task.
const REMOTE: c_int = 2;
/// spank_item_t: the job's user, `uid_t *`.
const JOB_UID: c_int = 0;
/// spank_item_t: the job, `uint32_t *`.
const JOB_ID: c_int = 2;
/// spank_item_t: the task's number on this node, `int *`.
const TASK_ID: c_int = 11;
/// spank_item_t: the task's process, `pid_t *`.
const TASK_PID: c_int = 14;
/// spank_item_t: the job's environment, `char ***`.
const JOB_ENV: c_int = 10;

type ContextFn = unsafe extern "C" fn() -> c_int;
type GetItem = unsafe extern "C" fn(Spank, c_int, ...) -> c_int;
type SetEnv = unsafe extern "C" fn(Spank, *const c_char, *const c_char, c_int) -> c_int;
type UnsetEnv = unsafe extern "C" fn(Spank, *const c_char) -> c_int;
type Say = unsafe extern "C" fn(*const c_char, ...);

/// The address of one of Slurm's functions; `None`: this process has no such function.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a name that ends with 0.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Whether this is the slurmstepd of a job's step, or its task.
pub fn is_remote() -> bool {
    let Some(address) = find(c"spank_context") else {
        return false;
    };
    // SAFETY: spank(8) declares it so.
    let context: ContextFn = unsafe { std::mem::transmute(address) };
    // SAFETY: it takes nothing.
    unsafe { context() == REMOTE }
}

/// Slurm's number of the job.
pub fn job(spank: Spank) -> Option<u32> {
    let number = number(spank, JOB_ID)?;
    (number != 0).then_some(number)
}

/// The job's user.
pub fn user(spank: Spank) -> Option<libc::uid_t> {
    number(spank, JOB_UID)
}

/// The task's number among those of its step on this node.
pub fn task(spank: Spank) -> Option<u32> {
    number(spank, TASK_ID)
}

/// The task's process.
pub fn task_pid(spank: Spank) -> Option<libc::pid_t> {
    let pid = libc::pid_t::try_from(number(spank, TASK_PID)?).ok()?;
    (pid > 0).then_some(pid)
}

/// An item of 32 bits.
fn number(spank: Spank, item: c_int) -> Option<u32> {
    let address = find(c"spank_get_item")?;
    // SAFETY: spank(8) declares it so.
    let get_item: GetItem = unsafe { std::mem::transmute(address) };
    let mut number: u32 = 0;
    // SAFETY: for these items it takes the address of a number of 32 bits, and fills it in.
    (unsafe { get_item(spank, item, &mut number) } == SUCCESS).then_some(number)
}

/// The environment that the task is to have.
pub fn environment(spank: Spank) -> Option<Vec<(OsString, OsString)>> {
    let address = find(c"spank_get_item")?;
    // SAFETY: spank(8) declares it so.
    let get_item: GetItem = unsafe { std::mem::transmute(address) };
    let mut list: *const *const c_char = std::ptr::null();
    // SAFETY: for this item it takes the address of a `char **`, and fills it in.
    if unsafe { get_item(spank, JOB_ENV, &mut list) } != SUCCESS || list.is_null() {
        return None;
    }
    let mut environment = Vec::new();
    let mut at = list;
    // SAFETY: the list ends with a null pointer, and lives as long as this task's process has not changed it.
    while let Some(text) = unsafe { (*at).as_ref() } {
        // SAFETY: each is a string that ends with 0.
        let entry = unsafe { CStr::from_ptr(text) }.to_bytes();
        if let Some(equals) = entry.iter().position(|&byte| byte == b'=').filter(|&at| at > 0) {
            let (name, value) = (&entry[..equals], &entry[equals + 1..]);
            environment.push((
                OsString::from_vec(name.to_vec()),
                OsString::from_vec(value.to_vec()),
            ));
        }
        // SAFETY: this one was not the last.
        at = unsafe { at.add(1) };
    }
    Some(environment)
}

/// Gives the task a variable. False: Slurm refuses it, or it cannot be one.
pub fn set(spank: Spank, name: &str, value: &str) -> bool {
    let (Some(address), Ok(name), Ok(value)) =
        (find(c"spank_setenv"), CString::new(name), CString::new(value))
    else {
        return false;
    };
    // SAFETY: spank(8) declares it so.
    let set_env: SetEnv = unsafe { std::mem::transmute(address) };
    // SAFETY: two strings, which it copies.
    unsafe { set_env(spank, name.as_ptr(), value.as_ptr(), 1) == SUCCESS }
}

/// Takes a variable from the task, if it has it.
pub fn unset(spank: Spank, name: &str) {
    if let (Some(address), Ok(name)) = (find(c"spank_unsetenv"), CString::new(name)) {
        // SAFETY: spank(8) declares it so.
        let unset_env: UnsetEnv = unsafe { std::mem::transmute(address) };
        // SAFETY: a string.
        unsafe { unset_env(spank, name.as_ptr()) };
    }
}

/// An error for Slurm's log, and where srun is attached for its user.
pub fn error(text: &str) {
    if let (Some(address), Ok(text)) = (find(c"slurm_error"), CString::new(text)) {
        // SAFETY: spank(8) declares it so.
        let say: Say = unsafe { std::mem::transmute(address) };
        // SAFETY: a format with one string, and the string.
        unsafe { say(c"mgb: %s".as_ptr(), text.as_ptr()) };
    }
}

/// A line for the user: on the task's own standard error.
pub fn print(text: &str) {
    let line = format!("{text}\n");
    // SAFETY: as many bytes as there are. Not through std, whose lock another thread may have held at the
    // fork.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
