//! Whole translations, compared with recorded ones.

use std::ffi::OsString;

use super::parse::NvccCommandLine;
use super::translate::{CompilePlan, Toolkit, translate};

fn plan(text: &str) -> anyhow::Result<CompilePlan> {
    let words = shlex::split(text).unwrap().into_iter().map(OsString::from);
    let toolkit = Toolkit {
        stubs: Some("/cuda/lib64/stubs".into()),
        version: (13, 0),
    };
    translate(&NvccCommandLine::parse(words)?, &toolkit)
}

fn golden(text: &str) -> String {
    let plan = plan(text).unwrap();
    format!(
        "mgb-nvcc {text}\n--\n{}\n--\n{}",
        plan.words.join("\n"),
        plan.notes.join("\n")
    )
}

macro_rules! golden {
    ($($name:ident: $text:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(golden($text));
        })*
    };
}

golden! {
    compile_and_link: "-O2 app.cu -o app";
    compile_only: "-c app.cu -o app.o";
    link_only: "a.o b.o libc.a -lm -lcudadevrt -o app";
    architectures: "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90] -c app.cu";
    mixed_sources: "main.cu util.c more.cpp last.o -lcuda -o app";
    language_by_option: "-x cu -c kernel.cpp -o kernel.o";
    host_compiler: r#"-Xcompiler -fPIC,-Wall -Xcompiler "-fopenmp -O1" -Xcompiler=-march=native -ccbin g++-12 -c a.cu"#;
    linker: "-Xlinker -rpath,/x --linker-options=-z,now a.o -o app";
    arithmetic: "-use_fast_math -prec-div=true -fmad false --maxrregcount 32 -Xptxas -v,-dlcm=ca -c a.cu";
    debugging: "-g -G -O0 -c a.cu";
    lines: "-lineinfo -O3 -std=c++17 -c a.cu";
    left_out: "--expt-relaxed-constexpr --extended-lambda -m64 -t 4 --keep --keep-dir tmp -diag-suppress 177,128 -c a.cu";
    separate_compilation: "-dc -rdc=true a.cu -o a.o";
    whole_program: "-flto -dlto -O2 a.cu b.o -o a";
    device_link: "-dlink a.o b.o -o all.o";
    ptx: "-ptx -arch=compute_90 dir/kernel.cu";
    cubin: "-cubin -arch=sm_90 kernel.cu -o k.cubin";
    into_a_folder: "-c kernel.cu -odir out";
    dependencies: "-MM -MT a.o -Iinclude -isystem=/sys,/more -DX=1,Y a.cu";
    dependencies_beside: "-MD -MP -MF a.d -c a.cu -o a.o";
    per_thread_streams: "-default-stream per-thread -c a.cu";
    warnings: "-w -Wreorder -Werror all-warnings,cross-execution-space-call -c a.cu";
    shared_library: "-shared -Xcompiler=-fPIC --cudart=shared lib.cu -o lib.so";
    forwarded: "-forward-unknown-to-host-compiler -Wextra -fopenmp -c a.cu";
    probe_of_cmake: "-v --keep --keep-dir tmp CMakeCUDACompilerId.cu";
}

#[test]
fn what_is_refused_is_named_with_the_way_out() {
    let refused = |text: &str, words: &[&str]| {
        let error = format!("{:#}", plan(text).unwrap_err());
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    };
    refused("-run a.cu", &["-run ", "mgb run"]);
    refused("--ltoir a.cu", &["--ltoir ", "NVIDIA's own nvcc"]);
    refused("-rdc=maybe a.cu", &["-rdc=maybe", "true or false"]);
    refused("-cudart both a.cu", &["-cudart both", "shared"]);
    refused("-x fortran a.f", &["-x fortran", "cu, c++ or c"]);
    refused("-Werror strange a.cu", &["-Werror strange", "all-warnings"]);
    refused("-ptx a.cu b.cu", &["2 inputs for -ptx", "one"]);
    refused(
        "-ptx -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 a.cu",
        &["one architecture"],
    );
    refused("-maxrregcount=many a.cu", &["-maxrregcount=many", "number"]);
    refused("kernel.ptx", &["kernel.ptx", "build the source"]);
}
