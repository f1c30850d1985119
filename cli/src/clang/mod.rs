//! `mgb clang`, `mgb-clang` and `mgb-clang++`: clang with MGB's pass and runtime.

mod across;
pub mod cmake;
mod device_link;
pub mod gcc;
pub mod language;
pub mod lto;
mod openmp;
mod parse;
mod preprocess;
pub mod response;
mod rules;
mod spawn;
mod table;
pub mod tools;
mod translate;

#[cfg(test)]
mod golden;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use across::DeviceCode;
use anyhow::Context;
use language::Language;
use lto::Lto;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::prefix::Prefix;
use parse::{ArgumentKind, CommandLine};
use rules::MakeRules;
use spawn::Surroundings;
use table::Meaning;
use tempfile::TempDir;
use translate::{Parts, translate};

use crate::cuda::Cuda;
use crate::{legacy, parts};

pub use spawn::{exit_as, output};

/// Runs clang as `arguments` ask, as C++ compiler if `cxx`. Exits as clang does.
pub fn run(arguments: Vec<OsString>, cxx: bool) -> CommandResult {
    let clang = tools::find_clang().code(exit::NODE)?;
    let mut words = response::expand(arguments);
    legacy::take(&mut words);
    parts::take(&mut words);
    if std::env::var_os(gcc::VARIABLE).is_some() {
        words = gcc::for_clang(words);
    }
    let mut line = CommandLine::parse(words.iter().cloned());
    // clang calling itself, or only asked something: none of our business.
    if words
        .first()
        .is_some_and(|word| word == "-cc1" || word == "-cc1as")
    {
        return Err(spawn::become_clang(&clang, &words)).code(exit::NODE);
    }
    if across::compiles(&line) {
        parts::leave_out();
    }
    if across::is_in_one_step(&line) {
        return in_steps(&line, cxx);
    }
    let device = DeviceCode::of(&line, &clang).code(exit::USAGE)?;
    let parts = gather(&line, &clang, cxx).code(exit::NODE)?;
    // The folder of what is linked beside: until clang has ended.
    let _beside = beside(&device, &mut line, &parts, &clang).code(exit::NODE)?;
    let rules = MakeRules::of(&mut line, &system_folders(&parts)).code(exit::NODE)?;
    let mut surroundings = Surroundings::default();
    let is_preprocessed = preprocess::is_wanted(&line);
    if is_preprocessed {
        surroundings.stdout = preprocess::print_both(&mut line).code(exit::USAGE)?;
    }
    surroundings
        .variables
        .extend(rules.iter().flat_map(MakeRules::environment));
    let arguments = translate(&line, &parts).code(exit::USAGE)?;
    if let Some(missing) = openmp::missing(&line, &clang) {
        mgb_command::tell!("mgb clang: {missing}");
    }
    if let Some(told) = cmake::link_line(&line, &parts) {
        mgb_command::tell!("{told}");
    }
    if line.runs_linker() && line.lto() == Lto::Thin {
        mgb_command::tell!("{}", lto::THIN);
    }
    let status = if line.generates_code() || device.is_some() {
        let cuda = parts.cuda.as_ref().filter(|_| device.is_some());
        let tools = cuda.map(|cuda| cuda.root.join("bin"));
        let pass = spawn::PassSettings {
            host_kernels: tools::wants_host_kernels(),
            leaves_to_link: line.lto() == Lto::Full,
            headers: parts
                .cuda
                .as_ref()
                .filter(|cuda| !cuda.is_thirteen())
                .map(|cuda| cuda.version),
            tools,
        };
        spawn::with_side_folder(&clang, &arguments, pass, surroundings)
    } else if is_preprocessed || rules.is_some() {
        spawn::run(&clang, &arguments, surroundings)
    } else {
        Err(spawn::become_clang(&clang, &arguments))
    };
    let status = status.code(exit::NODE)?;
    if let Some(rules) = rules.filter(|_| status.success()) {
        rules.complete().code(exit::NODE)?;
    }
    Ok(exit_as(status))
}

/// Where headers count as the system's, beside clang's own folders.
fn system_folders(parts: &Parts) -> Vec<PathBuf> {
    let cuda = parts.cuda.iter().map(|cuda| cuda.root.join("include"));
    cuda.chain([parts.prefix.include(), parts.prefix.empty_headers()])
        .collect()
}

/// Links the device code of what is to be linked, alone: nvcc's `-dlink`. False: there is none.
///
/// # Errors
/// When a tool fails or is missing.
pub fn link_device(arguments: Vec<OsString>, output: &Path) -> anyhow::Result<bool> {
    let clang = tools::find_clang()?;
    let prefix = Prefix::find()?;
    let tools = device_link::Tools {
        clang: &clang,
        plugin: &prefix.plugin()?,
        folder: Cuda::find(&prefix)?.root.join("bin"),
    };
    device_link::link(&CommandLine::parse(arguments), output, &tools)
}

/// Compiles and links device code across files by a command each: what is compiled must be there to be
/// linked.
fn in_steps(line: &CommandLine, cxx: bool) -> CommandResult {
    let (_folder, compiles, link) = across::steps(line).code(exit::NODE)?;
    for compile in compiles {
        let code = run(compile, cxx)?;
        if code != exit::OK {
            return Ok(code);
        }
    }
    run(link, cxx)
}

/// Has a link take device code that is linked across files, and adds what the program has beside it; the
/// folder of that.
fn beside(
    device: &DeviceCode,
    line: &mut CommandLine,
    parts: &Parts,
    clang: &Path,
) -> anyhow::Result<Option<TempDir>> {
    if device.is_to_link(line) {
        line.add("--offload-link", ArgumentKind::Other);
        openmp::for_the_host(line, clang);
    }
    if !device.is_some() {
        return Ok(None);
    }
    let (folder, object) = device.beside(clang, &parts.prefix.plugin()?)?;
    line.add(object, ArgumentKind::Input(Language::Linked));
    Ok(Some(folder))
}

/// Finds what this command line needs, and no more: a C file compiles without CUDA.
fn gather(line: &CommandLine, clang: &Path, cxx: bool) -> anyhow::Result<Parts> {
    let prefix = Prefix::find()?;
    let is_cuda = line.has_input(Language::Cuda);
    let named = line.joined(Meaning::CudaPath).map(OsStr::to_owned);
    let cuda = match &named {
        Some(root) if is_cuda => Some(Cuda::named(Path::new(root), &prefix).context("--cuda-path")?),
        // Without CUDA sources only the runtime is wanted, to link with. Makefiles have a CUDA_PATH of their
        // own, such as the folder of their kernels, and hand it on where it was set outside.
        Some(root) => Cuda::named(Path::new(root), &prefix)
            .ok()
            .or_else(|| Cuda::installed(&prefix)),
        None => match Cuda::find(&prefix) {
            Err(error) if is_cuda => return Err(error),
            found => found.ok().or_else(|| Cuda::installed(&prefix)),
        },
    };
    let runs_pass = line.generates_code() || line.links_with_lld();
    let plugin = runs_pass.then(|| prefix.plugin()).transpose()?;
    if line.links() && cuda.is_some() && !line.has(Meaning::Static) {
        prefix.runtime().context("failed to link with MGB's runtime")?;
    }
    let needs_arch = is_cuda && !line.has(Meaning::GpuArch);
    Ok(Parts {
        plugin,
        cuda,
        arch: if needs_arch {
            tools::default_arch()
        } else {
            String::new()
        },
        cxx,
        legacy: legacy::is_wanted(),
        old_driver: is_cuda && tools::lacks_beside("clang-linker-wrapper", clang),
        lacks_lld: line.links_with_lld() && tools::lacks_beside("ld.lld", clang),
        prefix,
    })
}
