//! The wrapper as a process, around a stand-in for clang that shows what it was given.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// An MGB folder with empty parts, a CUDA toolkit with empty parts, and a stand-in for clang.
struct WrapperStage {
    folder: TempDir,
}

impl WrapperStage {
    /// `clang` is the body of a shell script.
    fn new(clang: &str) -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for file in [
            "lib/libmgb_pass.so",
            "lib/libmgb_rt.so",
            "cuda/include/cuda_runtime.h",
            "cuda/lib64/libcudart.so.13",
            "cuda/lib64/libcudart.so",
        ] {
            stage.write(file, "");
        }
        stage.write(
            "cuda/include/cuda_runtime_api.h",
            "#define CUDART_VERSION  13000\n",
        );
        let script = stage.write("clang-22", &format!("#!/bin/sh\n{clang}\n"));
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["mgb-clang", "mgb-clang++", "mgb-nvcc"] {
            symlink(env!("CARGO_BIN_EXE_mgb"), stage.path(name)).unwrap();
        }
        fs::create_dir(stage.path("tmp")).unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path(program.as_ref().to_str().unwrap()));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("MGB_PREFIX", self.folder.path())
            .env("MGB_CLANG", self.path("clang-22"))
            .env("MGB_CUDA_ARCH", "sm_75")
            .env("TMPDIR", self.path("tmp"))
            .env_remove("CUDA_PATH")
            .env("CUDA_HOME", self.path("cuda"));
        command
    }

    fn leftovers(&self) -> usize {
        fs::read_dir(self.path("tmp")).unwrap().count()
    }
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for a condition, for at most ten seconds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn names_choose_the_language() {
    let stage = WrapperStage::new("echo \"$@\"");
    let plain = text(&output(&mut stage.command("mgb-clang", &["-c", "a.cu"])).stdout);
    let cxx = text(&output(&mut stage.command("mgb-clang++", &["-c", "a.cu"])).stdout);
    assert!(
        !plain.contains("--driver-mode=g++") && cxx.starts_with("--driver-mode=g++ "),
        "{plain}{cxx}"
    );
    assert!(
        cxx.contains("--cuda-gpu-arch=sm_75") && cxx.contains("-fpass-plugin="),
        "{cxx}"
    );
    // As a command of mgb, clang's own --help and --version included.
    symlink(env!("CARGO_BIN_EXE_mgb"), stage.path("mgb")).unwrap();
    assert_eq!(
        text(&output(&mut stage.command("mgb", &["clang", "--help"])).stdout),
        "--help\n"
    );
    assert!(
        text(&output(&mut stage.command("mgb", &["clang++", "--version"])).stdout).ends_with("--version\n")
    );
}

#[test]
fn the_side_folder_lives_as_long_as_clang() {
    let stage = WrapperStage::new(
        "test -d \"$MGB_SIDE_DIR\" && touch \"$MGB_SIDE_DIR/kernels.bc\" && echo \"$MGB_SIDE_DIR\"",
    );
    let ended = output(&mut stage.command("mgb-clang++", &["-c", "a.cu"]));
    assert!(ended.status.success());
    let side = text(&ended.stdout);
    assert!(
        side.trim().starts_with(stage.path("tmp").to_str().unwrap()),
        "{side}"
    );
    assert_eq!(stage.leftovers(), 0);
}

#[test]
fn without_host_kernels_the_pass_has_a_side_folder_and_is_told() {
    let stage =
        WrapperStage::new("test -d \"$MGB_SIDE_DIR\" && echo \"kernels: $MGB_HOST_KERNELS\"; echo \"$@\"");
    let mut command = stage.command("mgb-clang++", &["-c", "a.cu"]);
    let ended = output(
        command
            .env("MGB_HOST_KERNELS", "off")
            .env("MGB_SIDE_DIR", "another"),
    );
    let told = text(&ended.stdout);
    assert!(told.starts_with("kernels: off\n"), "{told}");
    assert!(told.contains("-fpass-plugin="), "{told}");
}

#[test]
fn the_exit_is_clangs() {
    let stage = WrapperStage::new("case \"$*\" in *killed.cu*) kill -9 $$;; *) exit 3;; esac");
    assert_eq!(
        output(&mut stage.command("mgb-clang++", &["-c", "a.cu"]))
            .status
            .code(),
        Some(3)
    );
    assert_eq!(
        output(&mut stage.command("mgb-clang++", &["a.o"])).status.code(),
        Some(3)
    );
    assert_eq!(
        output(&mut stage.command("mgb-clang++", &["-c", "killed.cu"]))
            .status
            .signal(),
        Some(9)
    );
    assert_eq!(stage.leftovers(), 0);
}

#[test]
fn a_signal_ends_clang_and_leaves_nothing() {
    ends_with_clang("mgb-clang++");
}

#[test]
fn a_signal_ends_clang_where_nvcc_may_come_after_it() {
    ends_with_clang("mgb-nvcc");
}

fn ends_with_clang(wrapper: &str) {
    // The last line of the file is there once clang is ready to be interrupted.
    let stage = WrapperStage::new("echo $$ > pid; exec sleep 60");
    let mut wrapper = stage.command(wrapper, &["-c", "a.cu"]).spawn().unwrap();
    let pid = || {
        fs::read_to_string(stage.path("pid"))
            .ok()
            .and_then(|text| text.trim().parse::<u32>().ok())
    };
    eventually("clang runs", || pid().is_some());
    // The shell's own kill: the program is in a package that a bare Debian lacks.
    let signalled = Command::new("sh")
        .args(["-c", &format!("kill -TERM {}", wrapper.id())])
        .status()
        .unwrap();
    assert!(signalled.success());
    let status = wrapper.wait().unwrap();
    assert_eq!(status.signal(), Some(15), "{status}");
    assert!(
        !Path::new(&format!("/proc/{}", pid().unwrap())).exists(),
        "clang is gone too"
    );
    assert_eq!(stage.leftovers(), 0);
}

#[test]
fn long_lines_go_through_a_response_file() {
    let stage = WrapperStage::new("case \"$1\" in @*) tail -n 2 \"${1#@}\";; *) echo no file;; esac");
    let defines: Vec<String> = (0..40_000)
        .map(|number| format!("-DNAME_{number}=\"a \\\\ b\""))
        .collect();
    let file = stage.write("arguments", &(defines.join("\n") + "\n-c a.cu"));
    let ended = output(&mut stage.command("mgb-clang++", &[&format!("@{}", file.display())]));
    assert_eq!(
        text(&ended.stdout),
        "\"-c\"\n\"a.cu\"\n",
        "{}",
        text(&ended.stderr)
    );
}

#[test]
fn what_is_missing_is_named() {
    let stage = WrapperStage::new("true");
    let says = |command: &mut Command, words: &[&str]| {
        let ended = output(command);
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    };
    let compile = |stage: &WrapperStage| stage.command("mgb-clang++", &["-c", "a.cu"]);
    says(
        compile(&stage).env("MGB_CLANG", "/no/clang"),
        &["MGB_CLANG=/no/clang"],
    );
    says(
        compile(&stage).env("CUDA_PATH", "/no/cuda"),
        &["CUDA_PATH is", "unset", "/no/cuda"],
    );
    says(
        &mut stage.command("mgb-clang++", &["--cuda-path=/no/cuda", "-c", "a.cu"]),
        &["--cuda-path", "/no/cuda is not a CUDA"],
    );
    fs::remove_file(stage.path("lib/libmgb_pass.so")).unwrap();
    says(&mut compile(&stage), &["libmgb_pass.so is missing", "make build"]);
}
