//! What a process is: which client it belongs to (a whole-process task may be a
//! shell whose children use the GPU), whether it is about to end, and what program
//! it runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use mgb_probe::wire::AGENT;

use crate::broker::ProgramId;

/// How many generations up to look.
const GENERATIONS: usize = 16;

/// The parent of a process, as `/proc` says.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the state and the parent's
    // pid follow its last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The nearest of `pids` among the process itself and its ancestors.
pub(crate) fn belongs_to<T: Copy>(pid: u32, pids: &BTreeMap<u32, T>) -> Option<T> {
    let mut at = pid;
    for _ in 0..GENERATIONS {
        if let Some(found) = pids.get(&at) {
            return Some(*found);
        }
        at = parent(at).filter(|parent| *parent > 1)?;
    }
    None
}

/// Whether a process is on its way out: the kernel ends it, but has not told its
/// parent yet. Field 9 of its line in /proc holds the flags, see proc(5).
pub(crate) fn is_exiting(pid: u32) -> bool {
    const PF_EXITING: u64 = 0x4;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The name before the last parenthesis may hold anything.
    stat.rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().nth(6))
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_some_and(|flags| flags & PF_EXITING != 0)
}

/// The threads of a process that are looked at: the program that follows another one begins with one.
const MAX_THREADS: usize = 256;

/// Whether a process that has hung up runs another program than the one that connected (`exec`), so that
/// nothing of that is left: the agent of its first program is none of its threads. One that has only closed
/// its files still has that thread.
pub(crate) fn has_no_agent(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let names = threads
        .take(MAX_THREADS)
        .map(|thread| std::fs::read_to_string(thread?.path().join("comm")));
    let mut count = 0;
    // A thread that has just ended has no name.
    let has_agent = names
        .flatten()
        .inspect(|_| count += 1)
        .any(|name| name.trim_end() == AGENT);
    !has_agent && (1..MAX_THREADS).contains(&count)
}

/// Whether a process that is on its way out was ended by a signal. Field 52 of its line in /proc holds the
/// status that its parent gets. One that its parent has waited for says nothing any more, and counts as one
/// that ended by itself.
pub(crate) fn is_killed(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let status = stat
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().nth(49));
    let status = status.and_then(|status| status.parse::<i32>().ok());
    status.is_some_and(|status| libc::WIFSIGNALED(status))
}

/// Bytes of a process's arguments that are looked at.
const MAX_ARGUMENTS: u64 = 1 << 20;

/// What a process runs: its executable as it lies on the disk (the same one built anew is another program),
/// and its arguments, as far as `/proc` says. The file system of either may hang: not for the loop.
pub(crate) fn program_of(pid: u32) -> Option<ProgramId> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    let executable = number_of(&(file.dev(), file.ino(), file.mtime(), file.mtime_nsec()));
    let mut line = Vec::new();
    if let Ok(arguments) = File::open(format!("/proc/{pid}/cmdline")) {
        // What could be read of them before an error counts.
        let _ = arguments.take(MAX_ARGUMENTS).read_to_end(&mut line);
    }
    let program = ProgramId::new(executable);
    // Behind the name by which it was called.
    let arguments = line.iter().position(|byte| *byte == 0);
    Some(arguments.map_or(program, |from| program.called_with(number_of(&line[from..]))))
}

pub(crate) fn number_of<T: Hash + ?Sized>(what: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_process_ended_is_known_until_its_parent_waits() {
        for (script, killed) in [
            ("kill -9 $$", true),
            ("kill -15 $$", true),
            ("exit 3", false),
            ("true", false),
        ] {
            let mut child = std::process::Command::new("sh")
                .args(["-c", script])
                .spawn()
                .unwrap();
            let pid = child.id();
            let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            while !stat().contains(") Z") {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert_eq!(is_killed(pid), killed, "{script}");
            child.wait().unwrap();
            assert!(!is_killed(pid));
        }
    }

    #[test]
    fn a_child_belongs_to_its_parent() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        assert_eq!(parent(child.id()), Some(own));
        assert_eq!(belongs_to(child.id(), &[(own, 7)].into()), Some(7));
        assert_eq!(
            belongs_to(child.id(), &[(child.id(), 8), (own, 7)].into()),
            Some(8)
        );
        assert_eq!(belongs_to::<u8>(own, &BTreeMap::new()), None);
        let ours = program_of(own);
        assert!(ours.is_some() && ours == program_of(own) && ours != program_of(child.id()));
        let mut other = std::process::Command::new("sleep").arg("6").spawn().unwrap();
        // The kernel shows arguments a moment after the new program is there.
        let differ = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            program_of(child.id()) != program_of(other.id())
        });
        assert!(differ);
        other.kill().unwrap();
        other.wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
