//! A line of a job file, in a shell's syntax: settings, then a command, or text for a shell.
//!
//! No shell reads a command, so what only a shell can do is refused: as an argument it would let a job end
//! well that has done something else.

use std::ops::Range;

use mgb_core::mps;
use mgb_probe::{Class, Deadline, byte_size};

use crate::deadline;

/// What makes a shell read the rest of a line.
const SHELL: &str = "sh:";
/// What begins with a need.
const NEED: &str = "need=";
/// What begins with a number of GPUs.
const GPUS: &str = "gpus=";
/// What begins with a class.
const CLASS: &str = "class=";
/// What begins with a part of the multiprocessors.
const SHARE: &str = "share=";
/// What begins with a deadline.
const DEADLINE: &str = "deadline=";
/// Most GPUs of a job.
const MAX_GPUS: u32 = 64;

/// What a line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLine {
    /// GPU memory of the whole process in bytes.
    pub need: Option<u64>,
    /// How many GPUs it uses, where that is said.
    pub gpus: Option<u32>,
    /// When the job is to have ended, where that is said.
    pub deadline: Option<Deadline>,
    /// Variables of the job's environment.
    pub environment: Vec<(String, String)>,
    /// What is to run; none in an empty line.
    pub command: Option<JobCommand>,
}

/// What a line runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobCommand {
    /// A program and its arguments.
    Words(Vec<String>),
    /// Text that a shell reads.
    Shell(String),
}

impl JobLine {
    /// Takes a line apart.
    ///
    /// # Errors
    /// What is wrong with it, and the way out.
    pub fn parse(text: &str) -> Result<JobLine, String> {
        if text.contains('\0') {
            return Err("it has a NUL character, which no argument of a program can have".to_owned());
        }
        let mut line = JobLine::default();
        let mut rest = text.trim_start();
        let mut last = "";
        loop {
            if let Some(text) = rest.strip_prefix(SHELL) {
                line.command = Some(JobCommand::Shell(for_shell(text)?));
                return Ok(line);
            }
            let word = &rest[first_word(rest)];
            if word.starts_with(NEED) {
                if line.need.is_some() {
                    return Err("need= is given twice".to_owned());
                }
                let value = value_of(word)?;
                line.need = Some(byte_size::parse(&value).map_err(|error| error.to_string())?);
            } else if word.starts_with(GPUS) {
                if line.gpus.is_some() {
                    return Err("gpus= is given twice".to_owned());
                }
                line.gpus = Some(count(&value_of(word)?)?);
            } else if word.starts_with(CLASS) {
                let value = value_of(word)?;
                let class = Class::named(&value)
                    .ok_or_else(|| format!("class={value} is neither latency nor batch"))?;
                line.environment
                    .push((mgb_probe::CLASS.to_owned(), class.name().to_owned()));
            } else if word.starts_with(SHARE) {
                let percent = mps::parse_share(&value_of(word)?).map_err(|why| format!("share={why}"))?;
                line.environment
                    .push((mps::SHARE.to_owned(), format!("{percent}%")));
            } else if word.starts_with(DEADLINE) {
                if line.deadline.is_some() {
                    return Err("deadline= is given twice".to_owned());
                }
                line.deadline = Some(deadline::parse(&value_of(word)?)?);
            } else if let Some(name) = assigned(word) {
                line.environment.push((name.to_owned(), value_of(word)?));
            } else {
                break;
            }
            last = &word[..=word.find('=').unwrap_or_default()];
            rest = rest[word.len()..].trim_start();
        }
        refuse_what_a_shell_does(rest)?;
        let words = shlex::split(rest).ok_or("a quote is not closed, or the line ends in a backslash")?;
        match (words.is_empty(), last) {
            (true, "") => Ok(line),
            (true, last) => Err(format!("{last} is followed by no command")),
            (false, _) => {
                line.command = Some(JobCommand::Words(words));
                Ok(line)
            }
        }
    }
}

/// A number of GPUs.
fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|count| (1..=MAX_GPUS).contains(count));
    number.ok_or_else(|| format!("gpus={text} is no number of GPUs from 1 to {MAX_GPUS}"))
}

/// The text behind `sh:`.
fn for_shell(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Err(format!("{SHELL} is followed by no command"));
    }
    Ok(text.to_owned())
}

/// The variable that a word sets.
fn assigned(word: &str) -> Option<&str> {
    let (name, _) = word.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let is_name = (first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some(name)
}

/// What stands behind the `=` of a word, without its quotes.
fn value_of(word: &str) -> Result<String, String> {
    refuse_what_a_shell_does(word)?;
    // Behind a comment's sign shlex would see no word.
    let words = shlex::split(word).ok_or("a quote is not closed, or the line ends in a backslash")?;
    let whole = words.concat();
    let (_, value) = whole.split_once('=').unwrap_or_default();
    Ok(value.to_owned())
}

/// How a character is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Plain,
    InDoubleQuotes,
}

/// The characters of a text that a shell would look at, with their places: none that is escaped or stands
/// between single quotes, and no quotes, up to a comment.
fn looked_at(text: &str) -> impl Iterator<Item = (usize, char, Reading)> {
    let mut characters = text.char_indices();
    let mut quote = None;
    let mut in_word = false;
    std::iter::from_fn(move || {
        loop {
            let (at, character) = characters.next()?;
            match (character, quote) {
                ('\\', None | Some('"')) => {
                    characters.next();
                    in_word = true;
                }
                ('\'' | '"', None) => {
                    quote = Some(character);
                    in_word = true;
                }
                (_, Some(open)) if open == character => quote = None,
                (_, Some('\'')) => {}
                (_, Some(_)) => return Some((at, character, Reading::InDoubleQuotes)),
                ('#', None) if !in_word => return None,
                (_, None) => {
                    in_word = !character.is_whitespace();
                    return Some((at, character, Reading::Plain));
                }
            }
        }
    })
}

/// Where the first word stands, in a text that begins with it.
fn first_word(text: &str) -> Range<usize> {
    let end = looked_at(text)
        .find(|(_, character, reading)| *reading == Reading::Plain && character.is_whitespace());
    0..end.map_or(text.len(), |(at, ..)| at)
}

/// Names what a shell would take for an order to itself.
fn refuse_what_a_shell_does(text: &str) -> Result<(), String> {
    let mut before = None;
    for (at, character, reading) in looked_at(text) {
        let next = text[at + character.len_utf8()..].chars().next();
        let is_replaced = |next: char| next.is_ascii_alphanumeric() || "_{(@*#?$!-".contains(next);
        let meaning = match (character, reading) {
            ('&', Reading::Plain) if next.is_none_or(char::is_whitespace) && before != Some('&') => {
                return Err(format!(
                    "`&` is a shell's: jobs run side by side without it; leave it away, or begin the command with {SHELL}"
                ));
            }
            ('|' | '&' | ';' | '<' | '>' | '(' | ')', Reading::Plain) => "an order to a shell",
            ('`', _) => "replaced by a shell",
            ('$', _) if next.is_some_and(is_replaced) => "replaced by a shell",
            _ => {
                before = Some(character);
                continue;
            }
        };
        let doubled = next == Some(character) && "|&;<>".contains(character);
        let shown: String = std::iter::repeat_n(character, 1 + usize::from(doubled)).collect();
        return Err(format!(
            "`{shown}` is {meaning}, and no shell reads this line: begin the command with {SHELL} for one \
             that does ({SHELL} COMMAND), or put the word in single quotes"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        match JobLine::parse(text).unwrap().command {
            Some(JobCommand::Words(words)) => words,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn orders_to_a_shell_are_refused() {
        let orders = [
            ("./a | ./b", "`|`"),
            ("./a || ./b", "`||`"),
            ("./a>out", "`>`"),
            ("./a >> out", "`>>`"),
            ("./a 2>&1", "`>`"),
            ("./a < in", "`<`"),
            ("./a && ./b", "`&&`"),
            ("./a;./b", "`;`"),
            ("./a &", "`&` is a shell's: jobs run side by side"),
            ("./a $SEED", "`$`"),
            ("./a \"$(date)\"", "`$`"),
            ("./a `date`", "``` is replaced"),
            ("(cd x)", "`(`"),
            ("need=1GiB A=$B ./a", "`$`"),
            ("A=1;./a", "`;`"),
        ];
        for (text, named) in orders {
            let error = JobLine::parse(text).unwrap_err();
            assert!(error.contains(named) && error.contains("sh:"), "{text}: {error}");
        }
    }

    #[test]
    fn quoted_they_are_arguments() {
        assert_eq!(
            words("./a 'x > y' \"p | q; r\" s\\&t"),
            ["./a", "x > y", "p | q; r", "s&t"]
        );
        assert_eq!(
            words("./a '$x' \\$y \"\\$z\" 5$ # | more"),
            ["./a", "$x", "$y", "$z", "5$"]
        );
        assert_eq!(words("./a b#c 'it'\\''s;'"), ["./a", "b#c", "it's;"]);
        assert_eq!(JobLine::parse("  # a; b").unwrap(), JobLine::default());
    }

    #[test]
    fn settings_stand_before_the_command() {
        let line = JobLine::parse("A=1 need=2MiB B_2='x | y' C= ./a D=4").unwrap();
        assert_eq!(line.need, Some(2 << 20));
        let environment = [("A", "1"), ("B_2", "x | y"), ("C", "")];
        assert_eq!(
            line.environment,
            environment.map(|(name, value)| (name.into(), value.into()))
        );
        assert_eq!(
            line.command,
            Some(JobCommand::Words(vec!["./a".into(), "D=4".into()]))
        );
        let line = JobLine::parse("gpus=2 need=1GiB A=1 sh: ./a").unwrap();
        assert_eq!((line.gpus, line.need), (Some(2), Some(1 << 30)));
        assert_eq!(JobLine::parse("./a gpus=2").unwrap().gpus, None, "an argument");
        let line = JobLine::parse("deadline='90s' gpus=2 ./a deadline=1").unwrap();
        assert!(line.gpus == Some(2) && line.deadline.is_some_and(|deadline| deadline.left().is_some()));
        let line = JobLine::parse("share=25% class=latency ./a").unwrap();
        let environment = [("MGB_SHARE", "25%"), ("MGB_CLASS", "latency")];
        assert_eq!(
            line.environment,
            environment.map(|(name, value)| (name.into(), value.into()))
        );
        // What is no name of a variable is a program.
        assert_eq!(words("2A=1 x"), ["2A=1", "x"]);
        assert_eq!(words("'A=1' x"), ["A=1", "x"]);
        for (text, error) in [
            ("need=1GiB", "need= is followed by no command"),
            ("A=1 # and why", "A= is followed by no command"),
            ("need=1 need=2 ./a", "need= is given twice"),
            ("gpus=2", "gpus= is followed by no command"),
            ("gpus=1 gpus=2 ./a", "gpus= is given twice"),
            ("gpus=0 ./a", "gpus=0 is no number of GPUs from 1 to 64"),
            ("gpus=65 ./a", "gpus=65 is no number of GPUs"),
            ("gpus=all ./a", "gpus=all is no number of GPUs"),
            ("gpus= ./a", "gpus= is no number of GPUs"),
            ("deadline=1s", "deadline= is followed by no command"),
            ("deadline=1s deadline=2s ./a", "deadline= is given twice"),
            ("deadline=soon ./a", "`soon` is no deadline"),
            ("deadline= ./a", "`` is no deadline"),
            ("sh:", "sh: is followed by no command"),
            ("A='1 ./a", "a quote is not closed"),
        ] {
            let found = JobLine::parse(text).unwrap_err();
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }

    #[test]
    fn a_shell_gets_its_text_as_it_is() {
        let line = JobLine::parse(" A=1 need=1 sh: ./a $X | tee 'b c' > d # e ").unwrap();
        assert_eq!(
            line.command,
            Some(JobCommand::Shell("./a $X | tee 'b c' > d # e".into()))
        );
        assert_eq!((line.need, line.environment.len()), (Some(1), 1));
    }

    proptest! {
        /// What is not refused is read as a shell reads it.
        #[test]
        fn words_are_a_shells(text in r#"a([ab'"\\ #$|;&>=]){0,16}"#) {
            if let Ok(JobLine { command: Some(JobCommand::Words(words)), environment, .. }) = JobLine::parse(&text) {
                prop_assume!(environment.is_empty());
                let script = format!("for word in {text}\ndo printf '%s\\n' \"$word\"; done");
                let shell = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
                let said = String::from_utf8(shell.stdout).unwrap();
                let expected: Vec<&str> = said.lines().collect();
                prop_assert_eq!(words, expected);
            }
        }
    }
}
