//! What an administrator wants of programs that mgbd does not serve: `/etc/mgb/client.toml`, here in a mount
//! namespace of the test's own, which only root makes.

use std::fs;
use std::path::Path;
use std::process::Command;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;

/// Runs the rest where `/etc` is the folder `$1`.
const IN_ETC: &str = r#"set -e; etc=$1; shift; mount --bind "$etc" /etc; exec "$@""#;

/// A copy of `/etc` with that file.
fn etc(node: &PrivateNode, text: &str) -> std::path::PathBuf {
    let etc = node.folder().join("etc");
    let mut copy = Command::new("cp");
    assert!(copy.args(["-a", "/etc"]).arg(&etc).status().unwrap().success());
    fs::create_dir_all(etc.join("mgb")).unwrap();
    fs::write(etc.join("mgb/client.toml"), text).unwrap();
    etc
}

fn under(node: &PrivateNode, etc: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut words = vec!["--mount", "sh", "-c", IN_ETC, "sh", etc.to_str().unwrap()];
    words.push(program.to_str().expect("paths of tests are UTF-8"));
    words.extend(arguments);
    node.command("unshare", &words)
}

#[test]
fn a_program_without_mgbd_ends_where_the_administrator_wants_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can say what is in /etc");
        return;
    }
    let node = PrivateNode::without_mgbd("1x64MiB");
    let vecadd = built::program("vecadd");
    let etc = etc(&node, "without-mgbd = \"native\"\n");
    let file = etc.join("mgb/client.toml");
    let vecadd = |etc: &Path| run(&mut under(&node, etc, &vecadd, &["1000"]));
    let native = vecadd(&etc);
    assert!(native.stderr.contains("running natively"), "{native:?}");
    native.success();
    fs::write(&file, "without-mgbd = \"refuse\"\n").unwrap();
    let words = [
        "/etc/mgb/client.toml has programs run under mgbd alone",
        "no mgbd at",
    ];
    vecadd(&etc).failure(&words);
    // Nor a program that cannot be told what is wanted.
    fs::write(&file, "without-mgbd = refuse\n").unwrap();
    vecadd(&etc).failure(&["whether the program may run without is not known"]);
    // Under Slurm without an mgbd they are told to ask for it.
    fs::write(&file, "without-mgbd = \"refuse\"\n").unwrap();
    let mgb = mgb_tests::prefix::bin("mgb");
    let mut prolog = under(&node, &etc, &mgb, &["cluster", "prolog", "--within", "100"]);
    let said = run(prolog.env("SLURM_JOB_ID", "7").env("SLURM_STEP_ID", "0")).success();
    assert!(said.contains("\nexport MGB=require\n"), "{said}");
    assert!(said.contains("export MGB_JOB=534c000000070000"), "{said}");
}
