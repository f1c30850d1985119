//! Make's rules (`-MD`, `-M` and their like) of CUDA sources: with the headers that only device code includes.
//!
//! clang writes the host's headers alone, so that make, ninja, and ccache's depend mode would leave a program
//! as it is where a header has changed that only its kernels see. clang also lists every header that any of
//! its compilations opens (`CC_PRINT_HEADERS`), which costs nothing; those that a rule lacks are added to it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::language::Language;
use super::parse::{Argument, ArgumentKind, CommandLine};
use super::{across, preprocess};

/// Where clang lists the headers that it opens, and what asks for it.
const LIST: [&str; 2] = ["CC_PRINT_HEADERS_FILE", "CC_PRINT_HEADERS"];
/// Where headers of the system lie in any case.
const SYSTEM: [&str; 4] = ["/usr/include", "/usr/local/include", "/usr/lib", "/usr/lib32"];
/// Options whose folders hold headers that count as the system's.
const SYSTEM_OPTIONS: [&str; 5] = [
    "-isystem",
    "-isystem-after",
    "-idirafter",
    "-cxx-isystem",
    "-stdlib++-isystem",
];

/// The rules that a command writes, and what they are completed from.
pub struct MakeRules {
    /// Holds the list, and a rule that is to be printed.
    folder: TempDir,
    /// The files that clang writes.
    files: Vec<PathBuf>,
    /// Where the rule goes in the end, if it is all that is made and clang does not write it there.
    printed: Option<Destination>,
    /// Each header gets an empty rule of its own (`-MP`).
    has_phony: bool,
    /// Folders whose headers are left out (`-MMD`, `-MM`).
    left_out: Vec<PathBuf>,
}

/// Where a rule is printed.
enum Destination {
    Stdout,
    File(PathBuf),
}

/// What a command line asks for.
#[derive(Default)]
struct RuleRequest {
    /// Rules beside a compile, or alone.
    beside: bool,
    alone: bool,
    without_system: bool,
    has_phony: bool,
    file: Option<PathBuf>,
}

impl MakeRules {
    /// What `line` asks for; none where it asks for no rules, or compiles CUDA for one side only. Headers in
    /// `system` count as the system's, beside those in folders that the line names so.
    ///
    /// # Errors
    /// When there is no folder for the list.
    pub fn of(line: &mut CommandLine, system: &[PathBuf]) -> Result<Option<MakeRules>> {
        let asked = RuleRequest::of(line);
        if !(asked.beside || asked.alone) || !preprocess::has_both_sides(line) {
            return Ok(None);
        }
        let folder = across::own_folder()?;
        let mut printed = None;
        let files = match asked.file {
            Some(file) if file.as_os_str() != "-" => vec![file],
            Some(_) => return Ok(None),
            None if asked.alone => {
                let destination = preprocess::take_output(line).filter(|output| output != "-");
                printed =
                    Some(destination.map_or(Destination::Stdout, |output| Destination::File(output.into())));
                let file = folder.path().join("rule");
                line.add("-MF", ArgumentKind::Other);
                line.add(&file, ArgumentKind::Other);
                vec![file]
            }
            None => beside_outputs(line),
        };
        if preprocess::is_wanted(line) {
            keep_names(line, &files);
        }
        let left_out = if asked.without_system {
            system_folders(line, system)
        } else {
            Vec::new()
        };
        Ok(Some(MakeRules {
            folder,
            files,
            printed,
            has_phony: asked.has_phony,
            left_out,
        }))
    }

    /// The environment that has clang list its headers.
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let [file, wanted] = LIST;
        [(file, self.list().into_os_string()), (wanted, "1".into())]
    }

    fn list(&self) -> PathBuf {
        self.folder.path().join("headers")
    }

    /// Adds what the rules lack, once clang has written them.
    ///
    /// # Errors
    /// When a rule cannot be read or written.
    pub fn complete(self) -> Result<()> {
        let list = fs::read(self.list()).unwrap_or_default();
        // The user's own wish for such a list holds as well.
        if let [Some(file), Some(_)] = LIST.map(env::var_os) {
            let theirs = fs::OpenOptions::new().create(true).append(true).open(&file);
            theirs
                .and_then(|mut theirs| theirs.write_all(&list))
                .with_context(|| format!("failed to write {}", file.to_string_lossy()))?;
        }
        let headers: Vec<&[u8]> = list
            .split(|&byte| byte == b'\n')
            .map(without_dot)
            .filter(|header| !header.is_empty() && !self.is_left_out(header))
            .collect();
        for file in &self.files {
            // Of several sources with one output each; clang has said what is wrong where one is missing.
            let Ok(rule) = fs::read(file) else { continue };
            let whole = completed(&rule, &headers, self.has_phony);
            match &self.printed {
                None if whole == rule => {}
                None => write(file, &whole)?,
                Some(Destination::File(output)) => write(output, &whole)?,
                Some(Destination::Stdout) => io::stdout()
                    .write_all(&whole)
                    .context("failed to print the rule")?,
            }
        }
        Ok(())
    }

    fn is_left_out(&self, header: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(header));
        self.left_out.iter().any(|folder| path.starts_with(folder))
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(file, bytes).with_context(|| format!("failed to write {}", file.display()))
}

impl RuleRequest {
    fn of(line: &CommandLine) -> RuleRequest {
        let mut asked = RuleRequest::default();
        for one in &line.arguments {
            let word = one.word.as_bytes();
            match word {
                b"-MD" | b"--write-dependencies" => asked.beside = true,
                b"-MMD" | b"--write-user-dependencies" => (asked.beside, asked.without_system) = (true, true),
                b"-M" | b"--dependencies" => asked.alone = true,
                b"-MM" | b"--user-dependencies" => (asked.alone, asked.without_system) = (true, true),
                b"-MP" => asked.has_phony = true,
                b"-MF" => asked.file = one.value.clone().map(PathBuf::from),
                _ => {
                    if let Some(file) = word.strip_prefix(b"-MF") {
                        asked.file = Some(OsStr::from_bytes(file).into());
                    } else if let Some(words) = word.strip_prefix(b"-Wp,") {
                        asked.for_preprocessor(words);
                    }
                }
            }
        }
        asked
    }

    /// What stands behind `-Wp,`: an option, and the file it names.
    fn for_preprocessor(&mut self, words: &[u8]) {
        let mut words = words.split(|&byte| byte == b',');
        match words.next() {
            Some(b"-MD") => self.beside = true,
            Some(b"-MMD") => (self.beside, self.without_system) = (true, true),
            Some(b"-MP") => self.has_phony = true,
            _ => return,
        }
        if let Some(file) = words.next() {
            self.file = Some(OsStr::from_bytes(file).into());
        }
    }
}

/// The rules that clang writes where none is named: beside the output, else for each source.
fn beside_outputs(line: &CommandLine) -> Vec<PathBuf> {
    let output = line.arguments.iter().rev().find_map(preprocess::output_of);
    if let Some(output) = output {
        return vec![PathBuf::from(output).with_extension("d")];
    }
    let sources = line
        .arguments
        .iter()
        .filter(|one| one.kind == ArgumentKind::Input(Language::Cuda));
    let stems = sources.filter_map(|one| Path::new(&one.word).file_name().map(Path::new));
    stems.map(|name| name.with_extension("d")).collect()
}

/// Names the rule and its target where both follow from an output that clang is not to open itself.
fn keep_names(line: &mut CommandLine, files: &[PathBuf]) {
    let output = line.arguments.iter().rev().find_map(preprocess::output_of);
    let (Some(output), [file]) = (output, files) else {
        return;
    };
    let names_target = |one: &Argument| {
        [&b"-MT"[..], b"-MQ"]
            .iter()
            .any(|option| one.word.as_bytes().starts_with(option))
    };
    let has_target = line.arguments.iter().any(names_target);
    line.add("-MF", ArgumentKind::Other);
    line.add(file, ArgumentKind::Other);
    if !has_target {
        line.add("-MQ", ArgumentKind::Other);
        line.add(output, ArgumentKind::Other);
    }
}

/// Folders whose headers count as the system's.
fn system_folders(line: &CommandLine, system: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = SYSTEM.map(PathBuf::from).into();
    folders.extend(system.iter().cloned());
    for one in &line.arguments {
        for option in SYSTEM_OPTIONS {
            let Some(joined) = one.word.as_bytes().strip_prefix(option.as_bytes()) else {
                continue;
            };
            let folder = match &one.value {
                Some(value) if joined.is_empty() => Some(PathBuf::from(value)),
                None if !joined.is_empty() => Some(OsStr::from_bytes(joined).into()),
                _ => None,
            };
            folders.extend(folder);
        }
    }
    let plain =
        |folder: PathBuf| PathBuf::from(OsStr::from_bytes(without_dot(folder.as_os_str().as_bytes())));
    folders
        .into_iter()
        .map(plain)
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect()
}

/// A path as rules have it.
fn without_dot(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    path
}

/// The rule with those headers that it lacks.
fn completed(rule: &[u8], headers: &[&[u8]], has_phony: bool) -> Vec<u8> {
    let end = end_of_rule(rule);
    let (first, rest) = rule.split_at(end);
    let mut known: HashSet<Vec<u8>> = prerequisites(first).collect();
    let missing: Vec<&[u8]> = headers
        .iter()
        .filter(|header| known.insert(header.to_vec()))
        .copied()
        .collect();
    let mut whole = first.to_vec();
    for header in &missing {
        whole.extend_from_slice(b" \\\n  ");
        whole.extend(escaped(header));
    }
    whole.extend_from_slice(rest);
    if has_phony {
        for header in &missing {
            whole.extend(escaped(header));
            whole.extend_from_slice(b":\n");
        }
    }
    whole
}

/// Where the first rule's last line ends.
fn end_of_rule(rule: &[u8]) -> usize {
    let is_end = |at: &usize| rule[*at] == b'\n' && (*at == 0 || rule[*at - 1] != b'\\');
    (0..rule.len()).find(is_end).unwrap_or(rule.len())
}

/// The files behind the rule's targets.
fn prerequisites(rule: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let is_colon = |at: &usize| rule[*at] == b':' && rule.get(*at + 1).is_none_or(u8::is_ascii_whitespace);
    let start = (0..rule.len()).find(is_colon).map_or(rule.len(), |at| at + 1);
    let mut bytes = rule[start..].iter().copied().peekable();
    std::iter::from_fn(move || {
        let mut word = Vec::new();
        while let Some(byte) = bytes.next() {
            match (byte, bytes.peek().copied()) {
                (b'\\', Some(b'\n')) => {}
                (b'\\', Some(next @ (b' ' | b'#' | b'\\'))) | (b'$', Some(next @ b'$')) => {
                    word.push(next);
                    bytes.next();
                }
                _ if byte.is_ascii_whitespace() => {
                    if !word.is_empty() {
                        return Some(word);
                    }
                }
                _ => word.push(byte),
            }
        }
        (!word.is_empty()).then_some(word)
    })
}

/// A file's name as make reads it.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for &byte in name {
        match byte {
            b' ' | b'#' => escaped.push(b'\\'),
            b'$' => escaped.push(b'$'),
            _ => {}
        }
        escaped.push(byte);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CommandLine {
        CommandLine::parse(text.split_whitespace().map(OsString::from))
    }

    fn files(text: &str) -> Option<Vec<PathBuf>> {
        MakeRules::of(&mut line(text), &[])
            .unwrap()
            .map(|rules| rules.files)
    }

    #[test]
    fn rules_are_where_clang_writes_them() {
        let at = |path: &str| Some(vec![PathBuf::from(path)]);
        assert_eq!(files("-MD -c dir/a.cu"), at("a.d"));
        assert_eq!(files("-MMD -c a.cu -o dir/b.o"), at("dir/b.d"));
        assert_eq!(files("-MD -MF x/y.d -c a.cu -o b.o"), at("x/y.d"));
        assert_eq!(files("-MD -MFy.d -c a.cu"), at("y.d"));
        assert_eq!(files("-Wp,-MMD,k.d -c a.cu"), at("k.d"));
        assert_eq!(files("-c a.cu"), None);
        assert_eq!(files("-MD -c a.cpp"), None);
        assert_eq!(files("-MD -c a.cu --cuda-device-only"), None);
    }

    #[test]
    fn what_a_rule_lacks_is_added_to_it() {
        let rule = b"a.o: a.cu \\\n  b.h my\\ c.h\nb.h:\n";
        let headers: [&[u8]; 5] = [b"b.h", b"d.h", b"my c.h", b"d.h", b"two $ e.h"];
        let whole = completed(rule, &headers, true);
        let expected =
            "a.o: a.cu \\\n  b.h my\\ c.h \\\n  d.h \\\n  two\\ $$\\ e.h\nb.h:\nd.h:\ntwo\\ $$\\ e.h:\n";
        assert_eq!(String::from_utf8(whole).unwrap(), expected);
        assert_eq!(completed(rule, &[b"b.h"], true), rule);
        assert_eq!(completed(b"a.o: a.cu", &[b"b.h"], false), b"a.o: a.cu \\\n  b.h");
    }

    #[test]
    fn headers_of_the_system_are_left_out_where_that_is_asked_for() {
        let mut line = line("-MMD -c a.cu -isystem third -idirafter./other -I mine");
        let rules = MakeRules::of(&mut line, &[]).unwrap().unwrap();
        let is_left_out = |path: &str| rules.is_left_out(path.as_bytes());
        assert!(is_left_out("/usr/include/stdio.h") && is_left_out("third/x.h") && is_left_out("other/x.h"));
        assert!(!is_left_out("mine/x.h") && !is_left_out("thirdly.h"));
    }
}
