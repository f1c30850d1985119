//! What the host has left, as the kernel says. Read anew each time: virtual machines get more memory while
//! they run.

use std::fs;
use std::time::Duration;

use mgb_core::control_group;

/// Bytes of host memory that can be had now: what the kernel calls available, or less where a control group
/// of this process has a limit. None where the kernel does not say.
pub fn memory_free() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let available = meminfo(&text, "MemAvailable:")?;
    Some(control_group::room().map_or(available, |room| room.min(available)))
}

/// Bytes of host memory that there are, at this moment.
pub fn memory_total() -> Option<u64> {
    meminfo(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Time that all cores together have spent idle since the machine started, or with work that gives way to
/// ours.
pub fn idle_time() -> Option<Duration> {
    // Zero asks and changes nothing. Jobs are as nice as this process.
    let gives_way = rustix::process::nice(0).is_ok_and(|own| own <= 0);
    idle_of(&fs::read_to_string("/proc/stat").ok()?, gives_way)
}

fn idle_of(text: &str, niced_gives_way: bool) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let [_, niced, _, idle, waiting, ..] = ticks[..] else {
        return None;
    };
    // Waiting for a disk is idle as well.
    Some(from_ticks(
        idle + waiting + if niced_gives_way { niced } else { 0 },
    ))
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Processor time since the start.
    pub cpu: Duration,
    /// Bytes of host memory now,
    pub memory: u64,
    /// and at its peak.
    pub memory_peak: u64,
}

/// What this process has used; none once it has ended.
pub fn use_of(pid: u32) -> Option<ProcessUse> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ProcessUse {
        cpu: cpu_of(&stat)?,
        memory: meminfo(&status, "VmRSS:")?,
        memory_peak: meminfo(&status, "VmHWM:")?,
    })
}

fn cpu_of(stat: &str) -> Option<Duration> {
    // The name before may hold spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(from_ticks(user + system))
}

fn from_ticks(ticks: u64) -> Duration {
    let each = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks as f64 / each as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let meminfo_text = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(meminfo(meminfo_text, "MemAvailable:"), Some(23_000_000 << 10));
        assert_eq!(meminfo(meminfo_text, "SwapFree:"), None);
        let ticks = |count| Some(from_ticks(count));
        let stat_text = "cpu  10 30 5 700 44 0 0 0\ncpu0 1 0 0 9 0\n";
        assert_eq!(idle_of(stat_text, false), ticks(744));
        assert_eq!(idle_of(stat_text, true), ticks(774));
        let stat = "42 (a name) (x)) R 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0";
        assert_eq!(cpu_of(stat), ticks(300));
    }

    #[test]
    fn this_process_and_this_host_can_be_looked_at() {
        let used = use_of(std::process::id()).unwrap();
        assert!(used.memory > 0 && used.memory_peak >= used.memory / 2, "{used:?}");
        assert!(memory_free().unwrap() <= memory_total().unwrap());
        assert!(idle_time().unwrap() > Duration::ZERO);
    }
}
