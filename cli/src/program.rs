//! Finds programs as a shell does, before anything is started.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::fs::{Access, access};

/// Why a program cannot be started.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProgramError {
    /// No such file.
    #[error("failed to find the program {0}: {1}")]
    NotFound(String, &'static str),
    /// A folder, or a file without the permission.
    #[error("{0} cannot be executed: it is {1}")]
    CannotExecute(String, &'static str),
}

/// The file that `name` stands for: a path if it holds a slash, else the first one in `$PATH`.
pub fn find(name: &str) -> Result<PathBuf, ProgramError> {
    find_in(name, None)
}

/// The same, with another `$PATH`.
pub fn find_in(name: &str, path: Option<&OsStr>) -> Result<PathBuf, ProgramError> {
    if name.contains('/') {
        let path = Path::new(name);
        return match fs::metadata(path) {
            Err(_) => Err(ProgramError::NotFound(name.to_owned(), "no such file")),
            Ok(file) if file.is_dir() => Err(ProgramError::CannotExecute(name.to_owned(), "a folder")),
            Ok(_) if access(path, Access::EXEC_OK).is_err() => Err(ProgramError::CannotExecute(
                name.to_owned(),
                "not marked as executable (chmod +x)",
            )),
            Ok(_) => Ok(path.to_owned()),
        };
    }
    let folders = match path {
        Some(path) => path.to_owned(),
        None => env::var_os("PATH").unwrap_or_default(),
    };
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(is_program);
    found.ok_or_else(|| {
        ProgramError::NotFound(
            name.to_owned(),
            "not in PATH (write ./NAME for one in this folder)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_what_are_none() {
        assert!(find("sh").unwrap().is_absolute());
        assert_eq!(find("/bin/sh").unwrap(), Path::new("/bin/sh"));
        assert!(matches!(
            find("./no_such_program"),
            Err(ProgramError::NotFound(..))
        ));
        assert!(matches!(
            find("no_such_program_anywhere"),
            Err(ProgramError::NotFound(..))
        ));
        assert!(matches!(
            find("/etc/passwd"),
            Err(ProgramError::CannotExecute(..))
        ));
        assert!(matches!(find("/tmp/"), Err(ProgramError::CannotExecute(..))));
    }
}
