//! The PTX that nvcc keeps beside the output of its front end until its host compiler has ended.
//!
//! nvcc embeds PTX only where it is asked for by an architecture's name, and may make machine code for
//! others. The files of one run have one name up to what each holds: `x.cudafe1.cpp`, `x.ptx`,
//! `x.compute_80.ptx`. PTX is made after the front end's output, so a file that is older is of another run.
use std::fs;
use std::path::Path;

/// The end of the name of the front end's output.
const FRONT_END: &str = ".cudafe1.cpp";

/// The texts of this run.
pub fn texts(front_end: &Path) -> Vec<String> {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let name = front_end.file_name().and_then(|name| name.to_str());
    let (Some(stem), Some(made)) = (name.and_then(stem), modified(front_end)) else {
        return Vec::new();
    };
    let folder = front_end.parent().filter(|folder| !folder.as_os_str().is_empty());
    let files = fs::read_dir(folder.unwrap_or(Path::new(".")))
        .into_iter()
        .flatten();
    let mut paths: Vec<_> = files
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_of_run = name
                .strip_suffix(".ptx")
                .is_some_and(|name| self::is_of_run(name, stem));
            (is_of_run && modified(&entry.path())? >= made).then(|| entry.path())
        })
        .collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

/// What the names of a run's files begin with: without the number of a file and the architecture.
fn stem(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_suffix(FRONT_END)?;
    let name = match name.rsplit_once(".compute_") {
        Some((before, number)) if is_number(number) => before,
        _ => name,
    };
    Some(match parts(name) {
        Some((run, source)) => (run, source),
        None => ("", name),
    })
}

/// Of `tmpxft_00007b75_00000000-6_a` the run, `tmpxft_00007b75_00000000`, and the source, `a`.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (run, rest) = name
        .split_once('-')
        .filter(|(run, _)| run.starts_with("tmpxft_"))?;
    let (file, source) = rest.split_once('_')?;
    file.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some((run, source))
}

fn is_of_run(name: &str, (run, source): (&str, &str)) -> bool {
    let (own_run, name) = parts(name).unwrap_or(("", name));
    let rest = name.strip_prefix(source);
    let is_architecture =
        |rest: &str| rest.is_empty() || rest.strip_prefix(".compute_").is_some_and(is_number);
    own_run == run && rest.is_some_and(is_architecture)
}

/// `90`, `90a`.
fn is_number(text: &str) -> bool {
    text.starts_with(|sign: char| sign.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn only_the_files_of_one_run() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, age: u64| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age))
                .unwrap();
            path
        };
        let front_end = write("tmpxft_0a_00-6_a.compute_90.cudafe1.cpp", 5);
        let kept = write("b.cudafe1.cpp", 5);
        for name in [
            "tmpxft_0a_00-7_a.compute_80.ptx",
            "tmpxft_0a_00-9_a.compute_90a.ptx",
            "tmpxft_0b_00-9_a.compute_90.ptx",
            "tmpxft_0a_00-9_ab.compute_90.ptx",
            "b.ptx",
            "b.c.ptx",
        ] {
            write(name, 1);
        }
        write("b.compute_80.ptx", 9);
        let names = [
            "tmpxft_0a_00-7_a.compute_80.ptx",
            "tmpxft_0a_00-9_a.compute_90a.ptx",
        ];
        assert_eq!(texts(&front_end), names);
        assert_eq!(texts(&kept), ["b.ptx"]);
        assert!(texts(Path::new("none.cudafe1.cpp")).is_empty());
        assert!(texts(&folder.path().join("b.c.ptx")).is_empty());
    }
}
