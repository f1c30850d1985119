//! What stands behind the plugin's name in plugstack.conf.

use std::path::PathBuf;
use std::time::Duration;

/// How long a task waits for `mgb cluster prolog` at most.
pub const PROLOG_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the memory of a suspended job may take to leave, beyond Slurm's two seconds. Seconds: enough for
/// all of the largest GPUs.
pub const OVERTIME: u32 = 60;

/// The options of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The folder with `bin/mgb`.
    pub prefix: PathBuf,
    /// How long `mgb cluster prolog` may take.
    pub patience: Duration,
    /// Programs leave the GPUs as Slurm suspends their job, for which they have so many seconds beyond
    /// Slurm's own. `None`: they do not.
    pub suspends: Option<u32>,
    /// A task that does not come under mgbd does not start.
    pub required: bool,
    /// A fault that a test wants to see.
    pub fault: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            prefix: PathBuf::from("/usr/local"),
            patience: PROLOG_TIMEOUT,
            suspends: Some(OVERTIME),
            required: false,
            fault: None,
        }
    }
}

impl Options {
    /// Reads them. What is not understood comes back, and changes nothing.
    pub fn read<'a>(words: impl IntoIterator<Item = &'a str>) -> (Options, Vec<String>) {
        let mut options = Options::default();
        let mut unknown = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some(("prefix", folder)) if folder.starts_with('/') => options.prefix = PathBuf::from(folder),
                Some(("timeout", seconds)) if seconds.parse::<u32>().is_ok_and(|seconds| seconds > 0) => {
                    options.patience = Duration::from_secs(seconds.parse().unwrap_or(5));
                }
                Some(("suspend", "no")) => options.suspends = None,
                Some(("suspend", seconds)) if seconds.parse::<u32>().is_ok() => {
                    options.suspends = seconds.parse().ok();
                }
                Some(("fault", which)) => options.fault = Some(which.to_owned()),
                None if word == "required" => options.required = true,
                _ => unknown.push(word.to_owned()),
            }
        }
        (options, unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_named() {
        assert_eq!(Options::read([]), (Options::default(), Vec::new()));
        let (options, unknown) = Options::read([
            "prefix=/opt/mgb",
            "timeout=2",
            "suspend=no",
            "prefix=here",
            "timeout=0",
            "what",
            "required=no",
            "suspend=-1",
        ]);
        assert_eq!(options.prefix, PathBuf::from("/opt/mgb"));
        assert_eq!(options.patience, Duration::from_secs(2));
        assert_eq!(options.suspends, None);
        assert!(!options.required && Options::read(["required"]).0.required);
        assert_eq!(
            unknown,
            ["prefix=here", "timeout=0", "what", "required=no", "suspend=-1"]
        );
        assert_eq!(Options::read(["suspend=0"]).0.suspends, Some(0));
    }
}
