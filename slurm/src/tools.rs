//! What Slurm's own commands say and do, each with a limit: slurmctld and slurmdbd may be down, and nothing
//! of MGB waits for them long.

pub mod counts;
pub mod note;
pub mod record;
pub mod summary;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// GPU memory as Slurm counts it, in MiB of a node.
pub const MEMORY: &str = "mgb_mem";
/// GPU time, in hundredths of a GPU.
pub const SHARE: &str = "mgb_share";
/// MiB of a node's largest GPU: no job takes of it, each may say that it needs a GPU of that size.
pub const WHOLE: &str = "mgb_gpu";

/// How long a command of Slurm's may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs one, and returns what it printed.
///
/// # Errors
/// It is not there, fails (with what it said), or takes longer than five seconds.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let name = || format!("{program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    // What a user has in the environment is nothing for Slurm's commands as they run here.
    let own = std::env::vars_os().map(|(name, _)| name);
    for name in own.filter(|name| {
        let name = name.to_string_lossy();
        ["SINFO_", "SQUEUE_", "SACCT_"]
            .iter()
            .any(|start| name.starts_with(start))
            || name == "SLURM_TIME_FORMAT"
    }) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to run {program}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(out.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let err = read(err.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let until = Instant::now() + COMMAND_TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().with_context(name)? {
            break status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            bail!("{}: no answer in {} s", name(), COMMAND_TIMEOUT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let (out, err) = (text(out), text(err));
    if !status.success() {
        let said = if err.trim().is_empty() { &out } else { &err };
        bail!(
            "{}: {}",
            name(),
            said.lines().map(str::trim).collect::<Vec<_>>().join("; ")
        );
    }
    Ok(out)
}

/// The name by which Slurm knows this node, if it is one.
pub fn node_name() -> String {
    // slurmd gives it to what it starts.
    let named = std::env::var("SLURMD_NODENAME")
        .ok()
        .filter(|name| !name.is_empty());
    named.unwrap_or_else(|| {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        name.split('.').next().unwrap_or(&name).to_owned()
    })
}

/// Fields of a record as `scontrol show … -o` prints it: `Name=value`, where a value may have spaces.
pub fn fields(line: &str) -> Vec<(&str, String)> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for word in line.split(' ') {
        let is_name = |name: &str| {
            name.starts_with(|letter: char| letter.is_ascii_uppercase())
                && name
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "_:/".contains(letter))
        };
        match word.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, value)) => fields.push((name, value.to_owned())),
            None => {
                if let Some((_, value)) = fields.last_mut() {
                    value.push(' ');
                    value.push_str(word);
                }
            }
        }
    }
    for (_, value) in &mut fields {
        value.truncate(value.trim_end().len());
    }
    fields
}

/// One of them; `(null)` is none.
pub fn field(line: &str, wanted: &str) -> Option<String> {
    let found = fields(line).into_iter().find(|(name, _)| *name == wanted);
    found
        .map(|(_, value)| value)
        .filter(|value| value != "(null)" && !value.is_empty())
}

/// The count of a name in `a:1,b:2(S:0)`, or with another sign before it; K, M and G as Slurm writes them.
pub fn count(list: &str, wanted: &str, sign: char) -> u64 {
    let entries = list
        .split(',')
        .filter_map(|entry| entry.split('(').next()?.rsplit_once(sign));
    let counts = entries.filter(|(name, _)| name.split(':').next() == Some(wanted));
    counts
        .filter_map(|(_, count)| number(count))
        .fold(0, u64::saturating_add)
}

/// A count as Slurm writes it: `128`, `2K`, `1.50M`.
pub fn number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1u64 << 40,
        _ => return None,
    };
    digits
        .parse::<f64>()
        .ok()
        .map(|number| (number * unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let line = "NodeName=n1 Arch=x86_64 Gres=mgb_mem:128,mgb_share:200 OS=Linux 6.1 #1 SMP   Comment=(null) \
                    Reason=mgb: no mgbd answers [root@2026-01-01T00:00:00] ";
        assert_eq!(field(line, "Gres").as_deref(), Some("mgb_mem:128,mgb_share:200"));
        assert_eq!(field(line, "OS").as_deref(), Some("Linux 6.1 #1 SMP"));
        assert_eq!(field(line, "Comment"), None);
        assert!(field(line, "Reason").unwrap().starts_with("mgb: no mgbd answers"));
    }

    #[test]
    fn counts_are_read_as_slurm_writes_them() {
        let all = ["128", "2K", "1.50M", "x", "3Q"].map(number);
        assert_eq!(all, [Some(128), Some(2048), Some(1_572_864), None, None]);
        assert_eq!(count("a:20000000T,a:20000000T", "a", ':'), u64::MAX);
    }

    #[test]
    fn what_fails_is_said() {
        assert_eq!(run("echo", &["a"]).unwrap(), "a\n");
        let error = run("ls", &["/no/such"]).unwrap_err().to_string();
        assert!(error.starts_with("ls /no/such: "), "{error}");
        assert!(run("no-such-program", &[]).is_err());
    }
}
