//! Finds libraries as the dynamic linker does, without loading any.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mgb_core::libraries::{self, DRIVER};

use super::driver::same_file;
use super::elf::{self, Elf};

/// Where the dynamic linker looks in a program.
#[derive(Clone, Debug)]
pub struct LinkerSearch {
    /// The folders of `LD_LIBRARY_PATH`.
    listed: Vec<PathBuf>,
    /// The driver front's file.
    front: Option<PathBuf>,
}

/// Something that was loaded, with the folders that it adds to the search.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    rpath: Vec<PathBuf>,
    runpath: Vec<PathBuf>,
}

impl LinkerSearch {
    /// With this `LD_LIBRARY_PATH`, and the front in this folder.
    pub fn new(path: impl AsRef<OsStr>, front: Option<&Path>) -> Self {
        let folders = std::env::split_paths(path.as_ref());
        Self {
            listed: folders.filter(|folder| !folder.as_os_str().is_empty()).collect(),
            front: front.map(|folder| folder.join(DRIVER)),
        }
    }

    /// Whether a file is the driver front.
    pub fn is_front(&self, path: &Path) -> bool {
        self.front.as_deref().is_some_and(|front| same_file(front, path))
    }

    /// The file that an object gets for a name that it needs. `chain`: the object, then what it was loaded
    /// for, and so on up to the program.
    pub fn find(&self, name: &str, chain: &[&Loaded]) -> Option<PathBuf> {
        let fits = |path: &PathBuf| elf::fault(path).is_none();
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(fits);
        }
        let own = chain.first()?;
        // DT_RPATH counts for what is loaded for an object as well, unless that has a DT_RUNPATH.
        let inherited = match own.runpath.is_empty() {
            true => chain,
            false => &[],
        };
        let rpath = inherited.iter().flat_map(|loaded| &loaded.rpath);
        let folders = rpath.chain(&self.listed).chain(&own.runpath);
        let paths = folders.map(|folder| folder.join(name));
        paths.chain(libraries::usual(name)).find(fits)
    }

    /// A driver other than the front to which the object's own `DT_RPATH` leads.
    pub fn rpath_driver(&self, loaded: &Loaded) -> Option<PathBuf> {
        let paths = loaded.rpath.iter().map(|folder| folder.join(DRIVER));
        let first = { paths }.find(|path| elf::fault(path).is_none());
        first.filter(|path| !self.is_front(path))
    }
}

impl Loaded {
    /// An object in a file, whose folder stands for `$ORIGIN`.
    pub fn new(path: &Path, elf: &Elf) -> Self {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let origin = real.parent().unwrap_or(Path::new("/")).to_owned();
        let all = |folders: &[String]| {
            folders
                .iter()
                .flat_map(|folder| expand(folder, &origin))
                .collect()
        };
        Self {
            rpath: all(&elf.rpath),
            runpath: all(&elf.runpath),
        }
    }
}

/// The folders that an entry stands for: `$LIB` is another one from distribution to distribution.
fn expand(folder: &str, origin: &Path) -> Vec<PathBuf> {
    let put = |text: String, name: &str, value: &str| {
        text.replace(&format!("${{{name}}}"), value)
            .replace(&format!("${name}"), value)
    };
    let folder = put(folder.to_owned(), "ORIGIN", &origin.to_string_lossy());
    let folder = put(folder, "PLATFORM", "x86_64");
    let each = ["lib/x86_64-linux-gnu", "lib64"].map(|lib| PathBuf::from(put(folder.clone(), "LIB", lib)));
    if each[0] == each[1] {
        each[..1].to_vec()
    } else {
        each.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder with files that are taken for libraries.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&own, path).unwrap();
        }
        folder
    }

    fn loaded(rpath: &[&Path], runpath: &[&Path]) -> Loaded {
        let owned = |folders: &[&Path]| folders.iter().map(|&folder| folder.to_owned()).collect();
        Loaded {
            rpath: owned(rpath),
            runpath: owned(runpath),
        }
    }

    #[test]
    fn folders_are_searched_in_the_linkers_order() {
        let folder = folder(&["r/libx.so", "l/libx.so", "u/libx.so", "u/liby.so"]);
        let at = |name: &str| folder.path().join(name);
        let (r, l, u) = (at("r"), at("l"), at("u"));
        let search = LinkerSearch::new(&l, None);
        let program = loaded(&[&r], &[]);
        let plain = loaded(&[], &[]);
        let with_runpath = loaded(&[], &[&u]);
        assert_eq!(search.find("libx.so", &[&program]), Some(r.join("libx.so")));
        assert_eq!(
            search.find("libx.so", &[&plain, &program]),
            Some(r.join("libx.so")),
            "inherited"
        );
        assert_eq!(
            search.find("libx.so", &[&with_runpath, &program]),
            Some(l.join("libx.so"))
        );
        assert_eq!(search.find("liby.so", &[&with_runpath]), Some(u.join("liby.so")));
        assert_eq!(search.find("liby.so", &[&plain]), None);
        let path = u.join("liby.so");
        assert_eq!(search.find(path.to_str().unwrap(), &[&plain]), Some(path));
        assert!(
            search.find("libc.so.6", &[&plain]).is_some(),
            "in the linker's own folders"
        );
    }

    #[test]
    fn an_rpath_to_the_front_is_no_trap() {
        let folder = folder(&["r/libcuda.so.1"]);
        let r = folder.path().join("r");
        let program = loaded(&[Path::new("/nowhere"), &r], &[]);
        assert_eq!(
            LinkerSearch::new("", None).rpath_driver(&program),
            Some(r.join("libcuda.so.1"))
        );
        assert_eq!(LinkerSearch::new("", Some(&r)).rpath_driver(&program), None);
        assert_eq!(
            LinkerSearch::new("", None).rpath_driver(&loaded(&[], &[&r])),
            None,
            "DT_RUNPATH comes later"
        );
    }

    #[test]
    fn variables_of_the_linker_are_put_in() {
        let origin = Path::new("/opt/app/bin");
        assert_eq!(
            expand("$ORIGIN/../lib", origin),
            [Path::new("/opt/app/bin/../lib")]
        );
        assert_eq!(expand("${ORIGIN}", origin), [origin]);
        let lib = expand("/opt/$LIB/$PLATFORM", origin);
        assert_eq!(
            lib,
            ["/opt/lib/x86_64-linux-gnu/x86_64", "/opt/lib64/x86_64"].map(PathBuf::from)
        );
    }
}
