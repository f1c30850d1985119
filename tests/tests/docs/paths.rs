//! The repository's files, and what in a page names one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mgb_tests::prefix::repository;

/// What builds leave, and what is no part of the sources.
const LEFT_OUT: [&str; 7] = [
    ".git",
    ".cuda",
    "target",
    "build",
    "dist",
    "shared",
    "node_modules",
];
/// Ends of names that a page gives in backticks.
const ENDS: [&str; 10] = ["rs", "cpp", "h", "cu", "py", "md", "toml", "json", "sh", "svg"];
/// Names of files that users have, of CUDA's headers, and placeholders.
const OTHERS: [&str; 6] = [
    "app.cu",
    "cuda_fp8.h",
    "curand_mtgp32_kernel.h",
    "scheduler/src/policies/NAME.rs",
    "TRIAL.json",
    "benches/results/NODE.json",
];

/// A path behind a folder, with `..` resolved.
pub fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Whether what stands between backticks is meant as a file or folder of the repository.
pub fn is_a_path(code: &str) -> bool {
    let plain = code
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    let (end, stem) = code
        .rsplit_once('.')
        .map_or(("", code), |(stem, end)| (end, stem));
    let named = ENDS.contains(&end) && !stem.is_empty();
    let first = code.split('/').next().unwrap_or_default();
    let ours = !code.starts_with(['/', '-', '.']) && !LEFT_OUT.contains(&first);
    plain && ours && (named || code.ends_with('/')) && !OTHERS.contains(&code)
}

/// Whether it is meant as a module of a crate.
pub fn is_a_module(code: &str) -> bool {
    let plain = code
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '/'));
    plain && code.starts_with(|c: char| c.is_ascii_lowercase()) && code != "mgb"
}

/// Files and folders of the repository, from its root.
pub struct Tree {
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Tree {
    pub fn walk() -> Tree {
        let mut tree = Tree {
            files: BTreeSet::new(),
            folders: BTreeSet::new(),
        };
        tree.enter(&repository(), "");
        tree
    }

    fn enter(&mut self, folder: &Path, path: &str) {
        for entry in fs::read_dir(folder)
            .expect("the repository can be read")
            .flatten()
        {
            let name = entry.file_name().into_string().expect("names of files are UTF-8");
            let inner = join(path, &name);
            if LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            if entry.file_type().expect("an entry has a type").is_dir() {
                self.enter(&entry.path(), &inner);
                self.folders.insert(inner);
            } else {
                self.files.insert(inner);
            }
        }
    }

    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Whether it is there: from the page's folder, from the root, or at the end of some path.
    pub fn has(&self, folder: &str, path: &str) -> bool {
        let among = if path.ends_with('/') {
            &self.folders
        } else {
            &self.files
        };
        let path = path.trim_end_matches('/');
        let behind = format!("/{path}");
        among.contains(path)
            || among.contains(&join(folder, path))
            || among.iter().any(|at| at.ends_with(&behind))
    }

    /// Whether a crate has the module, as a file or a folder.
    pub fn has_module(&self, name: &str, module: &str) -> bool {
        let module = module.trim_end_matches('/');
        let ends = [
            format!("/{module}"),
            format!("/{module}.rs"),
            format!("/{module}.cpp"),
        ];
        let inside = |path: &&String| path.starts_with(&format!("{name}/"));
        let is = |path: &String| ends.iter().any(|end| path.ends_with(end));
        self.files.iter().filter(inside).any(is)
            || self.folders.iter().filter(inside).any(is)
            || self.folders.contains(module)
            || self.files.contains(module)
    }
}
