//! `mgb nvcc` and `mgb-nvcc`: nvcc's command line, turned to clang with MGB's pass and runtime.

mod answers;
mod arch;
mod archive;
mod arithmetic;
mod by_file;
mod errors;
mod inputs;
mod keep;
mod launches;
mod lists;
mod parse;
mod preprocess;
mod table;
mod translate;
mod verbose;

#[cfg(test)]
mod golden;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, bail};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
use mgb_command::prefix::Prefix;
use parse::NvccCommandLine;
use table::{Meaning, Stop};
use translate::{CompilePlan, Toolkit};

use crate::clang::{self, response};
use crate::cuda::Cuda;
use crate::{legacy, parts};

pub use keep::path;

/// Runs clang as `arguments`, written for nvcc, ask. Exits as clang does.
pub fn run(mut arguments: Vec<OsString>) -> CommandResult {
    legacy::take(&mut arguments);
    parts::take(&mut arguments);
    if keep::is_wanted(&arguments) {
        return if preprocess::is_wanted(&arguments) {
            preprocess::run(arguments)
        } else {
            keep::run(arguments)
        };
    }
    let request = NvccCommandLine::parse(with_flags_of_the_environment(arguments)).code(exit::USAGE)?;
    if request.has(Meaning::Help) {
        out::print(answers::HELP);
        return Ok(exit::OK);
    }
    let prefix = Prefix::find().code(exit::NODE)?;
    let cuda = Cuda::find(&prefix).code(exit::NODE)?;
    let toolkit = toolkit(&cuda);
    if request.has(Meaning::Version) {
        out::print(&answers::version(toolkit.version));
        return Ok(exit::OK);
    }
    if let Some(lines) = by_file::one_by_one(&request).code(exit::USAGE)? {
        for line in lines {
            let code = run_one(&line, &cuda, &toolkit, &prefix)?;
            if code != exit::OK {
                return Ok(code);
            }
        }
        return Ok(exit::OK);
    }
    run_one(&request, &cuda, &toolkit, &prefix)
}

/// Does what one command line asks for.
fn run_one(request: &NvccCommandLine, cuda: &Cuda, toolkit: &Toolkit, prefix: &Prefix) -> CommandResult {
    let plan = translate::translate(request, toolkit).code(exit::USAGE)?;
    let dry = request.has(Meaning::DryRun);
    if dry || request.has(Meaning::Verbose) {
        let arch = clang::tools::default_arch();
        mgb_command::tell!(
            "{}",
            verbose::text(&plan, cuda, prefix, &arch).trim_end_matches('\n')
        );
    }
    if plan.inputs.is_empty() {
        return if request.has(Meaning::Verbose) || dry {
            Ok(exit::OK)
        } else {
            nothing_given()
        };
    }
    if dry {
        return Ok(exit::OK);
    }
    let across_files = translate::across_files(request).code(exit::USAGE)?;
    if by_file::applies(&plan, across_files) {
        return by_file::build(request, &plan, toolkit, prefix);
    }
    let code = build(&plan)?;
    if code != exit::OK && across_files {
        mgb_command::tell!(
            "mgb nvcc: no source goes to nvcc by itself where device code is linked across files (-rdc=true, -dc): if it is \
             clang that does not take one above, --keep-nvcc has nvcc compile all of the program"
        );
    }
    Ok(code)
}

fn build(plan: &CompilePlan) -> CommandResult {
    match plan.stop {
        Stop::Archive => archive::make(plan),
        Stop::DeviceLink => device_link(plan),
        _ => launches::by_clang(plan),
    }
}

/// What `-dlink` makes: the linked device code. Without any it is empty: the build goes on to link it.
fn device_link(plan: &CompilePlan) -> CommandResult {
    let output = plan.output.clone().unwrap_or_else(|| "a_dlink.o".into());
    let words = plan.words.iter().map(OsString::from).collect();
    if clang::link_device(words, &output).code(exit::NODE)? {
        return Ok(exit::OK);
    }
    let mut words: Vec<OsString> = ["-c", "-fPIC", "-x", "c", "/dev/null", "-o"]
        .map(OsString::from)
        .into();
    words.push(output.into_os_string());
    clang::run(words, false)
}

fn nothing_given() -> CommandResult {
    let nothing = || bail!("no files to compile or link; see `mgb nvcc --help`");
    nothing().code(exit::USAGE)
}

/// nvcc takes options from these variables, before and after its own.
fn with_flags_of_the_environment(arguments: Vec<OsString>) -> Vec<OsString> {
    let flags = |name: &str| {
        let text = env::var_os(name).unwrap_or_default();
        response::words(text.as_bytes())
    };
    let mut words = flags("NVCC_PREPEND_FLAGS");
    words.extend(response::expand(arguments));
    words.extend(flags("NVCC_APPEND_FLAGS"));
    words
}

fn toolkit(cuda: &Cuda) -> Toolkit {
    let header = fs::read_to_string(cuda.root.join("include/cuda.h")).context("no cuda.h");
    let version = header.ok().and_then(|header| answers::cuda_version(&header));
    let stubs = cuda.lib.join("stubs");
    Toolkit {
        stubs: stubs.is_dir().then_some(stubs),
        version: version.unwrap_or((13, 0)),
    }
}
