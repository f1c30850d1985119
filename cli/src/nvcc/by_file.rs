//! Sources that clang does not take as CUDA, found one by one: NVIDIA's nvcc compiles each of them, as with
//! `--keep-nvcc`, and clang all others. Objects of both kinds link into one program.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::UNIX_EPOCH;
use std::{env, fs, io};

use anyhow::{Context, Result};
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::prefix::Prefix;

use super::inputs::{Input, InputKind};
use super::keep;
use super::launches::{Overlay, by_clang};
use super::parse::{NvccCommandLine, OptionWord};
use super::table::{Fate, Meaning, Stop};
use super::translate::{self, CompilePlan, Toolkit};
use crate::clang;
use crate::legacy;

/// Whether sources may go to nvcc one by one: they become objects, each with all of its device code.
pub fn applies(plan: &CompilePlan, across_files: bool) -> bool {
    let makes_objects = matches!(plan.stop, Stop::Compile | Stop::Link);
    // Standard input can be read once.
    let can_be_read_again = plan.inputs.iter().all(|input| input.name != "-");
    let is_taken = makes_objects && can_be_read_again && !across_files;
    is_taken && plan.inputs.iter().any(is_cuda) && !keep::is_ruled_out()
}

fn is_cuda(input: &Input) -> bool {
    input.kind == InputKind::Source("cuda")
}

/// The command lines that make an output of each source, where one is to make several that are named after their
/// sources and are not simply left in this folder, as clang does by itself.
///
/// # Errors
/// On inputs that cannot be taken.
pub fn one_by_one(request: &NvccCommandLine) -> Result<Option<Vec<NvccCommandLine>>> {
    let stop = translate::last_step(request);
    let has_folder = request.has(Meaning::OutputFolder);
    let is_named = request.has(Meaning::Output);
    let makes_each = match stop {
        Stop::Compile | Stop::DeviceCompile => has_folder,
        Stop::Ptx | Stop::Cubin | Stop::Fatbin => true,
        _ => false,
    };
    if !makes_each || is_named || request.inputs().count() < 2 {
        return Ok(None);
    }
    let words = options(request, |_| false);
    let of = |name: &str| {
        let words = words.iter().map(String::as_str).chain([name]);
        NvccCommandLine::parse(words.map(OsString::from))
    };
    request.inputs().map(of).collect::<Result<_>>().map(Some)
}

/// Compiles, and links if that is asked for.
pub fn build(
    request: &NvccCommandLine,
    plan: &CompilePlan,
    toolkit: &Toolkit,
    prefix: &Prefix,
) -> CommandResult {
    if plan.stop == Stop::Compile
        && let [input] = plan.inputs.as_slice()
    {
        let object = plan.output.clone().unwrap_or_else(|| input.renamed("o"));
        let status = FileCompilation::new(request, &input.name, object).compile(plan, prefix)?;
        return Ok(clang::exit_as(status));
    }
    // Nearly always clang takes all of them.
    let tried = clang_quietly(&plan.words, &plan.inputs).code(exit::NODE)?;
    if let Err(line) = left_to_nvcc(&tried, prefix) {
        return Ok(clang::exit_as(said(&tried, &line)));
    }
    let folder = tempfile::Builder::new()
        .prefix("mgb-")
        .tempdir()
        .context("failed to make a temporary folder; set TMPDIR to a writable folder")
        .code(exit::NODE)?;
    let mut objects = Vec::new();
    for (number, input) in plan.inputs.iter().enumerate() {
        if input.kind == InputKind::Linked {
            objects.push(input.name.clone());
            continue;
        }
        let object = if plan.stop == Stop::Link {
            folder.path().join(number.to_string()).join(input.renamed("o"))
        } else {
            input.renamed("o")
        };
        if let Some(place) = object.parent() {
            fs::create_dir_all(place)
                .with_context(|| format!("failed to make {}", place.display()))
                .code(exit::NODE)?;
        }
        objects.push(object.display().to_string());
        let source = FileCompilation::new(request, &input.name, object);
        let alone = translated(&source.words, toolkit).code(exit::USAGE)?;
        if is_cuda(input) {
            let status = source.compile(&alone, prefix)?;
            if !status.success() {
                drop(folder);
                return Ok(clang::exit_as(status));
            }
        } else {
            let code = by_clang(&alone)?;
            if code != exit::OK {
                return Ok(code);
            }
        }
    }
    if plan.stop != Stop::Link {
        return Ok(exit::OK);
    }
    let link = translated(&linking(request, &objects), toolkit).code(exit::USAGE)?;
    by_clang(&link)
}

fn translated(words: &[String], toolkit: &Toolkit) -> Result<CompilePlan> {
    let request = NvccCommandLine::parse(words.iter().map(OsString::from))?;
    translate::translate(&request, toolkit)
}

/// One source on its way to an object.
struct FileCompilation<'a> {
    name: &'a str,
    object: PathBuf,
    /// nvcc's command line for it.
    words: Vec<String>,
}

impl FileCompilation<'_> {
    fn new<'a>(request: &NvccCommandLine, name: &'a str, object: PathBuf) -> FileCompilation<'a> {
        let mut words = options(request, |meaning| {
            matches!(
                meaning,
                Meaning::Output | Meaning::OutputFolder | Meaning::Stop(_) | Meaning::Library
            )
        });
        words.extend(["-c".into(), name.into(), "-o".into()]);
        words.push(object.display().to_string());
        FileCompilation { name, object, words }
    }

    /// By clang, else by nvcc; how that ended. `plan`: what clang is to do.
    fn compile(&self, plan: &CompilePlan, prefix: &Prefix) -> Result<ExitStatus, Failure> {
        let known = self.is_known();
        let tried = if known {
            None
        } else {
            let tried = clang_quietly(&plan.words, &plan.inputs).code(exit::NODE)?;
            if tried.status.success() {
                let _ = fs::remove_file(self.note());
            }
            if let Err(line) = left_to_nvcc(&tried, prefix) {
                return Ok(said(&tried, &line));
            }
            Some(tried)
        };
        let mut nvcc = keep::command(self.words.iter().map(OsString::from).collect()).code(exit::NODE)?;
        // They are among the words.
        keep::FLAGS.iter().for_each(|name| {
            nvcc.env_remove(name);
        });
        let made = clang::output(&mut nvcc)
            .context("failed to run NVIDIA's nvcc")
            .code(exit::NODE)?;
        if made.status.code().is_none() {
            // Interrupted.
            return Ok(said(&made, ""));
        }
        let name = self.name;
        Ok(match (&tried, made.status.success()) {
            (Some(tried), true) => {
                self.keep_in_mind();
                let why = first_error(&tried.stderr);
                let line =
                    format!("mgb nvcc: {name}: compiled by NVIDIA's nvcc: clang does not take it ({why})");
                said(&made, &line)
            }
            (None, true) => said(
                &made,
                &format!("mgb nvcc: {name}: compiled by NVIDIA's nvcc, as before"),
            ),
            (Some(tried), false) => {
                let line = format!("mgb nvcc: {name}: NVIDIA's nvcc does not compile it either");
                said(tried, &with_hint(line, tried))
            }
            (None, false) => {
                // clang says what is wrong, the next time.
                let _ = fs::remove_file(self.note());
                said(&made, "")
            }
        })
    }

    /// Beside the object: what the source was when nvcc compiled it.
    fn note(&self) -> PathBuf {
        let mut name = self.object.clone().into_os_string();
        name.push(".by-nvcc");
        name.into()
    }

    /// Changes with the source, with how it is compiled, and with MGB.
    fn state(&self) -> Option<String> {
        let of = |file: &Path| {
            let data = fs::metadata(file).ok()?;
            let changed = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            Some(format!(
                "{} {} {}\n",
                changed.as_nanos(),
                data.len(),
                file.display()
            ))
        };
        let how = format!("{} {}\n", legacy::is_wanted(), self.words.join(" "));
        Some(of(Path::new(self.name))? + &of(&env::current_exe().ok()?)? + &how)
    }

    fn is_known(&self) -> bool {
        let kept = fs::read_to_string(self.note()).ok();
        kept.is_some() && kept == self.state()
    }

    /// So that the next build does not try clang first. Where that cannot be kept, it does.
    fn keep_in_mind(&self) {
        if let Some(state) = self.state() {
            let _ = fs::write(self.note(), state);
        }
    }
}

/// `mgb clang++` as a child, whose words are kept: they are for nobody where nvcc takes the source.
fn clang_quietly(words: &[String], inputs: &[Input]) -> Result<Output> {
    let overlay = Overlay::of(inputs)?;
    let mut command = Command::new(env::current_exe().context("failed to find this program")?);
    command.arg("clang++");
    match &overlay {
        Some(overlay) => command.args(overlay.before(words)),
        None => command.args(words),
    };
    clang::output(&mut command).context("failed to run mgb clang++")
}

/// Whether nvcc is to try: clang has refused something, and there is one.
///
/// # Errors
/// Else, with a line for the user if nvcc is what is missing.
fn left_to_nvcc(tried: &Output, prefix: &Prefix) -> Result<(), String> {
    // It ends otherwise where MGB lacks a part, and by signals.
    if tried.status.code() != Some(1) {
        return Err(String::new());
    }
    match keep::path(prefix) {
        Ok(_) => Ok(()),
        Err(error) => {
            let line = format!("mgb nvcc: what clang does not take, NVIDIA's nvcc may: {error:#}");
            Err(with_hint(line, tried))
        }
    }
}

/// The line, and what else may help.
fn with_hint(line: String, tried: &Output) -> String {
    match legacy::hint(&first_error(&tried.stderr)) {
        Some(hint) => format!("{line}; {hint}"),
        None => line,
    }
}

/// Prints what a compiler said, and a line of our own; how it ended.
fn said(ended: &Output, line: &str) -> ExitStatus {
    // Nobody reads it where that fails.
    let _ = io::stdout().write_all(&ended.stdout);
    let _ = io::stderr().write_all(&ended.stderr);
    if !line.is_empty() {
        mgb_command::tell!("{line}");
    }
    ended.status
}

/// clang's first error, in one line.
fn first_error(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let error = lines().find(|line| line.contains("error"));
    error.or(lines().next()).unwrap_or("it said nothing").to_owned()
}

/// The options again as nvcc reads them, but for some.
fn options(request: &NvccCommandLine, leave: impl Fn(Meaning) -> bool) -> Vec<String> {
    let mut words = Vec::new();
    for given in &request.given {
        match given {
            OptionWord::Input(_) => {}
            OptionWord::Unknown(word) => words.push(word.clone()),
            OptionWord::Option { entry, values, .. } => {
                if matches!(entry.fate, Fate::Means(meaning) if leave(meaning)) {
                    continue;
                }
                if values.is_empty() {
                    words.push(format!("--{}", entry.long));
                }
                let escaped = values.iter().map(|value| entry.written(value));
                words.extend(escaped.map(|value| format!("--{}={value}", entry.long)));
            }
        }
    }
    words
}

/// The command line that links these objects as the whole one would have.
fn linking(request: &NvccCommandLine, objects: &[String]) -> Vec<String> {
    let mut words = options(request, |meaning| matches!(meaning, Meaning::Language));
    words.extend(objects.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> NvccCommandLine {
        NvccCommandLine::parse(shlex::split(text).unwrap().into_iter().map(OsString::from)).unwrap()
    }

    #[test]
    fn options_are_read_again_as_they_were() {
        let text = r#"-O3 -Iinclude -DX=f(1\,2) -D 'NAME="a b"' -Xcompiler -fPIC,-Wl\,-z\,now
            -gencode arch=compute_80,code=[sm_80,compute_80] -std=c++17 --expt-relaxed-constexpr -lineinfo
            -lm -x cu -o app"#;
        let first = parse(text);
        let again = parse(&shlex::try_join(options(&first, |_| false).iter().map(String::as_str)).unwrap());
        let values = |request: &NvccCommandLine| -> Vec<(&str, Vec<String>)> {
            let mut all: Vec<(&str, Vec<String>)> = Vec::new();
            for given in &request.given {
                let OptionWord::Option { entry, values, .. } = given else {
                    continue;
                };
                match all.last_mut() {
                    Some((long, known)) if *long == entry.long => known.extend(values.iter().cloned()),
                    _ => all.push((entry.long, values.clone())),
                }
            }
            all
        };
        assert_eq!(values(&again), values(&first));
    }

    #[test]
    fn a_source_is_compiled_without_what_is_for_the_link() {
        let request = parse("-O2 a.cu b.cu -o app -lm -Iinclude");
        let source = FileCompilation::new(&request, "b.cu", "/t/b.o".into());
        assert_eq!(
            source.words,
            [
                "--optimize=2",
                "--include-path=include",
                "-c",
                "b.cu",
                "-o",
                "/t/b.o"
            ]
        );
        let words = linking(&request, &["/t/a.o".into(), "/t/b.o".into()]);
        assert_eq!(
            words,
            [
                "--optimize=2",
                "--output-file=app",
                "--library=m",
                "--include-path=include",
                "/t/a.o",
                "/t/b.o"
            ]
        );
    }

    #[test]
    fn the_first_error_is_one_line() {
        let said = b"a.cu:1:1: warning: w\na.cu:3:5: error: no\n  int\n";
        assert_eq!(first_error(said), "a.cu:3:5: error: no");
        assert_eq!(first_error(b""), "it said nothing");
    }
}
