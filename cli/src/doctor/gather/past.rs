//! Programs that `mgb run` has started and that use a GPU past MGB: what started them puts another driver
//! library before the front in the dynamic linker's search path.

use std::path::{Path, PathBuf};

use mgb_core::libraries::DRIVER;
use mgb_probe::JOB;

use super::driver::same_file;

/// How the names of the driver's library begin, in all its versions.
const LIBRARY: &str = "libcuda.so";

/// The driver library that a process uses though `mgb run` has started it. `None`: it was not started so, or
/// runs without MGB by the user's own wish, or uses `front`, or cannot be looked at.
pub fn library_of(pid: u32, front: Option<&Path>) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    if !is_under_run(&environment) {
        return None;
    }
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let front = front?.join(DRIVER);
    mapped(&maps)
        .into_iter()
        .find(|library| !same_file(library, &front))
}

fn is_under_run(environment: &[u8]) -> bool {
    let variables = || environment.split(|byte| *byte == 0);
    let job = format!("{JOB}=");
    variables().any(|variable| variable.starts_with(job.as_bytes()))
        && !variables().any(|variable| [&b"MGB=off"[..], b"MGB=0", b"MGB=no"].contains(&variable))
}

/// The files of driver libraries among a process's mappings.
fn mapped(maps: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        let Some(at) = line.find('/') else { continue };
        let path = Path::new(&line[at..]);
        let is_one = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(LIBRARY));
        if is_one && !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_under_run_are_known_by_their_environment() {
        for (environment, expected) in [
            ("PATH=/bin\0MGB_JOB=12\0", true),
            ("MGB_JOB=12\0MGB=require\0", true),
            ("MGB_JOB=12\0MGB=off\0", false),
            ("NOT_MGB_JOB=12\0", false),
            ("", false),
        ] {
            assert_eq!(is_under_run(environment.as_bytes()), expected, "{environment:?}");
        }
    }

    #[test]
    fn the_drivers_library_is_found_among_mappings() {
        let maps = "7f00-7f01 r--p 00000000 08:01 12 /usr/lib/libcuda.so.580.95\n\
                    7f01-7f02 r-xp 00001000 08:01 12 /usr/lib/libcuda.so.580.95\n\
                    7f02-7f03 rw-p 00000000 00:00 0 [heap]\n\
                    7f03-7f04 r-xp 00000000 08:01 13 /opt/my cuda/libcuda.so.1\n\
                    7f04-7f05 r-xp 00000000 08:01 14 /usr/lib/libcudart.so.13\n";
        let expected = ["/usr/lib/libcuda.so.580.95", "/opt/my cuda/libcuda.so.1"].map(PathBuf::from);
        assert_eq!(mapped(maps), expected);
    }

    #[test]
    fn this_process_uses_no_driver_past_the_front() {
        assert_eq!(
            library_of(std::process::id(), Some(Path::new("/opt/front"))),
            None
        );
    }
}
