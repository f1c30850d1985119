//! The settings of an `mgbd` in a file: its options, by their long names.
//!
//! ```toml
//! serve = "all"
//! swap-memory = "64GiB"
//! no-move = true
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

#[cfg(test)]
mod tests {
    use super::*;

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
