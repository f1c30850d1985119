//! Device code that is linked across files (`-fgpu-rdc`).
//!
//! clang leaves it in the object, and links it only where the link is told to: else the program lacks its
//! kernels, and nothing says so before it runs. So a link of such objects is told to. The pass leaves
//! bitcode beside it, its *parts* (pass/src/device/rdc_link.rs), from which one more object is made here: the
//! kernels' host code for the software GPU.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fnv::FnvHasher;
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, ReadCache, ReadRef};
use tempfile::TempDir;

use super::language::Language;
use super::lto::BITCODE;
use super::parse::{Argument, ArgumentKind, CommandLine};
use super::table::Meaning;
use super::{spawn, tools};

/// Where clang leaves device code for the link.
pub const CLANGS: &str = ".llvm.offloading";
/// What an object has whose device code is linked: that of a link with `-dlink`.
pub const LINKED: &str = ".mgb.linked";
/// Where the pass leaves parts.
const SECTION: &str = ".mgb.device";
/// What a part begins with; the number of its architecture, 4 bytes, and its length, 8, follow. Parts begin
/// at multiples of [`ALIGN`].
const MAGIC: &[u8] = b"MGB1";
const HEADER: usize = 16;
const ALIGN: usize = 8;
/// The source of the object that gets the host code: the pass needs a function to see the processor by.
/// The constant is [`WANTED`].
const SOURCE: &str = "\
static void mgb_parts(void) __attribute__((used));
static void mgb_parts(void) {}
const char mgb_device_code_is_not_linked __attribute__((weak, visibility(\"hidden\"))) = 0;
";
/// What objects refer to whose device code is to be linked.
const WANTED: &[u8] = b"mgb_device_code_is_not_linked";
/// What device code calls that launches kernels.
const LAUNCHES: &[u8] = b"__cudaCDP2LaunchDevice";
/// What an image of clang's begins with; its version and length follow, 4 and 8 bytes.
const IMAGE: &[u8] = &[0x10, 0xff, 0x10, 0xad];

/// Bitcode of one file.
struct FileBitcode {
    arch: u32,
    bitcode: Vec<u8>,
    /// Of an archive: it is linked if it is needed.
    is_member: bool,
}

/// What a link has of device code that is linked across files.
#[derive(Default)]
pub struct DeviceCode {
    parts: Vec<FileBitcode>,
    is_left: bool,
    /// Images in objects, which the program has in any case, and their files.
    left: Vec<(u64, PathBuf)>,
    /// Images in archives.
    in_archives: Vec<u64>,
    /// A file with a kernel that launches kernels.
    launches: Option<PathBuf>,
    /// Images that a link with `-dlink` has linked already; none without one.
    linked: Option<Vec<u64>>,
}

impl DeviceCode {
    /// Looks through the objects and archives of a link.
    ///
    /// # Errors
    /// When some of it is linked already, and other code is not; when clang fails on bitcode.
    pub fn of(line: &CommandLine, clang: &Path) -> Result<DeviceCode> {
        let mut found = DeviceCode::default();
        if !line.links() {
            return Ok(found);
        }
        for file in files(line) {
            let count = found.parts.len();
            found.look_into(&file, clang)?;
            let launches = |part: &FileBitcode| contains(&part.bitcode, LAUNCHES);
            if found.launches.is_none() && found.parts[count..].iter().any(launches) {
                found.launches = Some(file);
            }
        }
        let Some(linked) = &found.linked else {
            if let Some(file) = found.launches.as_ref().filter(|_| found.is_left) {
                bail!(
                    "{}: a kernel of it launches kernels, for which clang's device code lacks CUDA's device runtime (nvlink \
                     would not find __cudaCDP2...): have NVIDIA's nvcc compile all of the program (mgb nvcc --keep-nvcc \
                     -rdc=true, or MGB_KEEP_NVCC=1), for real GPUs only",
                    file.display()
                );
            }
            return Ok(found);
        };
        if let Some((_, file)) = found.left.iter().find(|(image, _)| !linked.contains(image)) {
            bail!(
                "{}: its device code is not linked: the object of -dlink was made without this file",
                file.display()
            );
        }
        Ok(DeviceCode::default())
    }

    /// What [`LINKED`] holds once all of this is linked.
    pub fn mark(&self) -> Vec<u8> {
        let objects = self.left.iter().map(|(image, _)| *image);
        let images = objects.chain(self.in_archives.iter().copied());
        images.flat_map(u64::to_le_bytes).collect()
    }

    /// Whether the link must be told to link device code. With CUDA sources on the same line clang does so by
    /// itself.
    pub fn is_to_link(&self, line: &CommandLine) -> bool {
        let is_told = line.arguments.iter().any(|one| one.word == "--offload-link");
        self.is_left && !is_told && !line.has_input(Language::Cuda)
    }

    /// Whether there is any.
    pub fn is_some(&self) -> bool {
        self.is_left
    }

    /// What cannot be read is the linker's to name.
    fn look_into(&mut self, file: &Path, clang: &Path) -> Result<()> {
        let Ok(opened) = File::open(file) else {
            return Ok(());
        };
        let data = ReadCache::new(opened);
        let kind = file.extension().and_then(|extension| extension.to_str());
        match kind {
            Some("o") => self.add(&data, Some(file), clang)?,
            Some("a") => {
                let Ok(archive) = ArchiveFile::parse(&data) else {
                    return Ok(());
                };
                for member in archive.members().flatten() {
                    let (start, length) = member.file_range();
                    self.add(data.range(start, length), None, clang)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds an object, by its file if it is no member of an archive.
    fn add<'data>(&mut self, data: impl ReadRef<'data>, file: Option<&Path>, clang: &Path) -> Result<()> {
        if let Some(bitcode) = bitcode(data) {
            return self.add_bitcode(bitcode, file, clang);
        }
        if let Ok(object) = object::File::parse(data) {
            self.add_object(&object, file);
        }
        Ok(())
    }

    /// Adds what is left to the link as bitcode (`-flto`): only an object's sections can be read.
    fn add_bitcode(&mut self, bitcode: &[u8], file: Option<&Path>, clang: &Path) -> Result<()> {
        if !contains(bitcode, WANTED) {
            return Ok(());
        }
        let folder = own_folder()?;
        let (input, output) = (folder.path().join("code.bc"), folder.path().join("code.o"));
        std::fs::write(&input, bitcode).with_context(|| format!("failed to write {}", input.display()))?;
        let mut command = Command::new(clang);
        command.args(["-c", "-O0", "-Xclang", "-disable-llvm-passes", "-x", "ir"]);
        spawn::succeed(command.arg(input).arg("-o").arg(&output))?;
        let bytes = std::fs::read(&output).with_context(|| format!("failed to read {}", output.display()))?;
        if let Ok(object) = object::File::parse(bytes.as_slice()) {
            self.add_object(&object, file);
        }
        Ok(())
    }

    fn add_object<'data>(&mut self, object: &object::File<'data, impl ReadRef<'data>>, file: Option<&Path>) {
        let is_member = file.is_none();
        if let Some(section) = object.section_by_name(CLANGS) {
            self.is_left = true;
            let images = images(section.data().unwrap_or_default());
            match file {
                Some(file) => self.left.extend(images.map(|image| (image, file.to_owned()))),
                None => self.in_archives.extend(images),
            }
        }
        if let Some(section) = object.section_by_name(LINKED) {
            let marks = section.data().unwrap_or_default().as_chunks::<8>().0;
            let marks = marks.iter().map(|mark| u64::from_le_bytes(*mark));
            self.linked.get_or_insert_default().extend(marks);
        }
        let Some(section) = object.section_by_name(SECTION) else {
            return;
        };
        let mut rest = section.data().unwrap_or_default();
        while let Some((arch, bitcode, behind)) = first(rest) {
            self.parts.push(FileBitcode {
                arch,
                bitcode: bitcode.to_vec(),
                is_member,
            });
            rest = behind;
        }
    }

    /// Makes the object that a program has beside its linked device code, in a folder of its own: with the
    /// host code of all kernels, where that is wanted.
    ///
    /// # Errors
    /// When clang fails.
    pub fn beside(&self, clang: &Path, plugin: &Path) -> Result<(TempDir, PathBuf)> {
        let folder = own_folder()?;
        let write = |name: &str, bytes: &[u8]| {
            let file = folder.path().join(name);
            std::fs::write(&file, bytes).with_context(|| format!("failed to write {}", file.display()))?;
            anyhow::Ok(file)
        };
        let parts: &[FileBitcode] = if tools::wants_host_kernels() {
            &self.parts
        } else {
            &[]
        };
        for (number, part) in parts.iter().enumerate() {
            let kind = if part.is_member { "member" } else { "object" };
            write(&format!("{number:05}-{kind}.sm_{}.bc", part.arch), &part.bitcode)?;
        }
        let source = write("parts.c", SOURCE.as_bytes())?;
        let output = folder.path().join("parts.o");
        let mut command = Command::new(clang);
        command
            .args(["-c", "-O2", "-fPIC"])
            .arg(source)
            .arg("-o")
            .arg(&output);
        if !parts.is_empty() {
            let mut plugin_option = OsString::from("-fpass-plugin=");
            plugin_option.push(plugin);
            command.arg(plugin_option).env("MGB_DEVICE_PARTS", folder.path());
        }
        spawn::succeed(&mut command).context(
            "failed to make the kernels' host code for the software GPU, which MGB_HOST_KERNELS=off leaves out",
        )?;
        Ok((folder, output))
    }
}

/// The files of a link, and the archives among its libraries, in their order.
pub fn files(line: &CommandLine) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<&OsStr> = line
        .arguments
        .iter()
        .filter_map(|one| value_of(one, b"-L"))
        .collect();
    line.arguments.iter().filter_map(move |one| match one.kind {
        ArgumentKind::Input(Language::Linked) => Some(PathBuf::from(&one.word)),
        _ => archive(value_of(one, b"-l")?, &folders),
    })
}

/// The value of an option of one letter, behind it or joined to it.
fn value_of<'a>(one: &'a Argument, option: &[u8]) -> Option<&'a OsStr> {
    let joined = one.word.as_bytes().strip_prefix(option)?;
    match &one.value {
        Some(value) => joined.is_empty().then_some(value.as_os_str()),
        None => (!matches!(one.kind, ArgumentKind::Input(_))).then(|| OsStr::from_bytes(joined)),
    }
}

/// The archive that the linker takes for a library's name, unless there is a shared library of that name.
fn archive(name: &OsStr, folders: &[&OsStr]) -> Option<PathBuf> {
    let file = |extension: &str| {
        let mut file = OsString::from("lib");
        file.push(name);
        file.push(extension);
        file
    };
    let first = |file: OsString| {
        folders
            .iter()
            .map(|folder| Path::new(folder).join(&file))
            .find(|file| file.is_file())
    };
    if first(file(".so")).is_some() {
        return None;
    }
    first(file(".a"))
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|part| part == name)
}

/// The bytes of a file of bitcode; none of other files.
fn bitcode<'data>(data: impl ReadRef<'data>) -> Option<&'data [u8]> {
    let start = data.read_bytes_at(0, BITCODE.len() as u64).ok()?;
    (start == BITCODE).then_some(())?;
    data.read_bytes_at(0, data.len().ok()?).ok()
}

/// A folder that is gone once it is dropped.
pub fn own_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("mgb-").tempdir();
    folder.context("failed to make a temporary folder; set TMPDIR to a writable folder")
}

/// The images in a section of clang's, each by its hash.
fn images(mut section: &[u8]) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let header = section.get(..HEADER)?.strip_prefix(IMAGE)?;
        let length = u64::from_le_bytes(header[4..].try_into().ok()?);
        let image = section.get(..usize::try_from(length).ok()?.max(HEADER))?;
        section = &section[image.len()..];
        let mut hasher = FnvHasher::default();
        hasher.write(image);
        Some(hasher.finish())
    })
}

/// The first part of a section, and what stands behind it.
fn first(section: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let header = section.get(..HEADER)?.strip_prefix(MAGIC)?;
    let (arch, length) = header.split_first_chunk::<4>()?;
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let end = HEADER.checked_add(length)?;
    let bitcode = section.get(HEADER..end)?;
    let behind = section.get(end.next_multiple_of(ALIGN)..).unwrap_or_default();
    Some((u32::from_le_bytes(*arch), bitcode, behind))
}

/// Whether a command compiles such code.
pub fn compiles(line: &CommandLine) -> bool {
    let option = line
        .arguments
        .iter()
        .rev()
        .find(|one| one.word == "-fgpu-rdc" || one.word == "-fno-gpu-rdc");
    option.is_some_and(|one| one.word == "-fgpu-rdc") && line.has_input(Language::Cuda)
}

/// Whether a command compiles such code and links it at once.
pub fn is_in_one_step(line: &CommandLine) -> bool {
    compiles(line) && line.links()
}

/// The same in steps: the folder with the objects, the command lines that make them, and the one that links
/// them.
///
/// # Errors
/// When there is no folder for them.
pub fn steps(line: &CommandLine) -> Result<(TempDir, Vec<Vec<OsString>>, Vec<OsString>)> {
    let folder = own_folder()?;
    let (mut compiles, mut link) = (Vec::new(), Vec::new());
    let words = |one: &Argument| [Some(one.word.clone()), one.value.clone()].into_iter().flatten();
    let is_for_compiles = |one: &&Argument| {
        let is_linkers = matches!(
            one.kind,
            ArgumentKind::Input(_)
                | ArgumentKind::Known(
                    Meaning::Language | Meaning::Library | Meaning::Runtime | Meaning::ToLinker
                )
        );
        !is_linkers && one.word != "-o" && !one.word.as_encoded_bytes().starts_with(b"-l")
    };
    let options: Vec<OsString> = line
        .arguments
        .iter()
        .filter(is_for_compiles)
        .flat_map(words)
        .collect();
    let mut language: Vec<OsString> = Vec::new();
    for one in &line.arguments {
        match one.kind {
            ArgumentKind::Known(Meaning::Language) => language = words(one).collect(),
            ArgumentKind::Input(Language::Cuda | Language::Host) => {
                // The program's messages name the file.
                let name = Path::new(&one.word).with_extension("o");
                let place = folder.path().join(compiles.len().to_string());
                std::fs::create_dir(&place).with_context(|| format!("failed to make {}", place.display()))?;
                let object = place.join(name.file_name().unwrap_or_default()).into_os_string();
                let mut compile = options.clone();
                compile.extend(["-Wno-unused-command-line-argument".into(), "-c".into()]);
                compile.extend(language.iter().cloned());
                compile.extend([one.word.clone(), "-o".into(), object.clone()]);
                compiles.push(compile);
                link.push(object);
            }
            _ => link.extend(words(one)),
        }
    }
    Ok((folder, compiles, link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_behind_each_other() {
        let part = |arch: u32, bitcode: &[u8]| {
            let mut bytes = [
                MAGIC,
                &arch.to_le_bytes(),
                &(bitcode.len() as u64).to_le_bytes(),
                bitcode,
            ]
            .concat();
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
            bytes
        };
        let section = [part(90, b"first"), part(80, b"")].concat();
        let (arch, bitcode, rest) = first(&section).unwrap();
        assert_eq!((arch, bitcode), (90, &b"first"[..]));
        let (arch, bitcode, rest) = first(rest).unwrap();
        assert_eq!((arch, bitcode, rest), (80, &b""[..], &b""[..]));
        assert_eq!(first(rest), None);
        assert_eq!(first(&section[..20]), None);
        let huge = [MAGIC, &[0; 4], &[0xff; 8]].concat();
        assert_eq!(first(&huge), None);
    }

    #[test]
    fn one_step_becomes_several() {
        let text = "-O2 -fgpu-rdc -DX a.cu -x cuda b.cpp -x none c.o -lm -Lq -Wl,-z,now -o p";
        let line = CommandLine::parse(text.split(' ').map(OsString::from));
        assert!(is_in_one_step(&line));
        let (folder, compiles, link) = steps(&line).unwrap();
        let text = |words: &[OsString]| {
            let text = words.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
            text.replace(folder.path().to_str().unwrap(), "T")
        };
        let unused = "-Wno-unused-command-line-argument";
        assert_eq!(
            text(&compiles[0]),
            format!("-O2 -fgpu-rdc -DX -Lq {unused} -c a.cu -o T/0/a.o")
        );
        assert_eq!(
            text(&compiles[1]),
            format!("-O2 -fgpu-rdc -DX -Lq {unused} -c -x cuda b.cpp -o T/1/b.o")
        );
        assert_eq!(
            text(&link),
            "-O2 -fgpu-rdc -DX T/0/a.o T/1/b.o c.o -lm -Lq -Wl,-z,now -o p"
        );
        for other in [
            "-fgpu-rdc -c a.cu",
            "-fgpu-rdc a.o",
            "-fgpu-rdc -fno-gpu-rdc a.cu",
        ] {
            let line = CommandLine::parse(other.split(' ').map(OsString::from));
            assert!(!is_in_one_step(&line), "{other}");
        }
    }
}
