//! `make install` and `make uninstall`: what is laid out works from any folder, and all of it is removed again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, repository};
use mgb_tests::process::{Ended, RunningProgram, command, run};
use mgb_tests::{compiled, wait};

/// A folder that stands for /, with an installation in /opt/some.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Root {
        Root(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make(&self, target: &str) -> Ended {
        let mut make = command("make", &["--no-print-directory", "-C"]);
        make.arg(repository()).args([target, "PREFIX=/opt/some"]);
        make.arg(format!("DESTDIR={}", self.0.path().display()));
        make.arg(format!("STAGED={}", prefix().display()));
        run(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"))
    }

    /// All files and folders, from this folder on.
    fn all(&self) -> Vec<String> {
        below(self.0.path(), self.0.path())
    }
}

fn below(folder: &Path, root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path().strip_prefix(root).unwrap().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&entry.path(), root));
        }
    }
    found
}

fn from(program: PathBuf, node: &PrivateNode, arguments: &[&str]) -> Command {
    let mut command = node.command(program, arguments);
    // As who has installed it, and built nothing.
    command
        .env_remove("MGB_PREFIX")
        .env_remove("LD_LIBRARY_PATH")
        .env("CUDA_PATH", prefix().join("cuda"));
    command
}

#[test]
fn what_is_installed_compiles_and_runs_and_leaves_nothing() {
    let root = Root::new();
    root.make("install").success();
    // It runs from where it is now, wherever that was meant to be.
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = repository().join("examples/vecadd.cu");
    let program = node.folder().join("vecadd");
    let mut compiler = from(root.path("opt/some/bin/mgb-clang++"), &node, &[]);
    run(compiler.arg(source).arg("-o").arg(&program)).success();
    let mgb = || root.path("opt/some/bin/mgb");
    let said = run(from(mgb(), &node, &["run"]).arg(&program).arg("1000")).success();
    assert!(said.contains("PASS"), "{said}");
    run(&mut from(mgb(), &node, &["stop"])).success();

    for (unit, starts) in [
        ("system/mgbd.service", "mgbd --settings"),
        ("user/mgb-queue.service", "mgb queue serve"),
    ] {
        let text = fs::read_to_string(root.path("opt/some/lib/systemd").join(unit)).unwrap();
        assert!(
            text.contains(&format!("\nExecStart=/opt/some/bin/{starts}")),
            "{text}"
        );
    }
    for page in ["man1/mgb-run.1", "man8/mgbd.8"] {
        let page = fs::read_to_string(root.path("opt/some/share/man").join(page)).unwrap();
        assert!(page.contains(".SH NAME"), "{page}");
    }
    let own = root.0.path().to_str().unwrap();
    for script in [
        "bash-completion/completions/mgb",
        "zsh/site-functions/_mgb",
        "fish/vendor_completions.d/mgb.fish",
    ] {
        let text = fs::read_to_string(root.path("opt/some/share").join(script)).unwrap();
        assert!(text.contains("batch") && !text.contains(own), "{script}: {text}");
    }

    root.make("uninstall").success();
    assert_eq!(root.all(), [""; 0]);
    root.make("uninstall")
        .failure(&["nothing to remove", "lib/mgb/share/manifest"]);
}

#[test]
fn other_files_stay_and_those_of_an_earlier_version_do_not() {
    let root = Root::new();
    fs::create_dir_all(root.path("opt/some/bin")).unwrap();
    root.make("install").success();
    let manifest = root.path("opt/some/lib/mgb/share/manifest");
    // What an earlier version had.
    for name in ["bin/mgb-old", "lib/mgb/old/part"] {
        let path = root.path("opt/some").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let more = "folder /opt/some/lib/mgb/old\nfile /opt/some/bin/mgb-old\nfile /opt/some/lib/mgb/old/part\n";
    fs::write(&manifest, fs::read_to_string(&manifest).unwrap() + more).unwrap();
    fs::write(root.path("opt/some/share/man/mine"), "").unwrap();
    root.make("install").success();
    assert!(!root.path("opt/some/bin/mgb-old").exists());
    assert!(!root.path("opt/some/lib/mgb/old").exists());
    let said = root.make("uninstall").success();
    assert!(said.contains("opt/some/share/man stays"), "{said}");
    let mut left = root.all();
    left.sort();
    // The folder for programs was there before.
    assert_eq!(
        left,
        [
            "opt",
            "opt/some",
            "opt/some/bin",
            "opt/some/share",
            "opt/some/share/man",
            "opt/some/share/man/mine"
        ]
    );
}

#[test]
fn an_installation_that_stops_halfway_can_be_removed() {
    let root = Root::new();
    fs::create_dir_all(root.path("opt/some/share/zsh/site-functions/_mgb/mine")).unwrap();
    root.make("install").failure(&["Is a directory", "_mgb"]);
    assert!(root.path("opt/some/bin/mgb").exists());
    root.make("uninstall").success();
    let left = root.all();
    assert!(
        left.iter()
            .all(|path| "opt/some/share/zsh/site-functions/_mgb/mine".starts_with(path)),
        "{left:?}"
    );
}

#[test]
fn a_program_that_runs_goes_on_while_its_file_is_replaced() {
    let root = Root::new();
    root.make("install").success();
    let program = root.path("opt/some/lib/mgb/bin/mgbd");
    let before = fs::File::open(&program).unwrap();
    root.make("install").success();
    let is_old = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().ino() == before.metadata().unwrap().ino()
    };
    assert!(!is_old(&program));
    // Whole, though nobody finds it any more.
    assert!(before.metadata().unwrap().len() > 0);
}

#[test]
fn a_program_that_waits_begins_though_its_files_were_replaced() {
    let root = Root::new();
    root.make("install").success();
    let mut node = PrivateNode::without_mgbd("1x32MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let program = compiled::program(&repository().join("examples/phases.cu"), &[] as &[&str]);
    let job = |rounds: &str| {
        let mut job = from(root.path("opt/some/bin/mgb"), &node, &["run"]);
        job.arg(&program).args(["24", rounds, "40", "compute", "1", "1"]);
        RunningProgram::start(&mut job)
    };
    let first = job("200");
    wait::until("the first job runs", || {
        (node.view().tasks.len() == 1).then_some(())
    });
    let second = job("2");
    wait::until("the second job waits", || {
        (node.view().queue.len() == 1).then_some(())
    });
    root.make("install").success();
    assert_eq!(node.view().queue.len(), 1);
    assert!(first.end().success().contains("PASS"));
    assert!(second.end().success().contains("PASS"));
}

#[test]
fn what_is_not_built_is_not_installed() {
    let root = Root::new();
    let mut install = command(repository().join("tools/install.py"), &["--destdir"]);
    install
        .arg(root.path("root"))
        .arg("install")
        .arg(root.path("nothing"));
    run(install.args(["/usr", "run"])).failure(&["make build", "nothing has been installed"]);
    assert_eq!(root.all(), [""; 0]);
}
