//! Quotas of users, who are several only where the tests run as root.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use mgb_probe::limited::Limited;
use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{built, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::users::{SharedNode, USERS, is_right};

/// Writes quotas where any number of nodes at once may each have their own.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("quotas.toml");
    fs::write(&file, text).expect("it can be written");
    (folder, file)
}

fn reload(node: &PrivateNode) {
    let pid = Pid::from_raw(node.mgbd_pid() as i32).expect("it runs");
    kill_process(pid, Signal::HUP).expect("it can be told");
}

fn owners(said: &str) -> Vec<(u64, u64, u64)> {
    let quotas: Value = serde_json::from_str(said).expect("JSON");
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let owners = quotas["owners"].as_array().expect("a list").iter();
    owners
        .map(|owner| {
            (
                number(&owner["id"]),
                number(&owner["tasks"]),
                number(&owner["most_tasks"]),
            )
        })
        .collect()
}

fn phases(shared: &SharedNode, uid: u32, rounds: &str) -> RunningProgram {
    let arguments = ["8", rounds, "50", "wait", "10", "8"];
    RunningProgram::start(shared.command(uid, "phases", &arguments).env("MGB", "require"))
}

#[test]
fn a_user_has_no_more_than_the_file_says_and_others_go_on() {
    let [first, second] = USERS;
    let (_folder, quotas) = file(&format!("[users.{first}]\ntasks = 1\n"));
    let options = ["--serve", "all", "--quotas", quotas.to_str().unwrap()];
    let Some(mut shared) = SharedNode::start("1x512MiB", &options) else {
        return;
    };
    let own: Vec<RunningProgram> = (0..4).map(|_| phases(&shared, first, "6")).collect();
    let other = phases(&shared, second, "60");
    wait::until("somebody waits for the quota", || {
        let view = shared.node.view();
        let over = view.queue.iter().filter(|wait| wait.over_quota);
        (over.filter(|wait| wait.uid == first).count() == 3).then_some(())
    });
    wait::until("the other one has its task", || {
        holds(&shared.node.view(), other.pid()).then_some(())
    });
    let running = |shared: &SharedNode| {
        let view = shared.node.view();
        let own = view.tasks.iter().filter(|task| task.uid == first);
        own.filter(|task| task.warps > 0).count()
    };
    for round in 0..40 {
        assert!(running(&shared) <= 1);
        // The next mgbd knows it as well.
        if round == 10 {
            shared.node.replace_mgbd(Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = run(&mut shared.command(first, "mgb", &["quota", "--json"])).success();
    let seen = owners(&said);
    assert!(
        seen.len() == 1 && seen[0].0 == u64::from(first) && seen[0].2 == 1,
        "{said}"
    );
    assert!(
        said.contains("\"held_back\": 3") || said.contains("\"held_back\": 2"),
        "{said}"
    );
    let all = run(&mut shared.command(0, "mgb", &["quota", "--json"])).success();
    assert_eq!(owners(&all).len(), 2, "{all}");

    fs::write(&quotas, "[users]\nnonsense\n").unwrap();
    // More often than a pipe holds that nobody reads.
    for _ in 0..1000 {
        reload(&shared.node);
        std::thread::sleep(Duration::from_micros(100));
    }
    wait::until("the mistake is shown", || {
        shared.node.view().quotas.mistake.map(drop)
    });
    assert!(running(&shared) <= 1, "what the file said before holds");
    fs::write(&quotas, format!("[users.{first}]\ntasks = 9\n")).unwrap();
    reload(&shared.node);
    wait::until("nobody waits for the quota", || {
        let view = shared.node.view();
        let waits = view.queue.iter().any(|wait| wait.over_quota);
        (view.quotas.mistake.is_none() && !waits).then_some(())
    });
    own.into_iter().chain([other]).for_each(is_right);
    shared.node.wait_until_empty();
}

#[test]
fn who_would_be_one_too_many_that_wait_is_told_so_also_by_the_next_mgbd() {
    let first = USERS[0];
    let most = |waiting: u32| format!("[users.{first}]\ntasks = 1\nwaiting = {waiting}\n");
    let (_folder, quotas) = file(&most(1));
    let options = ["--serve", "all", "--quotas", quotas.to_str().unwrap()];
    let Some(mut shared) = SharedNode::start("1x512MiB", &options) else {
        return;
    };
    let has_it = phases(&shared, first, "100000");
    wait::until("it has its task", || {
        holds(&shared.node.view(), has_it.pid()).then_some(())
    });
    let waiting = |shared: &SharedNode, count: usize| {
        wait::until("so many wait", || {
            let queue = shared.node.view().queue;
            let for_tasks = queue.iter().filter(|wait| wait.limited == Some(Limited::Tasks));
            (for_tasks.count() == count && queue.len() == count).then_some(())
        });
    };
    let mut waits = vec![phases(&shared, first, "1")];
    waiting(&shared, 1);
    let told =
        "needs room for 2 waiting tasks; its user may have room for 1 waiting task at once (`mgb quota`)";
    let refused = || {
        let ended = phases(&shared, first, "1").end();
        assert!(ended.code() != 0 && ended.stderr.contains(told), "{ended:?}");
    };
    refused();
    refused();
    shared.node.replace_mgbd(Signal::KILL);
    waiting(&shared, 1);
    let ended = phases(&shared, first, "1").end();
    assert!(ended.code() != 0 && ended.stderr.contains(told), "{ended:?}");
    let status = run(&mut shared.command(first, "mgb", &["status"])).success();
    assert!(status.contains("new, over quota: tasks"), "{status}");
    let quota = run(&mut shared.command(first, "mgb", &["quota"])).success();
    assert!(quota.contains("1 of 1"), "{quota}");
    fs::write(&quotas, most(2)).unwrap();
    reload(&shared.node);
    wait::until("it is read", || {
        let owners = shared.node.view().quotas.owners;
        owners
            .iter()
            .any(|owner| owner.most_waiting == Some(2))
            .then_some(())
    });
    waits.push(phases(&shared, first, "1"));
    waiting(&shared, 2);
    has_it.signal(Signal::KILL);
    has_it.end();
    waits.into_iter().for_each(is_right);
    shared.node.wait_until_empty();
}

#[test]
fn what_is_beyond_the_quota_by_itself_is_told_so() {
    let own = rustix::process::geteuid().as_raw();
    let (_folder, quotas) = file(&format!("[users.{own}]\nbytes = \"40MiB\"\ngpus = 1\n"));
    let mut node = PrivateNode::without_mgbd("2x128MiB");
    node.start_mgbd_with("mgb", &["--quotas", quotas.to_str().unwrap()]);
    let phases = |mib| {
        let program = built::program("phases");
        run(node
            .command(program, &[mib, "2", "10", "wait", "10", "8"])
            .env("MGB", "require"))
    };
    let fits = phases("16");
    assert!(fits.code() == 0 && fits.stdout.contains("PASS"), "{fits:?}");
    let over = phases("64");
    assert_ne!(over.code(), 0);
    assert!(
        over.stderr
            .contains("its user may have 40.0 MiB at once (`mgb quota`)"),
        "{over:?}"
    );
    node.wait_until_empty();
}

#[test]
fn mistakes_in_the_file_are_told_before_anything_starts() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let (_folder, quotas) = file("[default]\ntasks = \"many\"\n");
    let said = run(&mut node.mgbd(&["--quotas", quotas.to_str().unwrap()]));
    said.failure(&["[default]: tasks: `many` is no number"]);
    fs::write(&quotas, "[users.nobody-of-that-name]\ntasks = 1\n").unwrap();
    let said = run(&mut node.mgbd(&["--check", "--quotas", quotas.to_str().unwrap()]));
    said.failure(&["the quotas are for user nobody-of-that-name, unknown here"]);
}

/// A lab with two groups and a common pool: GPU 0 is the first one's, GPU 1 the second one's, 2 and 3 are
/// everybody's.
#[test]
fn gpus_that_are_kept_for_some_are_seen_and_used_by_those_alone() {
    let [first, second] = USERS;
    let kept = format!("[gpus]\n\"0\" = [\"user:{first}\"]\n\"1\" = [\"group:{second}\"]\n");
    // Nobody's group is known of users whom the system does not know: the second one is named as well.
    let kept = format!("{kept}\"1-1\" = [\"user:{second}\"]\n");
    let (_folder, quotas) = file(&kept);
    let options = ["--serve", "all", "--quotas", quotas.to_str().unwrap()];
    let Some(mut shared) = SharedNode::start("4x64MiB", &options) else {
        return;
    };
    let own: Vec<RunningProgram> = (0..4).map(|_| phases(&shared, first, "100000")).collect();
    let others: Vec<RunningProgram> = (0..4).map(|_| phases(&shared, second, "100000")).collect();
    let gpus = |shared: &SharedNode, uid: u32| {
        let view = shared.node.view();
        let own = view.tasks.iter().filter(|task| task.uid == uid);
        own.map(|task| task.gpu).collect::<Vec<u32>>()
    };
    for _ in 0..2 {
        wait::until("all have a GPU", || {
            let all = [first, second].map(|uid| gpus(&shared, uid).len());
            (all == [4, 4]).then_some(())
        });
        assert!(!gpus(&shared, first).contains(&1), "{:?}", gpus(&shared, first));
        assert!(!gpus(&shared, second).contains(&0), "{:?}", gpus(&shared, second));
        shared.node.replace_mgbd(Signal::KILL);
    }
    for running in own.into_iter().chain(others) {
        running.signal(Signal::KILL);
        running.end();
    }
    // A process counts those that its user may use, and is told why it may use none of what it names.
    let mut outside = shared.command(first, "phases", &["8", "1", "50", "wait", "10", "8"]);
    let told = run(outside.env("MGB", "require").env("CUDA_VISIBLE_DEVICES", "1"));
    assert!(
        told.code() != 0
            && told
                .stderr
                .contains("needs GPU 1; its user may have GPU 0, 2, 3 at once (`mgb quota`)"),
        "{told:?}"
    );
    let mut several = shared.node.mgb(&["run", "--gpus", "3", "true"]);
    run(&mut several).failure(&["at most 2 are visible here"]);
    let status = run(&mut shared.command(second, "mgb", &["status"])).success();
    assert!(status.contains(&format!("GPU 0: kept for {first}")), "{status}");
    // All is kept for others now: who waits, and who comes, is told so.
    let large = || {
        let arguments = ["40", "100000", "50", "wait", "10", "8"];
        RunningProgram::start(shared.command(first, "phases", &arguments).env("MGB", "require"))
    };
    let at_work: Vec<RunningProgram> = (0..3).map(|_| large()).collect();
    wait::until("each has a GPU", || {
        (gpus(&shared, first).len() == 3).then_some(())
    });
    let waits = large();
    wait::until("one waits", || {
        (shared.node.view().queue.len() == 1).then_some(())
    });
    fs::write(&quotas, "[gpus]\n\"0-3\" = []\n").unwrap();
    reload(&shared.node);
    wait::until("it is read", || {
        let kept = shared.node.view().quotas.kept;
        kept.iter().any(|kept| kept.users.is_empty()).then_some(())
    });
    for refused in [waits, phases(&shared, second, "1")] {
        let told = refused.end();
        let why = "its user may have no GPU at once";
        assert!(told.code() != 0 && told.stderr.contains(why), "{told:?}");
    }
    for running in at_work {
        running.signal(Signal::KILL);
        running.end();
    }
    shared.node.wait_until_empty();
}
