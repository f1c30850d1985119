//! Finds the reports in a file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use mgb_catalogue::report::{self, Report};
use object::read::archive::ArchiveFile;
use object::{FileKind, Object, ObjectSection};

use crate::clang::lto;

/// The reports of all modules in `file`, in the order of the link.
///
/// # Errors
/// When the file cannot be read, is of another kind, or holds no report.
pub fn reports(file: &Path) -> Result<Vec<Report>> {
    reports_of(file, file)
}

/// As [`reports`], of a file that is called otherwise to the user.
pub fn reports_of(file: &Path, called: &Path) -> Result<Vec<Report>> {
    let shown = called.display();
    let data = fs::read(file).with_context(|| format!("failed to read {shown}"))?;
    let found = match FileKind::parse(&*data) {
        Ok(FileKind::Archive) => of_archive(&data),
        Ok(FileKind::Elf64 | FileKind::Elf32) => of_object(&data),
        _ if lto::is_bitcode(file) => bail!(
            "{shown} holds bitcode for the link (-flto), where the pass will look at it; give what is linked from it"
        ),
        _ => bail!("{shown} is not an object file, program or static archive; give what mgb clang has made"),
    };
    let reports = found.with_context(|| format!("failed to read the report in {shown}"))?;
    if reports.is_empty() {
        bail!(
            "{shown} holds no report (no section {}): compile its CUDA sources with `mgb clang`, if it has any",
            report::SECTION
        );
    }
    Ok(reports)
}

pub(super) fn of_object(data: &[u8]) -> Result<Vec<Report>> {
    let object = object::File::parse(data)?;
    match object.section_by_name(report::SECTION) {
        Some(section) => Ok(report::parse_all(&section.uncompressed_data()?)?),
        None => Ok(Vec::new()),
    }
}

fn of_archive(data: &[u8]) -> Result<Vec<Report>> {
    let archive = ArchiveFile::parse(data)?;
    if archive.is_thin() {
        bail!("it is a thin archive, which holds names only; give the object files");
    }
    let mut reports = Vec::new();
    for member in archive.members() {
        let member = member?;
        let data = member.data(data)?;
        // Archives may hold anything.
        if matches!(FileKind::parse(data), Ok(FileKind::Elf64 | FileKind::Elf32)) {
            let name = String::from_utf8_lossy(member.name()).into_owned();
            reports.extend(of_object(data).with_context(|| format!("member {name}"))?);
        }
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes.txt");
        fs::write(&file, "no object").unwrap();
        let error = reports(&file).unwrap_err().to_string();
        assert!(error.contains("notes.txt is not an object file"), "{error}");
        let error = format!("{:#}", reports(Path::new("/no/such")).unwrap_err());
        assert!(
            error.starts_with("failed to read /no/such: No such file"),
            "{error}"
        );
    }

    #[test]
    fn bitcode_is_known_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.o");
        fs::write(&file, b"BC\xc0\xde....").unwrap();
        let error = reports(&file).unwrap_err().to_string();
        assert!(error.contains("a.o holds bitcode for the link"), "{error}");
    }

    #[test]
    fn a_program_without_a_report_is_told_how_to_get_one() {
        let own = std::env::current_exe().unwrap();
        let error = reports(&own).unwrap_err().to_string();
        assert!(error.contains("holds no report"), "{error}");
    }
}
