//! Runs clang: replaced by it where that will do, as a child with a side folder where the pass runs.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::{fs, thread};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::response;

/// Beyond this many bytes the arguments go through a response file: the kernel takes 2 MiB, environment
/// included.
const LONGEST_LINE: usize = 512 << 10;

/// Becomes clang. Returns only if that fails.
pub fn become_clang(clang: &Path, arguments: &[OsString]) -> anyhow::Error {
    let error = Command::new(clang).args(arguments).exec();
    anyhow!(error).context(format!("failed to run {}", clang.display()))
}

/// Settings of the pass beside clang's command line.
pub struct PassSettings {
    /// It translates kernels to host code.
    pub host_kernels: bool,
    /// It leaves host modules to the link.
    pub leaves_to_link: bool,
    /// The version of CUDA's headers, where it is not the runtime's.
    pub headers: Option<(u32, u32)>,
    /// CUDA's tools: a link of device code is looked for there.
    pub tools: Option<PathBuf>,
}

/// What a run of clang has beside its command line.
#[derive(Default)]
pub struct Surroundings {
    /// Its standard output, where that is another than ours.
    pub stdout: Option<File>,
    /// Its environment, beside ours.
    pub variables: Vec<(&'static str, OsString)>,
}

impl Surroundings {
    fn apply(self, command: &mut Command) {
        command.envs(self.variables);
        if let Some(file) = self.stdout {
            command.stdout(file);
        }
    }
}

/// Runs clang to its end.
///
/// # Errors
/// When it cannot be run.
pub fn run(clang: &Path, arguments: &[OsString], surroundings: Surroundings) -> Result<ExitStatus> {
    let mut command = Command::new(clang);
    command.args(arguments);
    surroundings.apply(&mut command);
    wait_for(command)
}

/// Runs clang with a fresh folder in which the run of the pass on the device module leaves files for the run
/// on the host module. The folder is gone when this returns, however clang ended.
pub fn with_side_folder(
    clang: &Path,
    arguments: &[OsString],
    pass: PassSettings,
    surroundings: Surroundings,
) -> Result<ExitStatus> {
    let folder = tempfile::Builder::new().prefix("mgb-").tempdir();
    let folder =
        folder.context("failed to make a temporary folder for the pass; set TMPDIR to a writable folder")?;
    let mut command = Command::new(clang);
    surroundings.apply(&mut command);
    command.env("MGB_SIDE_DIR", folder.path());
    if !pass.host_kernels {
        command.env("MGB_HOST_KERNELS", "off");
    }
    // Set from outside they would be no request of this command line's.
    command.env_remove("MGB_LEAVE_TO_LINK");
    command.env_remove("MGB_CUDA_HEADERS");
    command.env_remove("MGB_DEVICE_PARTS");
    if pass.leaves_to_link {
        command.env("MGB_LEAVE_TO_LINK", "1");
    }
    if let Some(tools) = pass.tools {
        command.env("PATH", path_and(&tools));
    }
    if let Some((major, minor)) = pass.headers {
        command.env("MGB_CUDA_HEADERS", format!("{major}.{minor}"));
    }
    if arguments.iter().map(|word| word.len() + 1).sum::<usize>() > LONGEST_LINE {
        let file = folder.path().join("arguments");
        fs::write(&file, response::quote(arguments))
            .with_context(|| format!("failed to write {}", file.display()))?;
        let mut word = OsString::from("@");
        word.push(&file);
        command.arg(word);
    } else {
        command.args(arguments);
    }
    wait_for(command)
}

/// How a compiler ended.
fn wait_for(mut command: Command) -> Result<ExitStatus> {
    // Before the child starts: a signal in between would leave temporary folders behind.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("failed to watch signals")?;
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to run {}", command.get_program().to_string_lossy()))?;
    forward(signals, child.id());
    child.wait().context("failed to wait for clang")
}

/// `PATH` with one more folder behind its own.
pub fn path_and(folder: &Path) -> OsString {
    let before = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&before).chain([folder.to_owned()]);
    std::env::join_paths(folders).unwrap_or(before)
}

/// Runs a tool of the compiler's or of the linker's, whose words are of interest only where it fails.
///
/// # Errors
/// When it cannot be run, and when it fails: what it said.
pub fn succeed(command: &mut Command) -> Result<()> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let done = output(command).with_context(|| {
        format!("failed to run {tool}; objcopy and ld come with the Debian package binutils")
    })?;
    if done.status.success() {
        return Ok(());
    }
    bail!("{tool} failed: {}", String::from_utf8_lossy(&done.stderr).trim())
}

/// Runs a compiler to its end and keeps what it says. It reads no standard input.
///
/// # Errors
/// When it cannot be run.
pub fn output(command: &mut Command) -> Result<Output> {
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("failed to watch signals")?;
    let pipes = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = pipes.spawn()?;
    forward(signals, child.id());
    Ok(child.wait_with_output()?)
}

/// Passes our own signals on, so that `kill` on the wrapper ends the compiler.
fn forward(mut signals: Signals, child: u32) {
    // A pidfd, because the number may name another process once clang has ended.
    let pidfd = Pid::from_raw(child as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    thread::spawn(move || {
        for signal in signals.forever() {
            if let (Some(pidfd), Some(signal)) = (&pidfd, Signal::from_named_raw(signal)) {
                // Failing means that clang has just ended, which is what was wanted.
                let _ = pidfd_send_signal(pidfd, signal);
            }
        }
    });
}

/// clang's exit code; or dies of the signal that clang died of, as make expects of an interrupted compiler.
pub fn exit_as(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        // Only returns for signals that do not end a process; then the shell's convention says it.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return 128u8.saturating_add(signal as u8);
    }
    status.code().unwrap_or(1) as u8
}
