//! Whether this process uses its GPUs through the MPS that mgbd runs.
//!
//! A process whose kernels launch kernels does not: MPS refuses every module with such a kernel (error 811),
//! even where it never runs, and a program that checks no errors goes on with wrong results. Outside MPS it
//! works as natively, and its kernels take turns with those of the programs beside it.

use std::ffi::{CStr, OsStr, OsString, c_int, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mgb_abi::error::Code;
use mgb_probe::wire::JoinedMps;
use mgb_probe::{Client, Hello};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadCache, ReadRef, elf};

/// `off`: the process stays outside.
pub const SETTING: &str = "MGB_MPS";
/// Where the driver looks for MPS when it is initialised.
pub const PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// How the driver says MPS a client's priority: 0 is normal, 1 is below that.
pub const PRIORITY: &str = "CUDA_MPS_CLIENT_PRIORITY";
/// How it says the percentage of the multiprocessors that a client has at most.
pub const PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
/// What `mgb run --share` says: the percentage of the multiprocessors that the program has at most, such as
/// `25%`.
pub const SHARE: &str = "MGB_SHARE";
/// No folder, so that the driver finds no MPS there, nor another one in its usual place.
pub const NO_PIPE: &str = "/dev/null";
/// CUDA's `CUDA_ERROR_CDP_NOT_SUPPORTED` and `cudaErrorCdpNotSupported`.
pub const REFUSED: Code = Code::CDP_NOT_SUPPORTED;

/// Where nvcc's device linker names the sources of the device code that is linked, for the host to read.
const SOURCES: &str = "__nv_module_id";
/// The source with the functions by which kernels launch kernels, in libcudadevrt.
const DEVICE_RUNTIME: &[u8] = b"cuda_device_runtime";

/// Why the process stays outside MPS. The first call reads the files of all that is loaded: it comes before
/// the driver is initialised, and what is loaded later cannot change the answer.
pub fn why_outside() -> Option<&'static str> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    WHY.get_or_init(|| by_setting().or_else(of_process)).as_deref()
}

/// Why a program that is started from this file stays outside, as far as the file itself tells.
pub fn why_program_outside(program: &Path) -> Option<String> {
    by_setting().or_else(|| of_file(program, program))
}

/// Whether this process is a client of mgbd's MPS.
pub fn is_used(hello: &Hello) -> bool {
    hello.mps_pipe.is_some() && why_outside().is_none()
}

/// The folder that the driver is to look for MPS in, where mgbd's is at `pipe`, for a process that may have a
/// reason to stay outside. None: there is no MPS, and the driver is left alone.
pub fn folder<'a>(pipe: Option<&'a str>, outside: Option<&str>) -> Option<&'a str> {
    pipe.map(|pipe| if outside.is_some() { NO_PIPE } else { pipe })
}

/// A percentage from 1 to 100, with or without its sign.
///
/// # Errors
/// What is wrong with it.
pub fn parse_share(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| format!("{text} is no percentage from 1 to 100, such as 25%"))
}

/// Why a program that is started from this file cannot be kept to a part of the multiprocessors here.
pub fn why_no_share(hello: &Hello, program: &Path) -> Option<String> {
    if hello.mps_pipe.is_some() {
        return why_program_outside(program);
    }
    let note = hello.mps_note.as_deref().map(|note| format!(" ({note})"));
    Some(format!("mgbd runs without it{}", note.unwrap_or_default()))
}

/// The variables that have the driver join MPS as mgbd wants it, for a process that may have a reason to stay
/// outside. What `own` says of a percentage, and of a share, holds where it is less than mgbd's.
pub fn variables(
    hello: &Hello,
    outside: Option<&str>,
    own: impl Fn(&str) -> Option<OsString>,
) -> Vec<(&'static str, String)> {
    let Some(folder) = folder(hello.mps_pipe.as_deref(), outside) else {
        return Vec::new();
    };
    let client = hello.mps_client;
    let share = own(SHARE).and_then(|share| parse_share(share.to_str()?).ok());
    let own = own(PERCENTAGE).and_then(|own| percentage(own.to_str()?));
    let least = |most: u32| own.is_none_or(|own| own > f64::from(most)).then_some(most);
    let most = client.percentage.into_iter().chain(share).min();
    [
        Some((PIPE, folder.to_owned())),
        client.priority.map(|priority| (PRIORITY, priority.to_string())),
        most.and_then(least).map(|most| (PERCENTAGE, most.to_string())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A percentage as the driver takes it: with any other it gives all multiprocessors.
fn percentage(text: &str) -> Option<f64> {
    let number = text.trim().parse::<f64>().ok();
    number.filter(|number| *number > 0.0 && *number <= 100.0)
}

/// Tells mgbd how the process joins MPS, and people where its share holds nothing: called once its
/// environment is as the driver is to find it.
pub fn tell(client: &Client) {
    if let Some(share) = std::env::var_os(SHARE).filter(|share| !share.is_empty()) {
        let why = match share.to_str().map(parse_share) {
            Some(Ok(percent)) if percent == 100 || is_used(client.hello()) => None,
            Some(Ok(_)) => Some("the program is in no MPS, by which it would hold".to_owned()),
            Some(Err(why)) => Some(why),
            None => Some("it is no percentage".to_owned()),
        };
        if let Some(why) = why {
            mgb_stderr::say!("mgb: {SHARE} is not heeded: {why}");
        }
    }
    if client.hello().mps_pipe.is_none() {
        return;
    }
    let priority = std::env::var(PRIORITY)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let percentage = std::env::var(PERCENTAGE).ok().and_then(|text| percentage(&text));
    let given = client.mps_client().percentage;
    client.published().joins_mps(JoinedMps {
        is_outside: why_outside().is_some(),
        priority,
        percentage: percentage.map(|number| number as u8),
        is_own: percentage.is_some_and(|own| given.is_none_or(|given| own < f64::from(given))),
    });
}

/// What people are told once about a process that stays outside.
pub fn notice(why: &str) -> String {
    format!("{why}: the program uses its GPU outside MPS, in turns with the programs beside it")
}

/// What people are told where MPS refused a module that was not seen before the process joined it.
pub fn refusal() -> String {
    format!(
        "MPS refuses a module whose kernels launch kernels ({REFUSED}), and what uses it fails: run \
         the program with {SETTING}=off"
    )
}

fn by_setting() -> Option<String> {
    let off = std::env::var_os(SETTING).is_some_and(|value| value == "off");
    off.then(|| format!("{SETTING}=off"))
}

fn of_process() -> Option<String> {
    // The linker has no name for the program, and the file of that name may be another one by now.
    let own = Path::new("/proc/self/exe");
    let name = std::fs::read_link(own).unwrap_or_else(|_| own.to_owned());
    of_file(own, &name).or_else(|| libraries().iter().find_map(|file| of_file(file, file)))
}

fn of_file(file: &Path, known_as: &Path) -> Option<String> {
    let name = || known_as.file_name().unwrap_or(known_as.as_os_str()).display();
    launches_kernels(file).then(|| format!("kernels of {} launch kernels, which MPS refuses", name()))
}

/// Whether kernels of a program or library may launch kernels: nvcc's linker has put the device runtime into
/// it. A file that cannot be read has none.
pub fn launches_kernels(file: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    let file = ReadCache::new(file);
    linked_sources(&file)
        .unwrap_or_default()
        .windows(DEVICE_RUNTIME.len())
        .any(|part| part == DEVICE_RUNTIME)
}

/// The names of the sources. Of a file only the table of its sections is read: a process may have hundreds.
fn linked_sources<'a, R: ReadRef<'a>>(file: R) -> Option<&'a [u8]> {
    let header = elf::FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let (_, section) = sections.section_by_name(endian, SOURCES.as_bytes())?;
    section.data(endian, file).ok()
}

/// The files of this process's libraries.
fn libraries() -> Vec<PathBuf> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, files: *mut c_void) -> c_int {
        // SAFETY: the linker's own structure of a loaded object.
        let name = unsafe { (*info).dlpi_name };
        if name.is_null() {
            return 0;
        }
        // SAFETY: not null, so it is the linker's string, which holds during the call.
        let name = unsafe { CStr::from_ptr(name) };
        if !name.is_empty() {
            // SAFETY: the place that `libraries` gave, which nobody else uses meanwhile.
            unsafe { &mut *files.cast::<Vec<PathBuf>>() }.push(OsStr::from_bytes(name.to_bytes()).into());
        }
        0
    }
    let mut files = Vec::<PathBuf>::new();
    // SAFETY: the function has the signature that is asked for, and writes to `files` only.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut files).cast()) };
    files
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use mgb_probe::MpsClient;

    use super::*;

    fn build(folder: &Path, name: &str, text: &str) -> PathBuf {
        let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
        std::fs::write(&source, text).unwrap();
        let mut cc = Command::new("cc");
        let done = cc.arg(&source).args(["-s", "-o"]).arg(&program).status();
        assert!(done.unwrap().success());
        program
    }

    fn linked(sources: &str) -> String {
        format!(
            "__attribute__((section(\"__nv_module_id\"), used)) static const char ids[] = \"{sources}\";\n\
             int main(void) {{ return 0; }}\n"
        )
    }

    #[test]
    fn the_device_runtime_is_found_in_a_stripped_program() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name, text: &str| launches_kernels(&build(folder.path(), name, text));
        assert!(at(
            "nested",
            &linked("_01_5_app_cu_02\\0_f4_22_cuda_device_runtime_cu_3e")
        ));
        assert!(!at("linked", &linked("_01_5_app_cu_02")));
        assert!(!at("plain", "int main(void) { return 0; }\n"));
        let text = folder.path().join("text");
        std::fs::write(&text, "__nv_module_id cuda_device_runtime").unwrap();
        assert!(!launches_kernels(&text) && !launches_kernels(&folder.path().join("none")));
    }

    #[test]
    fn who_stays_outside_finds_no_mps() {
        assert_eq!(folder(Some("/run/mps"), None), Some("/run/mps"));
        assert_eq!(folder(Some("/run/mps"), Some("why")), Some(NO_PIPE));
        assert_eq!((folder(None, None), folder(None, Some("why"))), (None, None));
        assert!(!Path::new(NO_PIPE).is_dir());
    }

    fn hello(mps_client: MpsClient) -> Hello {
        let text = r#"{"version":0,"policy":"","queue":"","mps_pipe":"/run/mps","mps_note":null,"gpus":[],
            "mgbd_pid":1,"view":null}"#;
        let hello: Hello = serde_json::from_str(text).unwrap();
        Hello { mps_client, ..hello }
    }

    #[test]
    fn a_client_has_no_more_than_its_own_percentage() {
        let batch = hello(MpsClient {
            priority: Some(1),
            percentage: Some(90),
        });
        let given = |own: Option<&str>| {
            let variables = variables(&batch, None, |_| own.map(OsString::from));
            variables.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(given(None), ["/run/mps", "1", "90"]);
        assert_eq!(given(Some("95.5")), ["/run/mps", "1", "90"]);
        assert_eq!(given(Some("30")), ["/run/mps", "1"]);
        // With these the driver would give it all multiprocessors.
        for none in ["most", "0", "-5", "1000", "NaN"] {
            assert_eq!(given(Some(none)), ["/run/mps", "1", "90"], "{none}");
        }
        assert_eq!(variables(&hello(MpsClient::default()), None, |_| None).len(), 1);
        // The least of mgbd's, the program's own and its share.
        let shared = |mps_client, own: Option<&str>, share: &str| {
            let said = |name: &str| if name == SHARE { Some(share) } else { own }.map(OsString::from);
            let variables = variables(&hello(mps_client), None, said);
            variables
                .into_iter()
                .find(|(name, _)| *name == PERCENTAGE)
                .map(|(_, value)| value)
        };
        assert_eq!(shared(batch.mps_client, None, "25%").as_deref(), Some("25"));
        assert_eq!(shared(batch.mps_client, None, "95").as_deref(), Some("90"));
        assert_eq!(shared(MpsClient::default(), None, "25%").as_deref(), Some("25"));
        assert_eq!(shared(MpsClient::default(), Some("20"), "25%"), None);
        assert_eq!(shared(MpsClient::default(), None, "0%"), None);
        let none = Hello {
            mps_pipe: None,
            ..batch
        };
        assert!(variables(&none, None, |_| None).is_empty());
    }

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!((parse_share("25%"), parse_share(" 100 ")), (Ok(25), Ok(100)));
        for wrong in ["", "0", "101%", "-5", "25%%", "a quarter", "0.25"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_mps_there_is_no_share() {
        let with = hello(MpsClient::default());
        let program = Path::new("/proc/self/exe");
        assert_eq!(why_no_share(&with, program), None);
        let without = Hello {
            mps_pipe: None,
            mps_note: Some("--no-mps".to_owned()),
            ..with
        };
        assert_eq!(
            why_no_share(&without, program).as_deref(),
            Some("mgbd runs without it (--no-mps)")
        );
    }

    #[test]
    fn what_is_loaded_is_named() {
        let files = libraries();
        assert!(files.iter().any(|file| file.ends_with("libc.so.6")), "{files:?}");
        assert!(files.iter().all(|file| !file.as_os_str().is_empty()));
        assert_eq!(why_outside(), None);
    }
}
