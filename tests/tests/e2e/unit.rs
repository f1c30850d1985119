//! The unit of mgbd: what it leaves of root's rights is little, and enough.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::run;
use rustix::process::Signal;

use crate::users::{SharedNode, USERS, is_right};

/// In tenths, what `systemd-analyze security` may count against it.
const MAX_EXPOSURE: u32 = 20;

fn unit() -> PathBuf {
    repository().join("systemd/mgbd.service")
}

#[test]
fn systemd_counts_little_against_the_unit() {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("left out: no systemd-analyze here");
        return;
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager"]);
    let said = run(analyze.arg(format!("--threshold={MAX_EXPOSURE}")).arg(unit()));
    if said.stderr.contains("unrecognized option") {
        eprintln!("left out: systemd-analyze is older than 250");
        return;
    }
    said.success();
}

/// The capabilities that the unit leaves, as setpriv takes them.
fn capabilities() -> String {
    let unit = fs::read_to_string(unit()).expect("it is there");
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = lines.flat_map(str::split_whitespace);
    let names = names.map(|name| {
        name.strip_prefix("CAP_")
            .expect("a list of what it has")
            .to_lowercase()
    });
    names.fold("-all".to_owned(), |all, name| format!("{all},+{name}"))
}

#[test]
fn with_the_rights_of_its_unit_it_serves_several_users() {
    let Some(mut shared) = SharedNode::without_mgbd("1x64MiB") else {
        return;
    };
    // As the unit has it, as far as a test may: processes of others are not seen but by its capabilities.
    let inside = "mount -t proc -o hidepid=invisible proc /proc && exec setpriv \"$@\"";
    let mut command = shared
        .node
        .command("unshare", &["--mount", "--net", "sh", "-c", inside, "sh"]);
    command
        .arg(format!("--bounding-set={}", capabilities()))
        .args(["--inh-caps=-all", "--no-new-privs"])
        .arg(bin("mgbd"))
        .args(["--serve", "all"]);
    shared.node.start_mgbd_as(&mut command);
    let programs = USERS.map(|uid| shared.phases(uid, "20", "40"));
    for round in 0..2 {
        for (uid, program) in USERS.iter().zip(&programs) {
            let pid = program.pid().to_string();
            run(&mut shared.command(*uid, "mgb", &["suspend", &pid])).success();
            run(&mut shared.command(*uid, "mgb", &["resume", &pid])).success();
            run(&mut shared.command(*uid, "mgb", &["status"])).success();
        }
        // Orders for all need no more than mgbd has.
        run(&mut shared.node.mgb(&["drain", "0", "--no-wait"])).success();
        run(&mut shared.node.mgb(&["drain", "0", "--end"])).success();
        if round == 0 {
            shared.node.replace_mgbd(Signal::KILL);
        }
    }
    programs.into_iter().for_each(is_right);
    shared.node.wait_until_empty();
}
