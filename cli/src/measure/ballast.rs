//! Makes the memory of large GPUs short, by the example that does nothing but hold it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use mgb_command::machine::Machine;

use super::Environment;

/// A program that holds memory until this is dropped.
#[derive(Debug)]
pub struct Ballast {
    process: Child,
}

impl Ballast {
    /// Takes all but `leave` bytes of every GPU that is visible. Returns when everything is held.
    pub fn load(program: &Path, leave: u64, machine: &Machine, environment: &Environment) -> Result<Self> {
        if !program.exists() {
            bail!("{} is missing: run `make examples` first", program.display());
        }
        let mut command = Command::new(program);
        command.arg(leave.to_string());
        machine.apply(&mut command);
        command
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .env("MGB", "off");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        let mut ballast = Self { process };
        let output = ballast
            .process
            .stdout
            .take()
            .context("the ballast has no output")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .context("failed to hear from the ballast")?;
        if line.trim() != "ballast: ready" {
            bail!("the ballast failed to take memory; its error is above");
        }
        Ok(ballast)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // It ends when its input does; by force where it hangs in the driver.
        drop(self.process.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
