//! Bad input gets a clear error and a non-zero exit, and loses nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use mgb_tests::built::{self, examples};
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::run;

#[test]
fn a_job_file_that_does_not_exist() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    run(&mut node.mgb(&["batch", "nowhere.txt"])).failure(&["nowhere.txt"]);
}

#[test]
fn a_job_file_that_names_an_unknown_program() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let vecadd = built::program("vecadd");
    let jobs = node.write(
        "jobs.txt",
        &format!("{} 1000\n./no_such_program 5\n", vecadd.display()),
    );
    let message = run(node.mgb(&["batch"]).arg(jobs)).failure(&["no_such_program", "jobs.txt"]);
    assert!(message.contains('2'), "the line is named: {message}");
}

#[test]
fn an_argument_of_an_example_that_is_no_number() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let folder = built::at("-O1");
    for example in examples() {
        for argument in ["12x", "-1", "99999999999999999999999"] {
            let ended = run(node
                .command(folder.join(&example.name), &[argument])
                .env("MGB", "off"));
            assert_eq!(ended.status.code(), Some(2), "{}: {ended:?}", example.name);
            ended.failure(&[argument]);
        }
    }
}

#[test]
fn an_unknown_policy() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    run(&mut node.mgbd(&["--policy", "fairest"])).failure(&["fairest", "alg3"]);
    let jobs = node.write("jobs.txt", "true\n");
    run(node.mgb(&["batch", "--policy", "cg:none"]).arg(jobs)).failure(&["cg:none"]);
}

#[test]
fn a_task_that_can_never_fit() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    // The largest GPU has 64 MiB, less a context of 256 KiB.
    let ended = run(&mut node.command(built::program("phases"), &["100"]));
    assert!(ended.stderr.contains("out of memory"), "{}", ended.stderr);
    ended.failure(&["100.0 MiB", "the largest GPU has 63.8 MiB"]);
    node.wait_until_empty();
}

#[test]
fn a_context_as_large_as_configured_leaves_less() {
    let node = PrivateNode::start("1x64MiB:ctx=5MiB", "mgb");
    let ended = run(&mut node.command(built::program("phases"), &["100"]));
    ended.failure(&["100.0 MiB", "the largest GPU has 59.0 MiB"]);
}

#[test]
fn a_whole_process_that_can_never_fit() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    run(&mut node.mgb(&["run", "--need", "1GiB", "true"])).failure(&["1.0 GiB", "MiB"]);
    node.wait_until_empty();
}

#[test]
fn a_stale_socket_is_replaced() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    node.kill_mgbd();
    assert!(node.socket().exists());
    node.start_mgbd("mgb");
    let ended = run(node
        .command(built::program("vecadd"), &["1000"])
        .env("MGB", "require"));
    ended.success();
}

#[test]
fn a_second_mgbd_gives_way() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    run(&mut node.mgbd(&["--policy", "mgb"])).failure(&["mgbd.sock", &node.mgbd_pid().to_string()]);
    run(node
        .command(built::program("vecadd"), &["1000"])
        .env("MGB", "require"))
    .success();
}

#[test]
fn no_gpu_at_all() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    if std::path::Path::new("/dev/nvidia0").exists() {
        eprintln!("skipped: this machine has GPUs");
        return;
    }
    run(node.mgbd(&["--policy", "mgb"]).env_remove("LD_LIBRARY_PATH")).failure(&["GPU"]);
    assert!(
        !node.socket().exists(),
        "an mgbd that cannot start leaves nothing behind"
    );
}

#[test]
fn no_permission_on_the_socket() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut command = node.mgb(&["status"]);
    // For the copy of a program that somebody else can start wherever this repository lies, root's own folder
    // included.
    let public = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o755))
        .tempdir()
        .unwrap();
    if rustix::process::geteuid().is_root() {
        // Root may open everything: try as somebody else.
        let copy = public.path().join("mgb");
        std::fs::copy(bin("mgb"), &copy).unwrap();
        command = node.command(copy, &["status"]);
        command
            .uid(65534)
            .gid(65534)
            .current_dir("/")
            .env("MGB_PREFIX", prefix());
    } else {
        let nobody = Permissions::from_mode(0o000);
        std::fs::set_permissions(node.socket(), nobody).expect("the socket is ours");
    }
    run(&mut command).failure(&["mgbd.sock", "ermission denied"]);
}

#[test]
fn a_program_that_does_not_exist() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let ended = run(&mut node.mgb(&["run", "./no_such_program"]));
    assert_eq!(ended.code(), 127, "as a shell says it");
    ended.failure(&["no_such_program"]);
}
