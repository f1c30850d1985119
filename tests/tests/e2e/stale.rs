//! What a build must notice: edits that only device code or only host code sees, in the source and in headers
//! that one of them includes. ccache in its three modes, what sccache asks of the wrappers, and make's rules.

use std::process::Command;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::run;

/// What is edited: a word of host code and a number of device code, in the source and in a header each.
#[derive(Clone, Copy)]
struct Edition {
    host: &'static str,
    device: u32,
    host_header: &'static str,
    device_header: u32,
}

const FIRST: Edition = Edition {
    host: "one",
    device: 1,
    host_header: "two",
    device_header: 2,
};

impl Edition {
    /// Each differs from the one before it in one place.
    fn all() -> [Edition; 5] {
        let device = Edition { device: 10, ..FIRST };
        let device_header = Edition {
            device_header: 20,
            ..device
        };
        let host = Edition {
            host: "ten",
            ..device_header
        };
        let host_header = Edition {
            host_header: "twenty",
            ..host
        };
        [FIRST, device, device_header, host, host_header]
    }

    fn write(self, node: &PrivateNode) {
        let Edition { host, device, .. } = self;
        let source = format!(
            "#include <cstdio>\n\
             #ifdef __CUDA_ARCH__\n\
             #include \"for_device.h\"\n\
             enum {{ number = {device} + IN_HEADER }};\n\
             #else\n\
             #include \"for_host.h\"\n\
             static const char *const word = \"{host} \" IN_HEADER;\n\
             #endif\n\
             __global__ void tell(int *out) {{\n\
             #ifdef __CUDA_ARCH__\n\
               *out = number;\n\
             #endif\n\
             }}\n\
             int main() {{\n\
               int *out, told = 0;\n\
               cudaMalloc(&out, sizeof *out);\n\
               tell<<<1, 1>>>(out);\n\
               cudaMemcpy(&told, out, sizeof told, cudaMemcpyDeviceToHost);\n\
               cudaFree(out);\n\
             #ifndef __CUDA_ARCH__\n\
               std::printf(\"%s %d\\n\", word, told);\n\
             #endif\n\
             }}\n"
        );
        let files = [
            ("tell.cu", source),
            (
                "for_device.h",
                format!("#define IN_HEADER {}\n", self.device_header),
            ),
            (
                "for_host.h",
                format!("#define IN_HEADER \"{}\"\n", self.host_header),
            ),
        ];
        for (name, text) in files {
            let file = node.write(name, &text);
            // ccache does not trust what is as new as its own start.
            run(&mut node.command("touch", &["-d", "1 hour ago", file.to_str().expect("UTF-8")])).success();
        }
    }

    fn said(self) -> String {
        format!(
            "{} {} {}\n",
            self.host,
            self.host_header,
            self.device + self.device_header
        )
    }
}

fn wrapper(node: &PrivateNode, name: &str, words: &str) -> Command {
    let mut command = node.command(bin(name), &[]);
    command.current_dir(node.folder()).args(words.split_whitespace());
    command
}

fn read(node: &PrivateNode, name: &str) -> String {
    std::fs::read_to_string(node.folder().join(name)).expect("the compiler has written it")
}

/// The wrappers, each with its option for one GPU.
const WRAPPERS: [(&str, &str); 2] = [
    ("mgb-clang++", "--offload-arch=sm_90"),
    ("mgb-nvcc", "-arch=sm_90"),
];

fn check_with_ccache(mode: Option<&str>) {
    let node = PrivateNode::start("1x64MiB", "mgb");
    for (name, arch) in WRAPPERS {
        for edition in Edition::all() {
            edition.write(&node);
            let mut compile = node.command("ccache", &[]);
            compile.current_dir(node.folder()).arg(bin(name));
            compile.args([arch, "-MD", "-MF", "tell.d", "-c", "tell.cu", "-o", "tell.o"]);
            compile.env("CCACHE_DIR", node.folder().join(name));
            if let Some(mode) = mode {
                compile.env(mode, "1");
            }
            run(&mut compile).success();
            run(&mut wrapper(&node, "mgb-clang++", "tell.o -o tell")).success();
            let said = run(&mut node.command(node.folder().join("tell"), &[])).success();
            assert_eq!(said, edition.said(), "{name} {mode:?}");
        }
    }
}

#[test]
fn ccache_sees_every_edit_in_direct_mode() {
    check_with_ccache(None);
}

#[test]
fn ccache_sees_every_edit_in_preprocessed_text() {
    check_with_ccache(Some("CCACHE_NODIRECT"));
}

#[test]
fn ccache_sees_every_edit_in_rules_for_make() {
    check_with_ccache(Some("CCACHE_DEPEND"));
}

/// sccache asks for text without lines or blanks, or with includes alone expanded; ccache for text in a file.
#[test]
fn preprocessed_text_is_that_of_both_compilations() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    for (name, arch) in WRAPPERS {
        for options in [
            "",
            "-P -fminimize-whitespace",
            "-P -fminimize-whitespace -frewrite-includes",
        ] {
            let text = |edition: Edition| {
                edition.write(&node);
                run(&mut wrapper(
                    &node,
                    name,
                    &format!("{arch} -x cuda -E {options} tell.cu"),
                ))
                .success()
            };
            let texts = Edition::all().map(text);
            for (number, two) in texts.windows(2).enumerate() {
                assert!(
                    two[0] != two[1],
                    "{name} {options}: edit {number} is not in the text"
                );
            }
        }
        FIRST.write(&node);
        let printed = run(&mut wrapper(&node, name, &format!("{arch} -E tell.cu"))).success();
        run(&mut wrapper(&node, name, &format!("{arch} -E tell.cu -o tell.i"))).success();
        let file = read(&node, "tell.i");
        assert!(printed == file, "{name}: a file gets what is printed");
    }
    // One side, and macros, are what they were.
    FIRST.write(&node);
    let host = "--offload-arch=sm_90 --cuda-host-only -E tell.cu";
    let host = run(&mut wrapper(&node, "mgb-clang++", host)).success();
    assert!(host.contains("one") && !host.contains("enum { number"), "{host}");
    let macros = run(&mut wrapper(&node, "mgb-clang++", "-E -dM -x cuda tell.cu")).success();
    assert!(!macros.contains("define __CUDA_ARCH__ "), "{macros}");
}

#[test]
fn nvcc_kept_prints_the_text_of_host_code_too() {
    let nvcc = prefix().join("cuda/bin/nvcc");
    assert!(nvcc.is_file(), "{} is missing: run `make setup`", nvcc.display());
    let node = PrivateNode::without_mgbd("1x64MiB");
    FIRST.write(&node);
    let printed = run(&mut wrapper(
        &node,
        "mgb-nvcc",
        "--keep-nvcc -arch=sm_90 -E tell.cu",
    ))
    .success();
    assert!(printed.contains("\"one \""), "host code");
    assert!(printed.contains("number = 1 + 2"), "device code");
    run(&mut wrapper(
        &node,
        "mgb-nvcc",
        "--keep-nvcc -arch=sm_90 -E tell.cu -o tell.ii",
    ))
    .success();
    let file = read(&node, "tell.ii");
    assert!(file == printed, "a file gets what is printed");
}

/// The files that a rule names behind its target.
fn prerequisites(text: &str) -> Vec<String> {
    let rule = text.replace("\\\n", " ");
    let first = rule.lines().next().unwrap_or_default();
    let (_, files) = first.split_once(": ").expect("a rule");
    files.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn rules_for_make_name_headers_of_device_code() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    FIRST.write(&node);
    for (name, arch) in WRAPPERS {
        let check = |text: &str, how: &str| {
            let files = prerequisites(text);
            for header in ["tell.cu", "for_device.h", "for_host.h"] {
                let count = files.iter().filter(|file| *file == header).count();
                assert_eq!(count, 1, "{name} {how}: {header} in {files:?}");
            }
            assert!(text.starts_with("tell.o:"), "{name} {how}: {text}");
        };
        for option in ["-MD", "-MMD"] {
            let words = format!("{arch} {option} -MF rule -c tell.cu -o tell.o");
            run(&mut wrapper(&node, name, &words)).success();
            check(&read(&node, "rule"), option);
        }
        for option in ["-M", "-MM"] {
            let printed = run(&mut wrapper(&node, name, &format!("{arch} {option} tell.cu"))).success();
            check(&printed, option);
            run(&mut wrapper(
                &node,
                name,
                &format!("{arch} {option} tell.cu -o rule"),
            ))
            .success();
            assert_eq!(
                read(&node, "rule"),
                printed,
                "{name} {option}: a file gets what is printed"
            );
        }
    }
    let phony = "--offload-arch=sm_90 -MMD -MP -c tell.cu -o phony.o";
    run(&mut wrapper(&node, "mgb-clang++", phony)).success();
    let text = read(&node, "phony.d");
    assert!(text.contains("\nfor_device.h:\n"), "{text}");
}
