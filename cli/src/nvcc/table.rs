//! nvcc's options, sorted by their long names: how each is given, and what becomes of it.
//!
//! From the option descriptions in NVIDIA's "CUDA Compiler Driver NVCC" and from what nvcc 13 accepts.

/// An option of nvcc.
#[derive(Debug)]
pub struct NvccOption {
    /// After two dashes.
    pub long: &'static str,
    /// After one dash; the same as `long` where nvcc has no shorter one.
    pub short: &'static str,
    /// How its value is given.
    pub value: ValueStyle,
    /// What becomes of it.
    pub fate: Fate,
}

impl NvccOption {
    /// A value as it is to be written, so that it is read as this one value.
    pub fn written(&self, value: &str) -> String {
        let special: &[char] = match self.value {
            _ if self.splits_as_words() => &['\\', ',', ' ', '\t', '"', '\''],
            ValueStyle::List => &[','],
            ValueStyle::No | ValueStyle::One => &[],
        };
        let mut written = String::new();
        for character in value.chars() {
            if special.contains(&character) {
                written.push('\\');
            }
            written.push(character);
        }
        written
    }

    /// Whether its value is words for another tool.
    pub fn splits_as_words(&self) -> bool {
        use Meaning::{HostCompiler, Linker, Ptxas};
        [HostCompiler, Linker, Ptxas]
            .map(Fate::Means)
            .contains(&self.fate)
    }
}

/// How the value of an option is given: after `=` or as the next word; joined too where the short name is one
/// letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueStyle {
    /// It has none.
    No,
    /// The option takes one value.
    One,
    /// Several, separated by commas; the option may be repeated.
    List,
}

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The translation looks at it.
    Means(Meaning),
    /// clang knows it by this name; each value is the next word.
    Pass(&'static str),
    /// clang knows it by this name, with each value joined.
    Join(&'static str),
    /// Left out; why that changes nothing that matters is said with `-v`.
    Drop(&'static str),
    /// An error: the reason and the way out.
    Refuse(&'static str),
}

/// What an option means to the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The architecture of GPUs.
    Arch,
    /// What code is kept for it.
    Code,
    /// Both in one.
    Gencode,
    /// Words for the host compiler.
    HostCompiler,
    /// Words for the linker.
    Linker,
    /// Words for ptxas.
    Ptxas,
    /// Say what kernels take.
    ResourceUsage,
    /// Most registers of a thread.
    MaxRegisters,
    /// Whether device code is linked across files.
    Relocatable,
    /// Which step is the last.
    Stop(Stop),
    /// Device code to be debugged.
    DeviceDebug,
    /// Lines of the source in device code.
    LineInfo,
    /// Host code to be debugged.
    Debug,
    /// How far the host compiler optimises.
    Optimize,
    /// Arithmetic may be approximate.
    FastMath,
    /// Denormals become zero.
    FlushToZero,
    /// Division is exact or approximate.
    ExactDivision,
    /// Exact square roots.
    ExactRoots,
    /// Multiplications and additions are fused.
    Fused,
    /// Language of all inputs.
    Language,
    /// The name of the output.
    Output,
    /// The folder for outputs.
    OutputFolder,
    /// Which CUDA runtime.
    Runtime,
    /// Which stream is the default one.
    DefaultStream,
    /// Which warnings are errors.
    Errors,
    /// Options that nvcc does not know go to the host compiler.
    Forward,
    /// A file with more options.
    OptionsFile,
    /// Say what is done.
    Verbose,
    /// Say what would be done.
    DryRun,
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Libraries to link with.
    Library,
}

/// The last step, or one that is a step of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The result is objects.
    Compile,
    /// Objects whose device code may refer to that of others.
    DeviceCompile,
    /// One object that holds the device code of several.
    DeviceLink,
    /// A program or shared library: the default.
    Link,
    /// The result is an archive.
    Archive,
    /// The result is PTX.
    Ptx,
    /// Device code for one GPU.
    Cubin,
    /// Device code for several.
    Fatbin,
    /// The result is preprocessed source.
    Preprocess,
    /// Make's rules alone.
    Dependencies,
    /// Only a check.
    DeviceCheck,
}

use Fate::{Drop, Join, Means, Pass, Refuse};
use Meaning as M;
use ValueStyle::{List, No, One};

const CLANG_DOES: &str = "clang does so anyway";
const NO_FRONT_END: &str = "clang is the front end, and counts its diagnostics otherwise";
const NO_FILES: &str = "clang keeps no files between its steps";
const ONE_RUN: &str = "clang compiles in one process";
const NO_DEVICE_LINK: &str = "device code is not linked across files";
const ONLY_NVCC: &str =
    "it asks for something that only NVIDIA's compiler makes; build that step with NVIDIA's own nvcc";
const ONLY_NVIDIA_TOOL: &str = "it is of use to NVIDIA's own tools only";
const TUNES: &str = "it tunes NVIDIA's compiler, and changes no result";
const MSVC: &str = "it is for Windows";

const fn option(long: &'static str, short: &'static str, value: ValueStyle, fate: Fate) -> NvccOption {
    NvccOption {
        long,
        short,
        value,
        fate,
    }
}

/// All of them.
#[rustfmt::skip]
pub const TABLE: &[NvccOption] = &[
    option("Ofast-compile", "Ofc", One, Drop(TUNES)),
    option("Wdefault-stream-launch", "Wdefault-stream-launch", No, Drop(NO_FRONT_END)),
    option("Werror", "Werror", List, Means(M::Errors)),
    option("Wext-lambda-captures-this", "Wext-lambda-captures-this", No, Drop(NO_FRONT_END)),
    option("Wmissing-launch-bounds", "Wmissing-launch-bounds", No, Drop(NO_FRONT_END)),
    option("Wno-deprecated-declarations", "Wno-deprecated-declarations", No, Pass("-Wno-deprecated-declarations")),
    option("Wno-deprecated-gpu-targets", "Wno-deprecated-gpu-targets", No, Drop("clang does not warn of them")),
    option("Wreorder", "Wreorder", No, Pass("-Wreorder")),
    option("allow-unsupported-compiler", "allow-unsupported-compiler", No, Drop("clang is the host compiler")),
    option("archive-options", "Xarchive", List, Drop("archives are made by ar with its own defaults")),
    option("archiver-binary", "arbin", One, Drop("archives are made by ar")),
    option("augment-host-linker-script", "aug-hls", No, Drop(ONLY_NVIDIA_TOOL)),
    option("brief-diagnostics", "brief-diag", One, Drop(NO_FRONT_END)),
    option("clean-targets", "clean", No, Refuse("nothing is removed; remove the outputs yourself")),
    option("compile", "c", No, Means(M::Stop(Stop::Compile))),
    option("compile-as-tools-patch", "astoolspatch", No, Refuse(ONLY_NVCC)),
    option("compiler-bindir", "ccbin", One, Drop("clang is the host compiler")),
    option("compiler-options", "Xcompiler", List, Means(M::HostCompiler)),
    option("compress-mode", "compress-mode", One, Drop(TUNES)),
    option("cubin", "cubin", No, Means(M::Stop(Stop::Cubin))),
    option("cuda", "cuda", No, Refuse("clang writes no intermediate C++; leave it out, or use -E")),
    option("cudadevrt", "cudadevrt", One, Drop(NO_DEVICE_LINK)),
    option("cudafe-options", "Xcudafe", List, Drop(NO_FRONT_END)),
    option("cudart", "cudart", One, Means(M::Runtime)),
    option("debug", "g", No, Means(M::Debug)),
    option("default-stream", "default-stream", One, Means(M::DefaultStream)),
    option("define-macro", "D", List, Pass("-D")),
    option("dependency-drive-prefix", "ddp", One, Drop(MSVC)),
    option("dependency-output", "MF", One, Pass("-MF")),
    option("dependency-target-name", "MT", One, Pass("-MT")),
    option("device-c", "dc", No, Means(M::Stop(Stop::DeviceCompile))),
    option("device-debug", "G", No, Means(M::DeviceDebug)),
    option("device-entity-has-hidden-visibility", "device-entity-has-hidden-visibility", One, Drop(TUNES)),
    option("device-link", "dlink", No, Means(M::Stop(Stop::DeviceLink))),
    option("device-stack-protector", "device-stack-protector", One, Drop(TUNES)),
    option("device-w", "dw", No, Means(M::Stop(Stop::Compile))),
    option("diag-error", "diag-error", List, Drop(NO_FRONT_END)),
    option("diag-suppress", "diag-suppress", List, Drop(NO_FRONT_END)),
    option("diag-warn", "diag-warn", List, Drop(NO_FRONT_END)),
    option("disable-warnings", "w", No, Pass("-w")),
    option("display-error-number", "err-no", No, Drop(NO_FRONT_END)),
    option("dlink-time-opt", "dlto", No, Drop(NO_DEVICE_LINK)),
    option("dont-use-profile", "noprof", No, Drop("nvcc.profile is not read")),
    option("dopt", "dopt", One, Drop(TUNES)),
    option("drive-prefix", "dp", One, Drop(MSVC)),
    option("dryrun", "dryrun", No, Means(M::DryRun)),
    option("entries", "e", List, Drop("all kernels are kept")),
    option("expt-extended-lambda", "expt-extended-lambda", No, Drop(CLANG_DOES)),
    option("expt-relaxed-constexpr", "expt-relaxed-constexpr", No, Drop(CLANG_DOES)),
    option("extended-lambda", "extended-lambda", No, Drop(CLANG_DOES)),
    option("extensible-whole-program", "ewp", No, Drop(NO_DEVICE_LINK)),
    option("extra-device-vectorization", "extra-device-vectorization", No, Drop(TUNES)),
    option("fatbin", "fatbin", No, Means(M::Stop(Stop::Fatbin))),
    option("fatbin-options", "Xfatbin", List, Drop("it tunes how device code is packed, and changes no result")),
    option("fdevice-syntax-only", "fdevice-syntax-only", No, Means(M::Stop(Stop::DeviceCheck))),
    option("fdevice-time-trace", "fdevice-time-trace", One, Drop("times are not taken; clang's own is -Xcompiler -ftime-trace")),
    option("fmad", "fmad", One, Means(M::Fused)),
    option("force-cl-env-setup", "force-cl-env-setup", No, Drop(MSVC)),
    option("forward-unknown-opts", "forward-unknown-opts", No, Means(M::Forward)),
    option("forward-unknown-to-host-compiler", "forward-unknown-to-host-compiler", No, Means(M::Forward)),
    option("forward-unknown-to-host-linker", "forward-unknown-to-host-linker", No, Means(M::Forward)),
    option("frandom-seed", "frandom-seed", One, Join("-frandom-seed=")),
    option("ftemplate-backtrace-limit", "ftemplate-backtrace-limit", One, Join("-ftemplate-backtrace-limit=")),
    option("ftemplate-depth", "ftemplate-depth", One, Join("-ftemplate-depth=")),
    option("ftz", "ftz", One, Means(M::FlushToZero)),
    option("gen-opt-lto", "gen-opt-lto", No, Drop(NO_DEVICE_LINK)),
    option("generate-code", "gencode", One, Means(M::Gencode)),
    option("generate-dependencies", "M", No, Means(M::Stop(Stop::Dependencies))),
    option("generate-dependencies-with-compile", "MD", No, Pass("-MD")),
    option("generate-dependency-targets", "MP", No, Pass("-MP")),
    option("generate-line-info", "lineinfo", No, Means(M::LineInfo)),
    option("generate-nonsystem-dependencies", "MM", No, Means(M::Stop(Stop::Dependencies))),
    option("generate-nonsystem-dependencies-with-compile", "MMD", No, Pass("-MMD")),
    option("gpu-architecture", "arch", One, Means(M::Arch)),
    option("gpu-code", "code", List, Means(M::Code)),
    option("help", "h", No, Means(M::Help)),
    option("host-linker-script", "hls", One, Refuse(ONLY_NVCC)),
    option("include-path", "I", List, Pass("-I")),
    option("input-drive-prefix", "idp", One, Drop(MSVC)),
    option("jobserver", "jobserver", No, Drop(ONE_RUN)),
    option("jump-table-density", "jtd", One, Drop(TUNES)),
    option("keep", "keep", No, Drop(NO_FILES)),
    option("keep-device-functions", "keep-device-functions", No, Drop(TUNES)),
    option("keep-dir", "keep-dir", One, Drop(NO_FILES)),
    option("lib", "lib", No, Means(M::Stop(Stop::Archive))),
    option("libdevice-directory", "ldir", One, Drop("libdevice is taken from the CUDA toolkit")),
    option("library", "l", List, Means(M::Library)),
    option("library-path", "L", List, Join("-L")),
    option("link", "link", No, Means(M::Stop(Stop::Link))),
    option("linker-options", "Xlinker", List, Means(M::Linker)),
    option("list-gpu-arch", "arch-ls", No, Refuse("ask NVIDIA's own nvcc")),
    option("list-gpu-code", "code-ls", No, Refuse("ask NVIDIA's own nvcc")),
    option("lto", "lto", No, Drop(NO_DEVICE_LINK)),
    option("ltoir", "ltoir", No, Refuse(ONLY_NVCC)),
    option("m64", "m64", No, Drop(CLANG_DOES)),
    option("machine", "m", One, Drop(CLANG_DOES)),
    option("maxrregcount", "maxrregcount", One, Means(M::MaxRegisters)),
    option("no-align-double", "no-align-double", No, Refuse("it changes how structs lie in memory; leave it out")),
    option("no-compress", "no-compress", No, Drop(TUNES)),
    option("no-device-link", "nodlink", No, Drop(NO_DEVICE_LINK)),
    option("no-display-error-number", "no-err-no", No, Drop(NO_FRONT_END)),
    option("no-exceptions", "noeh", No, Pass("-fno-exceptions")),
    option("no-host-device-initializer-list", "nohdinitlist", No, Drop(CLANG_DOES)),
    option("no-host-device-move-forward", "nohdmoveforward", No, Drop(CLANG_DOES)),
    option("nvlink-options", "Xnvlink", List, Drop(NO_DEVICE_LINK)),
    option("objdir-as-tempdir", "objtemp", No, Drop(NO_FILES)),
    option("optimization-info", "opt-info", List, Drop(NO_FRONT_END)),
    option("optimize", "O", One, Means(M::Optimize)),
    option("options-file", "optf", List, Means(M::OptionsFile)),
    option("optix-ir", "optix-ir", No, Refuse(ONLY_NVCC)),
    option("output-directory", "odir", One, Means(M::OutputFolder)),
    option("output-file", "o", One, Means(M::Output)),
    option("pre-include", "include", List, Pass("-include")),
    option("prec-div", "prec-div", One, Means(M::ExactDivision)),
    option("prec-sqrt", "prec-sqrt", One, Means(M::ExactRoots)),
    option("preprocess", "E", No, Means(M::Stop(Stop::Preprocess))),
    option("profile", "pg", No, Pass("-pg")),
    option("ptx", "ptx", No, Means(M::Stop(Stop::Ptx))),
    option("ptxas-options", "Xptxas", List, Means(M::Ptxas)),
    option("qpp-config", "qpp-config", One, Drop("the host compiler is clang, not Q++")),
    option("relocatable-device-code", "rdc", One, Means(M::Relocatable)),
    option("relocatable-link", "r", No, Pass("-r")),
    option("relocatable-ptx", "reloc-ptx", No, Drop(NO_DEVICE_LINK)),
    option("resource-usage", "res-usage", No, Means(M::ResourceUsage)),
    option("restrict", "restrict", No, Drop("it is a promise that clang does not use")),
    option("run", "run", No, Refuse("build the program, then start it with `mgb run`")),
    option("run-args", "run-args", List, Refuse("build the program, then start it with `mgb run`")),
    option("sanitize", "sanitize", One, Refuse("use compute-sanitizer on the program as it is")),
    option("save-temps", "save-temps", No, Drop(NO_FILES)),
    option("shared", "shared", No, Pass("-shared")),
    option("source-in-ptx", "src-in-ptx", No, Drop("clang writes no source into PTX")),
    option("split-compile", "split-compile", One, Drop(ONE_RUN)),
    option("split-compile-extended", "split-compile-extended", One, Drop(ONE_RUN)),
    option("static-global-template-stub", "static-global-template-stub", One, Drop(CLANG_DOES)),
    option("std", "std", One, Join("-std=")),
    option("system-include", "isystem", List, Pass("-isystem")),
    option("target-directory", "target-dir", One, Refuse("programs are built for this machine; set CUDA_PATH to choose the toolkit")),
    option("threads", "t", One, Drop(ONE_RUN)),
    option("time", "time", One, Drop("times are not taken")),
    option("undefine-macro", "U", List, Pass("-U")),
    option("use-local-env", "use-local-env", No, Drop(MSVC)),
    option("use_fast_math", "use_fast_math", No, Means(M::FastMath)),
    option("verbose", "v", No, Means(M::Verbose)),
    option("version", "V", No, Means(M::Version)),
    option("x", "x", One, Means(M::Language)),
];

/// clang's own options that are taken although nvcc has none like them: people expect them of a compiler.
pub const CLANGS: &[&str] = &["-###", "-MG", "-flto", "-fno-lto", "-fsyntax-only", "-pthread"];

/// Those by which sccache, which sees clang, asks for preprocessed text.
pub const SCCACHES: &[&str] = &["-P", "-fminimize-whitespace", "-frewrite-includes"];

/// By its long name, without the dashes.
pub fn long(name: &str) -> Option<&'static NvccOption> {
    let at = TABLE.binary_search_by(|entry| entry.long.cmp(name)).ok()?;
    Some(&TABLE[at])
}

/// By its short name, without the dash.
pub fn short(name: &str) -> Option<&'static NvccOption> {
    TABLE.iter().find(|entry| entry.short == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn sorted_and_without_doubles() {
        assert!(TABLE.is_sorted_by(|a, b| a.long < b.long));
        let shorts: HashSet<_> = TABLE.iter().map(|entry| entry.short).collect();
        assert_eq!(shorts.len(), TABLE.len());
        assert!(CLANGS.iter().all(|option| short(&option[1..]).is_none()));
    }

    #[test]
    fn both_names_lead_to_one_entry() {
        assert_eq!(long("gpu-architecture").unwrap().short, "arch");
        assert_eq!(short("ccbin").unwrap().long, "compiler-bindir");
        assert!(long("ccbin").is_none() && short("bogus").is_none());
    }

    #[test]
    fn reasons_read_on_after_a_colon() {
        for entry in TABLE {
            if let Drop(why) | Refuse(why) = entry.fate {
                assert!(!why.ends_with('.') && !why.is_empty(), "{}", entry.long);
            }
        }
    }
}
