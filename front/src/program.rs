//! What people know the program by: its name, and of an interpreter's the script that it runs.

use std::sync::OnceLock;

/// Programs that run others, by the beginnings of their names, with their options that take a word.
const INTERPRETERS: [(&str, &[&str]); 8] = [
    ("python", &["-W", "-X", "--check-hash-based-pycs"]),
    ("pypy", &["-W", "-X"]),
    ("perl", &[]),
    ("ruby", &[]),
    ("julia", &[]),
    ("node", &[]),
    ("lua", &[]),
    ("Rscript", &[]),
];

/// The name of the program: of its script, where an interpreter runs it.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        // Not the standard library's: it knows no arguments where a library is loaded by its name.
        let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        of(line.trim_end_matches('\0').split('\0'))
    })
}

fn of<'a>(mut words: impl Iterator<Item = &'a str>) -> String {
    let program = last_part(words.next().unwrap_or_default());
    let interpreter = INTERPRETERS.iter().find(|(name, _)| is_one(program, name));
    let script = interpreter.and_then(|(_, with_word)| script(words, with_word));
    match script {
        Some(script) => format!("{program} {}", last_part(script)),
        None => program.to_owned(),
    }
}

/// Whether a program is this interpreter, perhaps in a version: `python3.12`.
fn is_one(program: &str, name: &str) -> bool {
    let rest = program.strip_prefix(name);
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The script or module, behind the interpreter's own options.
fn script<'a>(mut words: impl Iterator<Item = &'a str>, with_word: &[&str]) -> Option<&'a str> {
    while let Some(word) = words.next() {
        match word {
            "-m" => return words.next(),
            // What follows is a program's text.
            "-c" | "-e" | "-" => return None,
            word if with_word.contains(&word) => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return Some(word),
        }
    }
    None
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_their_own_names_and_scripts_theirs() {
        for (line, name) in [
            ("./build/app 1000", "app"),
            ("app", "app"),
            ("", ""),
            (
                "/usr/bin/python3.12 -u /home/x/train.py --lr 1",
                "python3.12 train.py",
            ),
            ("python -W ignore -X dev train.py", "python train.py"),
            (
                "python -m torch.distributed.run train.py",
                "python torch.distributed.run",
            ),
            ("python -c import_this", "python"),
            ("python", "python"),
            ("pythonish train.py", "pythonish"),
            ("perl -w run.pl", "perl run.pl"),
        ] {
            assert_eq!(of(line.split(' ')), name, "{line}");
        }
    }
}
