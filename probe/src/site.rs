//! What the administrator of a node wants of all programs there: `/etc/mgb/client.toml`.
//!
//! ```toml
//! without-mgbd = "refuse"   # a program that mgbd does not serve ends; "native", as usual: it runs without
//! ```

use std::path::Path;

use serde::Deserialize;

/// The file in which an administrator says what programs do without `mgbd`.
pub const FILE: &str = "/etc/mgb/client.toml";

/// What becomes of a program that `mgbd` does not serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithoutMgbd {
    /// It runs as without MGB, and says so.
    #[default]
    Native,
    /// It ends at its first use of a GPU.
    Refuse,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    #[serde(default)]
    without_mgbd: WithoutMgbd,
}

/// What the node's administrator wants; read at each call.
///
/// # Errors
/// The file is there and cannot be understood: then a program ends, as it is not known that it may run.
pub fn without_mgbd() -> Result<WithoutMgbd, String> {
    read(Path::new(FILE))
}

/// What such a file says.
///
/// # Errors
/// As [`without_mgbd`].
pub fn read(file: &Path) -> Result<WithoutMgbd, String> {
    let failed = |why: String| format!("{}: {why}", file.display());
    match std::fs::read_to_string(file) {
        Ok(text) => {
            let written: Written =
                toml::from_str(&text).map_err(|error| failed(error.message().to_owned()))?;
            Ok(written.without_mgbd)
        }
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(WithoutMgbd::Native)
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_a_mistake_is_no_leave() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("client.toml");
        assert_eq!(read(&file), Ok(WithoutMgbd::Native));
        for (text, wanted) in [
            ("", WithoutMgbd::Native),
            ("without-mgbd = \"native\"", WithoutMgbd::Native),
            ("# so\nwithout-mgbd = \"refuse\"\n", WithoutMgbd::Refuse),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&file), Ok(wanted), "{text}");
        }
        for text in [
            "without-mgbd = \"perhaps\"",
            "without_mgbd = \"refuse\"",
            "without-mgbd",
        ] {
            std::fs::write(&file, text).unwrap();
            assert!(read(&file).unwrap_err().contains("client.toml"), "{text}");
        }
        assert!(read(folder.path()).is_err());
        assert_eq!(read(&file.join("below")), Ok(WithoutMgbd::Native));
    }
}
