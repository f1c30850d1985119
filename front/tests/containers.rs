//! The driver front in a container: a root of its own with no more of the node in it than the docs ask for
//! (`docs/CONTAINERS.md`). Its user and mount namespaces are real, and made by `unshare`.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::softgpu_libraries;
use mgb_tests::process::{Ended, RunningProgram, run};

use common::{folder, front, program};

/// Makes the root at `$1`, with the folders named before `--` in it, and runs the rest there.
const IN_ROOT: &str = r#"
set -e
root=$1
shift
mount -t tmpfs none "$root"
for folder in bin lib lib64 usr proc; do
    if [ -L "/$folder" ]; then
        ln -s "$(readlink "/$folder")" "$root/$folder"
    elif [ -d "/$folder" ]; then
        mkdir "$root/$folder"
        mount --rbind "/$folder" "$root/$folder"
    fi
done
mkdir -p "$root/tmp" "$root/dev"
while [ "$1" != -- ]; do
    mkdir -p "$root$1"
    mount --rbind "$1" "$root$1"
    shift
done
shift
exec chroot "$root" "$@"
"#;

/// A user and mount namespace.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--propagation", "private"]);
    command
}

/// Whether the system lets this user make them; where not, that is said.
fn can_unshare() -> bool {
    let can = unshare()
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|done| done.status.success());
    if !can {
        eprintln!("left out: this system lets nobody make namespaces (unshare --user --mount)");
    }
    can
}

/// The program in a container that sees these folders of the node.
fn contained(
    node: &PrivateNode,
    root: &Path,
    folders: &[&Path],
    program: &Path,
    arguments: &[&str],
) -> Command {
    let path = std::env::join_paths([front(), softgpu_libraries()]).unwrap();
    // For the variables, of which all go into the container.
    let native = node.command(program, arguments);
    let mut command = unshare();
    command.args(["sh", "-c", IN_ROOT, "container"]).arg(root);
    command.args(folders).arg("--").arg(program).args(arguments);
    for (name, value) in native.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .env("LD_LIBRARY_PATH", path)
        .env("MGB", "require")
        .stdin(Stdio::null());
    command
}

#[test]
fn programs_in_containers_share_a_gpu() {
    if !can_unshare() {
        return;
    }
    let folder = folder("containers");
    let holds = program("holds.c", &folder);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let (driver, front) = (softgpu_libraries(), front());
    // What is the container's own, the software GPU, and what the docs ask for: the front, mgbd's socket and
    // /dev/shm.
    let folders = [&folder, &driver, &front, node.folder(), Path::new("/dev/shm")];
    let start = |name: &str| {
        let root = folder.join(name);
        std::fs::create_dir_all(&root).unwrap();
        RunningProgram::start(&mut contained(
            &node,
            &root,
            &folders,
            &holds,
            &["alloc", "1", "40", "600"],
        ))
    };
    let both = [start("one"), start("other")];
    for ended in both.map(RunningProgram::end) {
        assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    }
    let view = common::view(&node);
    assert_eq!(view.counts.granted, 2, "{view:?}");
    node.wait_until_empty();
}

#[test]
fn a_container_without_the_socket_says_what_is_missing() {
    if !can_unshare() {
        return;
    }
    let folder = folder("containers-none");
    let holds = program("holds.c", &folder);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let (driver, front, root) = (softgpu_libraries(), front(), folder.join("root"));
    std::fs::create_dir_all(&root).unwrap();
    let folders = [folder.as_path(), &driver, &front];
    let ended: Ended = run(&mut contained(
        &node,
        &root,
        &folders,
        &holds,
        &["alloc", "1", "4", "0"],
    ));
    assert_ne!(ended.code(), 0, "{ended:?}");
    assert!(
        ended.stderr.contains("mgb") && ended.stderr.contains("mgbd.sock"),
        "{ended:?}"
    );
}
