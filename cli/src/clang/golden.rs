//! Whole translations, compared with recorded ones.

use std::ffi::OsString;
use std::path::Path;

use mgb_command::prefix::Prefix;

use super::parse::CommandLine;
use super::response;
use super::translate::{Parts, translate};
use crate::cuda::Cuda;

fn parts(line: &CommandLine, cxx: bool) -> Parts {
    Parts {
        prefix: Prefix::at("/mgb"),
        plugin: (line.generates_code() || line.links_with_lld()).then(|| "/mgb/lib/libmgb_pass.so".into()),
        cuda: Some(Cuda {
            root: "/cuda".into(),
            lib: "/cuda/lib64".into(),
            version: (13, 0),
        }),
        arch: "sm_90".to_owned(),
        cxx,
        legacy: false,
        old_driver: false,
        lacks_lld: false,
    }
}

fn words(text: &str, cxx: bool) -> anyhow::Result<Vec<OsString>> {
    let line = CommandLine::parse(response::expand(
        shlex::split(text).unwrap().into_iter().map(OsString::from),
    ));
    translate(&line, &parts(&line, cxx))
}

fn golden(text: &str, cxx: bool) -> String {
    let words = words(text, cxx).unwrap();
    let shown = words
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join("\n");
    let program = if cxx { "mgb-clang++" } else { "mgb-clang" };
    format!("{program} {text}\n--\n{shown}")
}

macro_rules! golden {
    ($($name:ident: $cxx:literal, $text:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(golden($text, $cxx));
        })*
    };
}

golden! {
    compile_and_link: true, "-O2 app.cu -o app";
    compile_only: true, "-c app.cu -o app.o";
    link_only: true, "a.o b.o -lm -o app";
    c_mode_links_the_cxx_library: false, "app.cu -o app";
    host_sources_get_the_pass: true, "-c main.cpp util.c";
    syntax_only_needs_no_pass: true, "-fsyntax-only app.cu";
    dependencies_only: true, "-M app.cu";
    the_users_choices_win: true, "--cuda-path=/other --offload-arch=sm_80 -c app.cu";
    static_runtime_becomes_shared: true,
        "app.o -L/cuda/lib64 -Wl,--start-group,-lcudart_static,-ldl -Xlinker -lcudart_static -l cudart_static \
         -l:libcudart_static.a /cuda/lib64/libcudart_static.a -lrt -o app";
    shared_library: true, "-shared -fPIC lib.cu -o lib.so";
    relocatable: true, "-r a.o b.o -o c.o";
    another_linker: true, "-fuse-ld=lld main.o -o app";
    whole_program: true, "-flto -O2 main.o kernels.o -o app";
    whole_program_compiles: true, "-flto -O2 -c app.cu";
    whole_program_in_one_step: true, "-flto=full -O2 app.cu util.cpp -o app";
    whole_program_shared: true, "-flto -fuse-ld=lld -shared a.o -o lib.so";
    whole_program_relocatable: true, "-flto -r a.o b.o -o c.o";
    thin_is_as_without: true, "-flto=thin a.o -o app";
    only_asked: true, "--version";
    asked_for_commands: true, "-### -c app.cu";
    assembler_only: true, "-c start.S";
    language_by_option: true, "-x cuda -c kernel.cpp -o kernel.o";
    static_host_program: true, "-static main.o -o app";
    preprocess: false, "-E main.c";
}

#[test]
fn static_cuda_is_refused() {
    let error = words("-static app.cu", true).unwrap_err().to_string();
    assert!(error.starts_with("failed to link statically"), "{error}");
}

#[test]
fn response_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arguments");
    std::fs::write(&file, "-c 'my app.cu' -lcudart_static").unwrap();
    let words = words(&format!("@{}", file.display()), true).unwrap();
    assert!(
        words.contains(&"my app.cu".into()) && !words.contains(&"-lcudart_static".into()),
        "{words:?}"
    );
}

#[test]
fn a_toolkit_without_the_link_name_is_linked_by_file_name() {
    assert!(!Path::new("/cuda/lib64/libcudart.so").exists());
    assert!(words("a.o", true).unwrap().contains(&"-l:libcudart.so.13".into()));
}
