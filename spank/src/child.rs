//! Runs a command for a limited time, and takes what it says.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// More than this is no answer of `mgb cluster prolog`.
const LONGEST: usize = 1 << 20;

/// Runs `program` with this environment alone, and returns its standard output.
///
/// # Errors
/// Why there is none, for people. A command that takes longer is killed with all that it has started.
pub fn output(
    program: &Path,
    arguments: &[&str],
    environment: Vec<(OsString, OsString)>,
    patience: Duration,
) -> Result<String, String> {
    let until = Instant::now() + patience;
    let name = format!("{} {}", program.display(), arguments.join(" "));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let read = read_until(&mut child, until);
    if read.is_ok() && ends_by(&mut child, until) {
        return read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: its own group, which has not been waited for.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    // One that the kernel holds does not end by a kill: nobody waits for it.
    ends_by(&mut child, Instant::now() + Duration::from_millis(200));
    match read {
        Err(why) => Err(format!("{name}: {why}")),
        Ok(_) => Err(format!("{name}: not done in {} s", patience.as_secs_f32())),
    }
}

fn read_until(child: &mut Child, until: Instant) -> Result<Vec<u8>, String> {
    let Some(mut pipe) = child.stdout.take() else {
        return Err("no output".to_owned());
    };
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut wait = libc::pollfd {
            fd: pipe.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one entry.
        match unsafe { libc::poll(&mut wait, 1, millis) } {
            0 => return Err("no answer in time".to_owned()),
            1 => {}
            _ if left.is_zero() => return Err("no answer in time".to_owned()),
            _ => continue,
        }
        match pipe.read(&mut part) {
            Ok(0) => return Ok(bytes),
            Ok(count) if bytes.len() + count <= LONGEST => bytes.extend_from_slice(&part[..count]),
            Ok(_) => return Err(format!("it says more than {LONGEST} bytes")),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Whether it has ended by then. Its exit code says nothing: what it has said counts.
fn ends_by(child: &mut Child, until: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => return false,
            // Where SIGCHLD is ignored there is nobody to wait for.
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, patience: u64) -> Result<String, String> {
        let path = std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
        output(
            Path::new("/bin/sh"),
            &["-c", text],
            path,
            Duration::from_millis(patience),
        )
    }

    #[test]
    fn what_it_says_comes_back() {
        assert_eq!(
            shell("echo export A=1; exit 3", 5000),
            Ok("export A=1\n".to_owned())
        );
    }

    #[test]
    fn one_that_hangs_is_ended_with_what_it_started() {
        let marker = format!("{}.25", 86400 + std::process::id());
        assert!(shell(&format!("sleep {marker} & sleep {marker}"), 200).is_err());
        assert!(shell(&format!("exec >&-; sleep {marker}"), 200).is_err());
        let is_left = |line: &Vec<u8>| *line == format!("sleep\0{marker}\0").into_bytes();
        let are_left = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let mut lines =
                processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
            lines.any(|line| is_left(&line))
        };
        // What was killed may be seen a moment longer.
        let began = Instant::now();
        while are_left() {
            assert!(began.elapsed() < Duration::from_secs(60), "it was not ended");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn one_that_says_too_much_is_ended() {
        assert!(shell("yes", 20_000).unwrap_err().contains("more than"));
    }

    #[test]
    fn one_that_is_not_there_is_named() {
        let none = output(Path::new("/no/mgb"), &[], Vec::new(), Duration::from_secs(1));
        assert!(none.unwrap_err().contains("/no/mgb"));
    }
}
