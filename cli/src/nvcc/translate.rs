//! Turns what nvcc was asked for into a command line of `mgb clang++`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::arch::{self, Target};
use super::inputs::{self, Input, InputKind};
use super::parse::{NvccCommandLine, OptionWord};
use super::table::{Fate, Meaning, Stop};
use super::{arithmetic, errors};

/// What is to be done.
#[derive(Debug)]
pub struct CompilePlan {
    /// The last step.
    pub stop: Stop,
    /// For `mgb clang++`.
    pub words: Vec<String>,
    /// What was left out or is other than with nvcc, for `-v`.
    pub notes: Vec<String>,
    /// The architectures named.
    pub targets: Vec<Target>,
    /// What is compiled and linked.
    pub inputs: Vec<Input>,
    /// The output, where it is named or follows from the input.
    pub output: Option<PathBuf>,
}

/// What is known of the CUDA toolkit.
#[derive(Debug, Default)]
pub struct Toolkit {
    /// Where libraries that only a driver brings have stand-ins.
    pub stubs: Option<PathBuf>,
    /// CUDA's version: major and minor.
    pub version: (u32, u32),
}

/// The source that CMake compiles to learn which compiler it has.
const CMAKE_PROBE: &str = "CMakeCUDACompilerId.cu";

/// The header with what clang's CUDA lacks. By its name: among MGB's headers, which count as a system's.
const DIALECT: &str = "mgb_nvcc.h";

/// A variable of the storage class `register` in C++17 is an error for clang; nvcc takes it, and gcc below it
/// warns. What the makefile says of it comes later and holds.
const REGISTER: &str = "-Wno-register";

/// Makes the plan.
///
/// # Errors
/// On options that are refused, and on values that make no sense.
pub fn translate(request: &NvccCommandLine, toolkit: &Toolkit) -> Result<CompilePlan> {
    let mut notes = Vec::new();
    let stop = last_step(request);
    let inputs = inputs::of(request)?;
    let targets = arch::targets(request)?;
    let output = output(request, stop, &inputs, &targets)?;
    let mut words = step(request, stop);
    let sources = inputs.iter().any(|input| input.kind != InputKind::Linked);
    if sources {
        words.extend(device(request, &targets)?);
        if inputs.iter().any(|input| input.kind == InputKind::Source("cuda")) {
            words.extend(["-include", DIALECT].map(String::from));
        }
        words.push(REGISTER.into());
    }
    let mut given = options(request, stop, &mut notes)?;
    if sources && is_all_c(&inputs) {
        // gcc, below nvcc, only warns of it; for clang it is an error.
        given.retain(|word| !word.starts_with("-std=c++") && !word.starts_with("-std=gnu++"));
    }
    words.extend(given);
    if request.has_input_named(CMAKE_PROBE) {
        // CMake then treats the compiler as nvcc, whose command line this is. Programs see clang.
        let (major, minor) = toolkit.version;
        words.push("-D__NVCC__".into());
        words.push(format!("-D__CUDACC_VER_MAJOR__={major}"));
        words.push(format!("-D__CUDACC_VER_MINOR__={minor}"));
        words.push("-D__CUDACC_VER_BUILD__=0".into());
    }
    if !words.is_empty() {
        // nvcc says nothing when a step has no use for an option.
        words.insert(0, "--start-no-unused-arguments".into());
        words.push("--end-no-unused-arguments".into());
    }
    if let Some(output) = &output {
        words.extend(["-o".into(), output.display().to_string()]);
    }
    let libraries = libraries(request, &mut notes);
    let groups = stop == Stop::Link && !libraries.is_empty();
    if groups {
        words.push("-Wl,--start-group".into());
    }
    words.extend(in_their_languages(&inputs));
    if stop == Stop::DeviceLink {
        words.extend(libraries);
    } else if stop == Stop::Link {
        words.extend(libraries);
        if let Some(stubs) = &toolkit.stubs {
            words.push(format!("-L{}", stubs.display()));
        }
    }
    if groups {
        words.push("-Wl,--end-group".into());
    }
    if stop == Stop::Link {
        notes.push(runtime(request)?);
    }
    if across_files(request)? {
        if sources {
            words.insert(0, "-fgpu-rdc".into());
        }
        notes.push("-rdc=true, -dc: clang's -fgpu-rdc, with which nvcc's own objects do not link".into());
    }
    Ok(CompilePlan {
        stop,
        words,
        notes,
        targets,
        inputs,
        output,
    })
}

/// Whether device code that refers to other files' is asked for.
///
/// # Errors
/// When `-rdc` is neither true nor false.
pub fn across_files(request: &NvccCommandLine) -> Result<bool> {
    let separate = request.has(Meaning::Stop(Stop::DeviceCompile));
    Ok(separate || request.switch(Meaning::Relocatable)? == Some(true))
}

/// Whether all sources are C.
fn is_all_c(inputs: &[Input]) -> bool {
    inputs
        .iter()
        .all(|input| matches!(input.kind, InputKind::Source("c") | InputKind::Linked))
}

/// The step that a command line ends with.
pub fn last_step(request: &NvccCommandLine) -> Stop {
    let steps: Vec<Stop> = request
        .given
        .iter()
        .filter_map(|given| match given {
            OptionWord::Option { entry, .. } => match entry.fate {
                Fate::Means(Meaning::Stop(stop)) => Some(stop),
                _ => None,
            },
            _ => None,
        })
        .collect();
    // Make's rules are asked for beside the step that they are for.
    let rules = steps.iter().find(|stop| matches!(stop, Stop::Dependencies));
    *rules.or(steps.last()).unwrap_or(&Stop::Link)
}

fn step(request: &NvccCommandLine, stop: Stop) -> Vec<String> {
    let words: &[&str] = match stop {
        Stop::Compile | Stop::DeviceCompile | Stop::Archive => &["-c"],
        Stop::Link | Stop::DeviceLink => &[],
        Stop::Ptx => &["--cuda-device-only", "-S"],
        Stop::Cubin => &["--cuda-device-only", "-c"],
        Stop::Fatbin => &["--cuda-device-only", "--gpu-bundle-output", "-c"],
        Stop::Preprocess => &["-E"],
        Stop::Dependencies if request.written(Meaning::Stop(stop)).contains("nonsystem") => &["-MM"],
        Stop::Dependencies if request.written(Meaning::Stop(stop)) == "-MM" => &["-MM"],
        Stop::Dependencies => &["-M"],
        Stop::DeviceCheck => &["--cuda-device-only", "-fsyntax-only"],
    };
    words.iter().map(ToString::to_string).collect()
}

fn output(
    request: &NvccCommandLine,
    stop: Stop,
    inputs: &[Input],
    targets: &[Target],
) -> Result<Option<PathBuf>> {
    let extension = match stop {
        Stop::Ptx => "ptx",
        Stop::Cubin => "cubin",
        Stop::Fatbin => "fatbin",
        _ => "o",
    };
    if matches!(stop, Stop::Ptx | Stop::Cubin) && targets.len() > 1 {
        bail!(
            "{}: one architecture is needed, and {} are named",
            request.written(Meaning::Stop(stop)),
            targets.len()
        );
    }
    let folder = request.last(Meaning::OutputFolder).map(Path::new);
    let named = request.last(Meaning::Output).map(PathBuf::from);
    let per_input = matches!(stop, Stop::Ptx | Stop::Cubin | Stop::Fatbin)
        || folder.is_some() && matches!(stop, Stop::Compile | Stop::DeviceCompile);
    let derived = || match inputs {
        [one] => Ok(Some(one.renamed(extension))),
        _ => bail!(
            "{} inputs for {}: clang makes one such output at a time; name one input each, or give one and -o",
            inputs.len(),
            request.written(Meaning::Stop(stop))
        ),
    };
    let output = match named {
        Some(named) => Some(named),
        None if per_input => derived()?,
        None => None,
    };
    Ok(match folder {
        Some(folder) => output.map(|output| folder.join(output)),
        None => output,
    })
}

/// The words that concern device code, which nvcc optimises fully unless it is to be debugged.
fn device(request: &NvccCommandLine, targets: &[Target]) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for target in targets {
        words.push(format!("--cuda-gpu-arch=sm_{}", target.number));
        if !target.ptx {
            words.push(format!("--no-cuda-include-ptx=sm_{}", target.number));
        }
    }
    let mut device = Vec::new();
    if request.has(Meaning::DeviceDebug) {
        words.push("--cuda-noopt-device-debug".into());
        device.extend(["-O0", "-g"].map(String::from));
    } else {
        device.push("-O3".into());
        if request.has(Meaning::LineInfo) {
            device.push("-gline-tables-only".into());
        }
    }
    device.extend(arithmetic::words(request)?);
    for word in device {
        words.extend(["-Xarch_device".into(), word]);
    }
    for word in request.values(Meaning::Ptxas) {
        words.extend(["-Xcuda-ptxas".into(), word.into()]);
    }
    if request.has(Meaning::ResourceUsage) {
        words.extend(["-Xcuda-ptxas", "-v"].map(String::from));
    }
    if let Some(count) = request.last(Meaning::MaxRegisters) {
        let count: u32 = count
            .parse()
            .with_context(|| format!("-maxrregcount={count}: a number is needed"))?;
        if count > 0 {
            words.extend(["-Xcuda-ptxas".into(), format!("--maxrregcount={count}")]);
        }
    }
    match request.last(Meaning::DefaultStream) {
        None | Some("legacy" | "null") => {}
        // clang's driver takes its option for HIP only; the compiler proper takes it for CUDA too.
        Some("per-thread") => words.extend(["-Xclang", "-fgpu-default-stream=per-thread"].map(String::from)),
        Some(other) => bail!("-default-stream={other}: legacy, null or per-thread is needed"),
    }
    Ok(words)
}

/// The other options, in their order.
fn options(request: &NvccCommandLine, stop: Stop, notes: &mut Vec<String>) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for given in &request.given {
        let (written, entry, values) = match given {
            OptionWord::Input(_) => continue,
            OptionWord::Unknown(word) => {
                words.extend(for_host(word));
                continue;
            }
            OptionWord::Option {
                written,
                entry,
                values,
            } => (written, entry, values),
        };
        match entry.fate {
            Fate::Pass(name) if values.is_empty() => words.push(name.into()),
            Fate::Pass(name) => {
                for value in values {
                    words.extend([name.into(), value.clone()]);
                }
            }
            Fate::Join(name) => words.extend(values.iter().map(|value| format!("{name}{value}"))),
            Fate::Drop(why) => {
                let values = values.join(",");
                let space = if values.is_empty() { "" } else { " " };
                notes.push(format!("left out {written}{space}{values}: {why}"));
            }
            Fate::Refuse(why) => bail!("{written} cannot be done with clang: {why}"),
            Fate::Means(Meaning::HostCompiler) => words.extend(values.iter().flat_map(|word| for_host(word))),
            Fate::Means(Meaning::Linker) if stop == Stop::Link => {
                for word in values {
                    words.extend(["-Xlinker".into(), word.clone()]);
                }
            }
            Fate::Means(Meaning::Debug) => words.extend(for_host("-g")),
            Fate::Means(Meaning::Optimize) => {
                let level = values.last().map_or("", String::as_str);
                words.extend(for_host(&format!("-O{level}")));
            }
            Fate::Means(Meaning::Errors) => words.extend(errors::words(values, notes)?),
            Fate::Means(_) => {}
        }
    }
    Ok(words)
}

/// gcc hands it to the linker as it is. clang knows another name for the same.
const EXPORT_DYNAMIC: &str = "-export-dynamic";

/// A word for the host compiler, kept from device code where it would change that.
fn for_host(word: &str) -> Vec<String> {
    if word == EXPORT_DYNAMIC {
        return vec!["-rdynamic".into()];
    }
    const HOST_ONLY: &[&str] = &[
        "-O",
        "-g",
        "-ffast-math",
        "-ffp-contract",
        "-funsafe-math",
        "-funroll",
    ];
    if HOST_ONLY.iter().any(|start| word.starts_with(start)) {
        vec!["-Xarch_host".into(), word.into()]
    } else {
        vec![word.into()]
    }
}

/// Libraries come after all inputs, and may refer to each other: nvcc links them as one group.
fn libraries(request: &NvccCommandLine, notes: &mut Vec<String>) -> Vec<String> {
    let mut words = Vec::new();
    for library in request.values(Meaning::Library) {
        if library == "cudadevrt" {
            notes.push("left out -lcudadevrt: device code is not linked across files".into());
        } else {
            words.push(format!("-l{library}"));
        }
    }
    words
}

fn in_their_languages(inputs: &[Input]) -> Vec<String> {
    let mut words = Vec::new();
    let mut current = "none";
    for input in inputs {
        let language = match input.kind {
            InputKind::Source(language) => language,
            InputKind::Linked => "none",
        };
        if language != current {
            words.extend(["-x".into(), language.into()]);
            current = language;
        }
        words.push(input.name.clone());
    }
    words
}

fn runtime(request: &NvccCommandLine) -> Result<String> {
    let asked = request.last(Meaning::Runtime);
    match asked {
        None | Some("static" | "none") => Ok(format!(
            "-cudart {}: the shared CUDA runtime is taken, as MGB needs it",
            asked.unwrap_or("static, which is nvcc's default")
        )),
        Some("shared") => Ok("-cudart shared: as MGB needs it".into()),
        Some(other) => bail!("-cudart {other}: none, shared or static is needed"),
    }
}
