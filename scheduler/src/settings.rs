//! The settings of an `mgbd` in a file: its options, by their long names.
//!
//! ```toml
//! serve = "all"
//! swap-memory = "64GiB"
//! no-move = true
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

/// Why a file is no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("failed to read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// It is no TOML.
    #[error("{0} is no TOML: {1}")]
    Form(PathBuf, Box<toml::de::Error>),
    /// A value is of no kind that an option has.
    #[error("{0}: {1} is neither text, a whole number nor true or false")]
    Value(PathBuf, String),
}

/// The arguments that a file stands for. Whether there are such options is for who parses them.
///
/// # Errors
/// The file cannot be read, or is no flat table of texts, numbers and truths.
pub fn arguments(file: &Path) -> Result<Vec<OsString>, SettingsError> {
    let text = std::fs::read_to_string(file).map_err(|error| SettingsError::Read(file.to_owned(), error))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| SettingsError::Form(file.to_owned(), Box::new(error)))?;
    let mut arguments = Vec::new();
    for (name, value) in table {
        let value = match value {
            toml::Value::Boolean(false) => continue,
            toml::Value::Boolean(true) => None,
            toml::Value::String(text) => Some(text),
            toml::Value::Integer(number) => Some(number.to_string()),
            _ => return Err(SettingsError::Value(file.to_owned(), name)),
        };
        arguments.push(match value {
            None => format!("--{name}").into(),
            Some(value) => format!("--{name}={value}").into(),
        });
    }
    Ok(arguments)
}

/// A setting as it stands in such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The long name of the option.
    pub name: String,
    /// Its value; `None`: it is not set.
    pub value: Option<String>,
    is_default: bool,
}

/// All settings that were parsed, in the order of the options.
pub fn all(command: &Command, matches: &ArgMatches) -> Vec<Setting> {
    let mut all = Vec::new();
    for argument in command.get_arguments() {
        let Some(name) = argument
            .get_long()
            .filter(|name| !argument.is_hide_set() && !NO_SETTINGS.contains(name))
        else {
            continue;
        };
        let id = argument.get_id().as_str();
        let value = match argument.get_action() {
            ArgAction::SetTrue => Some(matches.get_flag(id).to_string()),
            _ => matches
                .get_raw(id)
                .and_then(|mut values| values.next())
                .map(|value| value_of(&value.to_string_lossy()).to_string()),
        };
        all.push(Setting {
            name: name.to_owned(),
            value,
            is_default: matches.value_source(id) == Some(ValueSource::DefaultValue),
        });
    }
    all
}

/// The settings as such a file, which stands for the same as the command line that these were parsed from. What is not
/// set stands in a comment.
pub fn text(settings: &[Setting]) -> String {
    let line = |setting: &Setting| {
        let by_default = if setting.is_default { "  # by default" } else { "" };
        match &setting.value {
            None => format!("# {} is not set\n", setting.name),
            Some(value) => format!("{} = {value}{by_default}\n", setting.name),
        }
    };
    settings.iter().map(line).collect()
}

/// Options that are no settings.
const NO_SETTINGS: [&str; 5] = ["settings", "check", "man", "help", "version"];

fn value_of(text: &str) -> toml::Value {
    text.parse()
        .map_or_else(|_| toml::Value::String(text.to_owned()), toml::Value::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_for_the_same_arguments() {
        let command = || {
            let option = |name: &'static str| clap::Arg::new(name).long(name);
            Command::new("mgbd")
                .arg(option("check").action(ArgAction::SetTrue))
                .arg(option("policy").default_value("mgb"))
                .arg(option("patience").default_value("7"))
                .arg(option("past"))
                .arg(option("no-move").action(ArgAction::SetTrue))
                .arg(option("no-mps").action(ArgAction::SetTrue))
                .arg(option("secret").default_value("1").hide(true))
        };
        let given = ["mgbd", "--check", "--no-mps", "--patience=9", "--policy", "a\"b"];
        let said = text(&all(&command(), &command().get_matches_from(given)));
        assert_eq!(
            said,
            "policy = 'a\"b'\npatience = 9\n# past is not set\nno-move = false  # by default\nno-mps = true\n"
        );
        assert_eq!(
            read(&said).unwrap(),
            ["--no-mps", "--patience=9", "--policy=a\"b"]
        );
    }

    fn read(text: &str) -> Result<Vec<OsString>, SettingsError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        arguments(file.path())
    }

    #[test]
    fn settings_are_options() {
        let read_one = read("serve = \"all\"\npatience = 7\nno-mps = true\nno-move = false\n").unwrap();
        assert_eq!(read_one, ["--no-mps", "--patience=7", "--serve=all"]);
        assert!(read("").unwrap().is_empty());
    }

    #[test]
    fn what_is_none_is_named() {
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert!(said("serve = [1]").contains("serve is neither"));
        assert!(said("serve = ").contains("is no TOML"));
        let missing = arguments(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(missing.contains("failed to read /no/such/file"));
    }
}
