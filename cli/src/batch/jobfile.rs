//! The job file: a command a line.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};

use anyhow::{Context, Result, bail};
use mgb_probe::Deadline;

use super::auto::peaks::HostKind;
use super::line::{JobCommand, JobLine};
use crate::program;

/// What reads lines that begin with `sh:`.
const SHELL: &str = "/bin/sh";
/// Where jobs write what the batch's summary is made of.
const TRACE: &str = "MGB_TRACE";

/// A job of a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileJob {
    /// From 1, in the order of the file.
    pub number: usize,
    /// The command as written.
    pub text: String,
    /// GPU memory of the whole process in bytes, for a program that was not built with MGB.
    pub need: Option<u64>,
    /// How many GPUs it is placed on as one; `None`: it was not said.
    pub gpus: Option<u32>,
    /// When it is to have ended; a span counts from when the file was read.
    pub deadline: Option<Deadline>,
    /// The program's file.
    pub program: PathBuf,
    /// The arguments of the job's command.
    pub arguments: Vec<String>,
    /// Variables of its environment beside the batch's.
    pub environment: Vec<(String, String)>,
}

impl FileJob {
    /// What it is like.
    pub fn kind(&self) -> HostKind<'_> {
        HostKind {
            text: &self.text,
            program: &self.program,
        }
    }

    /// A job of one of MGB's own programs in `folder`: the error names its `kind`, and the
    /// `target` of make that builds it.
    ///
    /// # Errors
    /// When the program was not built.
    pub fn of_own(
        number: usize,
        (kind, target): (&str, &str),
        folder: &Path,
        name: &str,
        arguments: Vec<String>,
    ) -> Result<Self> {
        let program = folder.join(name);
        if !program.exists() {
            bail!(
                "the {kind} {} is missing: run `make {target}` first",
                program.display()
            );
        }
        Ok(Self {
            number,
            text: format!("{name} {}", arguments.join(" ")),
            need: None,
            gpus: None,
            deadline: None,
            program,
            arguments,
            environment: Vec::new(),
        })
    }
}

/// Reads the file, and checks that every program in it can be started.
///
/// # Errors
/// Naming every line that is wrong, since the user will want to mend all of them at once.
pub fn read(file: &Path) -> Result<Vec<FileJob>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| {
        format!("failed to read the job file {shown} (a text file with a command a line)")
    })?;
    let mut jobs = Vec::new();
    let mut wrong = String::new();
    for (index, line) in text.lines().enumerate() {
        match parse(line) {
            Ok(None) => {}
            Ok(Some(parsed)) => jobs.push(FileJob {
                number: jobs.len() + 1,
                ..parsed
            }),
            Err(why) => {
                // Writing to a String cannot fail.
                let _ = write!(wrong, "\n  {shown}:{}: {why}", index + 1);
            }
        }
    }
    if !wrong.is_empty() {
        bail!("nothing was started, because the job file has errors:{wrong}");
    }
    if jobs.is_empty() {
        bail!("the job file {shown} holds no command: write one a line");
    }
    Ok(jobs)
}

/// One line: nothing for an empty one or a comment.
fn parse(line: &str) -> Result<Option<FileJob>, String> {
    let parsed = JobLine::parse(line)?;
    let Some(command) = parsed.command else {
        return Ok(None);
    };
    let of = |wanted: &str| {
        let found = parsed.environment.iter().rev().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    if of(TRACE).is_some() {
        return Err(format!(
            "{TRACE}= is the batch's own: set it for all jobs, before mgb batch"
        ));
    }
    let (program, arguments) = match command {
        JobCommand::Words(mut words) => {
            let arguments = words.split_off(1);
            let program = program::find_in(&words[0], of("PATH").map(OsStr::new));
            (program.map_err(|error| error.to_string())?, arguments)
        }
        JobCommand::Shell(text) => {
            check_syntax(&text)?;
            (PathBuf::from(SHELL), vec!["-c".to_owned(), text])
        }
    };
    Ok(Some(FileJob {
        number: 0,
        text: line.trim().to_owned(),
        need: parsed.need,
        gpus: parsed.gpus,
        deadline: parsed.deadline,
        program,
        arguments,
        environment: parsed.environment,
    }))
}

/// A job of text that a shell reads.
///
/// # Errors
/// Why it does not.
pub fn of_shell(text: &str) -> Result<FileJob, String> {
    check_syntax(text)?;
    Ok(FileJob {
        number: 1,
        text: format!("sh: {}", text.trim()),
        need: None,
        gpus: None,
        deadline: None,
        program: PathBuf::from(SHELL),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        environment: Vec::new(),
    })
}

/// Has the shell read its text without doing anything.
fn check_syntax(text: &str) -> Result<(), String> {
    let read = process::Command::new(SHELL)
        .args(["-n", "-c", text])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("failed to run {SHELL}: {error}"))?;
    if read.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&read.stderr);
    Err(format!("{SHELL} does not take it: {}", said.trim()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_text(text: &str) -> Result<Vec<FileJob>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.txt");
        fs::write(&file, text).unwrap();
        // The folder's name changes from run to run.
        read(&file).map_err(|error| {
            anyhow::anyhow!(format!("{error:#}").replace(file.to_str().unwrap(), "jobs.txt"))
        })
    }

    #[test]
    fn commands_needs_and_comments() {
        let jobs = read_text(
            "# the first\n\n/bin/echo 'a b' c\\ d # and why\n  need=1.5GiB gpus=2 /bin/sh -c \"exit 0\"\n\t\n/bin/true\n\
             SEED=7 MODE='a b' sh: /bin/echo $SEED | /bin/cat\n",
        );
        insta::assert_debug_snapshot!(jobs.unwrap());
    }

    #[test]
    fn every_wrong_line_is_named() {
        let error = read_text(
            "/bin/true\n./no_such_program 5\nneed=many /bin/true\nneed=1GiB\n/bin/echo 'open\n/etc/passwd\n\
             /bin/echo a | /bin/cat\nMGB_TRACE=x /bin/true\n",
        );
        insta::assert_snapshot!(error.unwrap_err());
    }

    #[test]
    fn a_shell_reads_its_lines_before_anything_starts() {
        let error = read_text("/bin/true\nsh: if true\n").unwrap_err().to_string();
        assert!(error.contains("jobs.txt:2: /bin/sh does not take it"), "{error}");
    }

    #[test]
    fn files_without_commands() {
        insta::assert_snapshot!(read_text("# nothing\n").unwrap_err());
        let missing = format!("{:#}", read(Path::new("nowhere.txt")).unwrap_err());
        assert!(
            missing.starts_with("failed to read the job file nowhere.txt"),
            "{missing}"
        );
    }

    #[test]
    fn a_nul_is_named_before_anything_starts() {
        let error = read_text("/bin/true\n/bin/echo a\0b\n").unwrap_err().to_string();
        assert!(error.contains("jobs.txt:2: it has a NUL character"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_jobs_or_an_error(
            text in r#"((need=|gpus=|deadline=)?[0-9.]{0,4}[KMGi]{0,2} |/bin/true|['"\\ #\n\x00]|\PC){0,20}"#
        ) {
            match read_text(&text) {
                Ok(jobs) => for job in jobs {
                    prop_assert!(job.arguments.iter().all(|argument| !argument.contains('\0')));
                    prop_assert!(text.contains(&job.text));
                },
                Err(error) => prop_assert!(error.to_string().contains("jobs.txt"), "{}", error),
            }
        }
    }
}
