//! `mgb run`: one program on shared GPUs. Every job of a batch starts through here as well.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use mgb_command::daemon::{self, Start};
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::frameworks;
use mgb_command::machine::Machine;
use mgb_command::prefix::Prefix;
use mgb_core::mps;
use mgb_interface::{Policy, Queue};
use mgb_probe::{BeginRequest, Class, Client, Deadline, Grant, Hello, Need, Refusal, need};
use serde::{Deserialize, Serialize};

use crate::deadline::{self, Prospect};
use crate::program::{self, ProgramError};
use crate::waits;

/// Run a program on the GPUs that mgbd shares, starting mgbd if none runs.
///
/// A program built with `mgb clang` asks for room task by task. Any other program asks for room whenever it
/// allocates device memory, and waits where there is none: it loads MGB's driver front instead of the driver.
/// With --need its whole process is one task of that size, which sees only the GPU that it was granted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb run ./app 1000
  mgb run --need 12GiB ./not-rebuilt --batch 32
  mgb run --gpus 2 torchrun --nproc-per-node 2 train.py
  mgb run --latency python3 serve.py
  mgb run --share 25% ./background
  mgb run --deadline 18:30 --or-refuse ./report

Exit code: the program's; 123 if --or-refuse did not start it, 125 if MGB failed, 126 if the program cannot be executed, 127 if it was not found.")]
pub struct Args {
    /// Treat the whole process as one task that takes this much GPU memory (such as 12GiB, 512M).
    #[arg(long, value_name = "SIZE", value_parser = mgb_probe::byte_size::parse)]
    need: Option<u64>,
    /// Place the program, with all processes that it starts, as a job of this many GPUs: it sees these only.
    /// With --need it takes that much on each of them.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus: Option<u32>,
    /// Somebody waits for what the program computes: its work goes before that of batch programs.
    #[arg(long)]
    latency: bool,
    /// The program's kernels have at most this percentage of each GPU's multiprocessors (such as 25%),
    /// whoever else is there. It holds by MPS.
    #[arg(long, value_name = "PERCENT", value_parser = mps::parse_share)]
    share: Option<u32>,
    /// When the program is to have ended: in a span of time such as 90s or 1h30m, or at the next time that
    /// the clock shows, such as 18:30. It orders what waits under --queue edf and laxity. What is expected is
    /// said before the program starts.
    #[arg(long, value_name = "TIME", value_parser = deadline::parse)]
    deadline: Option<Deadline>,
    /// Do not start the program, and exit with 123, if it is expected to miss its deadline.
    #[arg(long, requires = "deadline")]
    or_refuse: bool,
    #[arg(
        help = concat!("Policy for an mgbd that is started now: ", mgb_interface::policy_names!()),
        long,
        value_name = "POLICY"
    )]
    policy: Option<Policy>,
    /// The order in which tasks are served, for an mgbd that is started now: in-order, backfill,
    /// shortest, largest, or by deadlines edf or laxity.
    #[arg(long, value_name = "ORDER")]
    queue: Option<Queue>,
    /// Write how the process was placed to this file (for mgb batch).
    #[arg(long, hide = true)]
    placement: Option<PathBuf>,
    /// What the processes of this job are to know it by (for mgb batch).
    #[arg(long, hide = true)]
    job: Option<String>,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// How a whole process was placed; `mgb batch` reads it.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessPlacement {
    /// The GPU's number in mgbd's hello.
    pub gpu: Option<u32>,
    /// Those of its further ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<u32>,
    /// Nanoseconds that it waited for room.
    pub waited_ns: u64,
    /// Why it got none.
    pub refused: Option<String>,
    /// When it was expected to end, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<f64>,
}

impl ProcessPlacement {
    /// All its GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.gpu.into_iter().chain(self.further.iter().copied())
    }
}

/// Runs the command. Returns only if the program could not be started.
pub fn run(args: &Args) -> CommandResult {
    let name = args.command[0].to_string_lossy();
    let program = program::find(&name).map_err(|error| match error {
        ProgramError::NotFound(..) => Failure::new(exit::RUN_NOT_FOUND, error),
        ProgramError::CannotExecute(..) => Failure::new(exit::RUN_CANNOT_EXECUTE, error),
    })?;
    let mut command = Command::new(&program);
    command.arg0(&args.command[0]).args(&args.command[1..]);
    if let Prepared::Refused(why) = prepare(args, &program, &mut command).code(exit::RUN_FAILED)? {
        return Err(Failure::new(exit::RUN_REFUSED, anyhow!(why)));
    }
    let error = command.exec();
    Err(anyhow!(error).context(format!("failed to execute {}", program.display())))
        .code(exit::RUN_CANNOT_EXECUTE)
}

/// What has become of a program's start.
enum Prepared {
    /// The program may start now.
    Ready,
    /// It is not to be started, for this reason.
    Refused(String),
}

fn prepare(args: &Args, program: &Path, command: &mut Command) -> anyhow::Result<Prepared> {
    let prefix = Prefix::find()?;
    let machine = Machine::find(&prefix)?;
    machine.notice();
    machine.apply(command);
    if args.latency {
        command.env(mgb_probe::CLASS, Class::Latency.name());
    }
    let share = share(args)?;
    if let Some(share) = share {
        command.env(mps::SHARE, format!("{share}%"));
    }
    if std::env::var_os("MGB").is_some_and(|value| value == "off") {
        return Ok(Prepared::Ready);
    }
    let start = Start::shared(&prefix, &machine, args.policy, args.queue);
    let observer = daemon::ensure(&start)?;
    let policy = observer.hello().policy.parse::<Policy>().ok();
    if let Some(share) = share.filter(|share| *share < 100)
        && let Some(why) = mps::why_no_share(observer.hello(), program)
    {
        bail!(
            "a share of {share}% holds by MPS, and {why}: leave --share ({}) away to run it without",
            mps::SHARE
        );
    }
    // mgbd stays for as long as this process lives. So does room that is given to it: the connection closes
    // when the program replaces mgb, the pid stays.
    let client = Client::connect(&start.socket).map_err(daemon::way_out)?;
    let places_processes = policy.filter(Policy::places_processes);
    if let Some(policy) = places_processes.filter(|_| args.gpus.is_some()) {
        bail!(
            "policy {policy} gives each process one GPU, so --gpus does not apply: start mgbd with another policy, or \
             leave --gpus away"
        );
    }
    let job = args.job.clone().unwrap_or_else(mgb_probe::new_job);
    let run = run_number(program, args, share);
    let prospect = expect(args, run, &job, &client);
    if let Some(deadline) = args.deadline {
        let said = prospect.sentence(deadline.left());
        if args.or_refuse && prospect.is_missed() {
            return Ok(Prepared::Refused(format!(
                "{said}: not started (leave --or-refuse away to start it all the same)"
            )));
        }
        mgb_command::tell!("mgb: {said}");
        command.env(mgb_probe::DEADLINE, deadline.to_string());
    }
    let ends = prospect.ends().filter(|_| args.deadline.is_some());
    let expected_end = ends.map(Deadline::within);
    match expected_end {
        Some(end) => command.env(mgb_probe::EXPECTED_END, end.to_string()),
        None => command.env_remove(mgb_probe::EXPECTED_END),
    };
    let gpus = args.gpus.map(|count| place(&client, &job, count)).transpose()?;
    // A job within a job of several GPUs has an order of its own, unless it has several as well.
    command.env_remove(mgb_probe::GPUS);
    if args.need.is_none() && places_processes.is_none() {
        if let Some(gpus) = gpus {
            command.env("CUDA_VISIBLE_DEVICES", names(client.hello(), &gpus)?);
            command.env(mgb_probe::GPUS, gpus.len().to_string());
        }
        frameworks::under_mgbd(&machine, &prefix, &job, command)?;
        return Ok(Prepared::Ready);
    }
    let label = args.command[0].to_string_lossy();
    let name = Path::new(&args.command[0])
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let need = process_need(args);
    let ask = || begin(&client, need, gpus.as_deref(), &name);
    // `mgb batch` shows by itself what its jobs wait for.
    let granted = match args.placement {
        None => waits::told(&start.socket, client.pid(), ask),
        Some(_) => ask(),
    };
    if let Some(file) = &args.placement {
        let text =
            serde_json::to_string(&placement(&granted, expected_end)).context("failed to write JSON")?;
        std::fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))?;
    }
    let grants = granted.with_context(|| format!("failed to place {label}"))?;
    if args.need.is_some() {
        frameworks::take_as_needed(command);
        command.env(mgb_probe::NEED_MARK, mgb_probe::new_job());
    }
    confine(command, client.hello(), &grants)?;
    Ok(Prepared::Ready)
}

/// The share that the command line names, or else the environment.
fn share(args: &Args) -> anyhow::Result<Option<u32>> {
    let of_environment = || {
        let text = std::env::var_os(mps::SHARE).filter(|text| !text.is_empty())?;
        Some(mps::parse_share(&text.to_string_lossy()))
    };
    let share = args.share.map(Ok).or_else(of_environment).transpose();
    share.map_err(|why| anyhow!("{}: {why}", mps::SHARE))
}

/// What is expected of the program, which starts now unless that is a reason not to.
fn expect(args: &Args, run: u64, job: &str, client: &Client) -> Prospect {
    let Some(job) = mgb_probe::job_number(job) else {
        return Prospect::Unknown;
    };
    let ask = |starts| {
        let expected = client.expect(job, run, process_need(args), starts);
        // An mgbd that cannot say it is no reason not to start a program.
        let expected = expected.ok().flatten();
        Prospect::of(expected, args.deadline.and_then(Deadline::left))
    };
    let prospect = ask(!args.or_refuse);
    if args.or_refuse && !prospect.is_missed() {
        ask(true);
    }
    prospect
}

/// The number by which mgbd knows the program with its arguments, its need and its share: another one once
/// its file changes.
fn run_number(program: &Path, args: &Args, share: Option<u32>) -> u64 {
    let file = std::fs::metadata(program).ok();
    let file = file.map(|file| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec()));
    let mut hasher = DefaultHasher::new();
    (program, file, &args.command[1..], args.need, args.gpus).hash(&mut hasher);
    // What was remembered before there were shares still holds.
    if let Some(share) = share {
        share.hash(&mut hasher);
    }
    hasher.finish()
}

/// What a process asks for that is one task.
fn process_need(args: &Args) -> Need {
    Need {
        peak_bytes: args.need.unwrap_or(0),
        flags: need::PROCESS,
        deadline_ns: args.deadline.map_or(0, Deadline::left_ns),
        ..Need::default()
    }
}

/// The GPUs that mgbd chooses for a job, in the order in which all such jobs count theirs.
fn place(client: &Client, job: &str, count: u32) -> anyhow::Result<Vec<u32>> {
    let number = mgb_probe::job_number(job).context("the job's number is none")?;
    match client.place(number, count) {
        Ok(gpus) if gpus.len() == count as usize => Ok(gpus),
        Err(Refusal::NoGpu) => bail!(
            "failed to place the job on {count} GPUs: {} visible here and taking jobs (`mgb status` lists all); ask \
             for no more",
            match client.visible().count_ones() {
                1 => "at most 1 is".to_owned(),
                there => format!("at most {there} are"),
            }
        ),
        Ok(gpus) => bail!(
            "failed to place the job on {count} GPUs: mgbd named {} of them",
            gpus.len()
        ),
        Err(refusal) => {
            Err(anyhow!(refusal)).with_context(|| format!("failed to place the job on {count} GPUs"))
        }
    }
}

/// A value of `CUDA_VISIBLE_DEVICES`.
fn names(hello: &Hello, gpus: &[u32]) -> anyhow::Result<String> {
    let name = |gpu: &u32| hello.gpus.get(*gpu as usize).map(|gpu| gpu.uuid.as_str());
    let names: Option<Vec<&str>> = gpus.iter().map(name).collect();
    Ok(names
        .context("mgbd granted a GPU that it did not name")?
        .join(","))
}

/// Room for a whole process: on these GPUs each, one after the other, so that jobs of several wait for each other
/// in one order; or on one that mgbd chooses.
fn begin(client: &Client, need: Need, gpus: Option<&[u32]>, name: &str) -> Result<Vec<Grant>, Refusal> {
    let on = |gpu| {
        client.begin(&BeginRequest {
            need,
            gpu,
            name: Some(name),
            whole_process: true,
            ..BeginRequest::default()
        })
    };
    match gpus {
        Some(gpus) => gpus.iter().map(|gpu| on(Some(*gpu))).collect(),
        None => on(None).map(|grant| vec![grant]),
    }
}

fn placement(granted: &Result<Vec<Grant>, Refusal>, expected_end: Option<Deadline>) -> ProcessPlacement {
    let expected_end = expected_end.map(Deadline::as_secs_f64);
    match granted {
        Ok(grants) => ProcessPlacement {
            gpu: grants.first().map(|grant| grant.gpu),
            further: grants.iter().skip(1).map(|grant| grant.gpu).collect(),
            waited_ns: grants
                .iter()
                .map(|grant| u64::try_from(grant.waited.as_nanos()).unwrap_or(u64::MAX))
                .fold(0, u64::saturating_add),
            refused: None,
            expected_end,
        },
        Err(refusal) => ProcessPlacement {
            refused: Some(refusal.to_string()),
            expected_end,
            ..ProcessPlacement::default()
        },
    }
}

/// Shows the program only the GPUs it was granted, under the MPS that all programs on them use, if it can.
fn confine(command: &mut Command, hello: &Hello, grants: &[Grant]) -> anyhow::Result<()> {
    let gpus: Vec<u32> = grants.iter().map(|grant| grant.gpu).collect();
    command
        .env("CUDA_VISIBLE_DEVICES", names(hello, &gpus)?)
        .env("MGB", "off");
    let outside = mps::why_program_outside(Path::new(command.get_program()));
    let set = |name: &str| {
        let of_command = command.get_envs().find(|(known, _)| *known == name);
        of_command.map_or_else(|| std::env::var_os(name), |(_, value)| value.map(OsString::from))
    };
    let variables = mps::variables(hello, outside.as_deref(), set);
    if let Some(why) = outside.filter(|_| !variables.is_empty()) {
        mgb_stderr::say!("mgb: {}", mps::notice(&why));
    }
    command.envs(variables);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_kept_for_the_batch() {
        let refusal = Refusal::NeverFits {
            wanted: 96 << 30,
            largest: 80 << 30,
        };
        let refused = placement(&Err(refusal), None);
        assert_eq!(
            refused.refused.as_deref(),
            Some("needs 96.0 GiB, the largest GPU has 80.0 GiB")
        );
        let text = serde_json::to_string(&refused).unwrap();
        assert_eq!(serde_json::from_str::<ProcessPlacement>(&text).unwrap(), refused);
    }
}
