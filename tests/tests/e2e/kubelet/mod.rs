//! `mgb container kubelet` beside a kubelet that is none, and a real mgbd.

mod fake;

use std::path::PathBuf;

use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;
use tonic::Code;

use fake::{FakeKubelet, Nothing};

fn folder(node: &PrivateNode) -> PathBuf {
    node.folder().join("device-plugins")
}

fn starts(node: &PrivateNode, more: &[&str]) -> RunningProgram {
    let folder = folder(node);
    let folder = folder.to_str().expect("it is text");
    let arguments = [&["container", "kubelet", "--folder", folder], more].concat();
    RunningProgram::start(&mut node.mgb(&arguments))
}

/// The whole GiB of each GPU, as `mgb status` has them.
fn gib(node: &PrivateNode) -> Vec<u64> {
    let gpus = node.view().gpus;
    gpus.iter().map(|seen| seen.gpu.usable_bytes >> 30).collect()
}

/// How many devices of each of two GPUs are healthy, and how many are not.
fn counts(devices: &[(String, String)]) -> [[u64; 2]; 2] {
    let mut counts = [[0; 2]; 2];
    for (id, health) in devices {
        let (gpu, _) = id.split_once('-').expect("a GPU and a number");
        let gpu: usize = gpu.parse().expect("a number");
        counts[gpu][usize::from(health != "Healthy")] += 1;
    }
    counts
}

#[test]
fn pods_get_memory_of_the_node_whoever_comes_and_goes() {
    let mut node = PrivateNode::start("2x3GiB", "mgb");
    let plugin = starts(
        &node,
        &[
            "--cdi-device",
            "a.example/b=c",
            "--cdi-device",
            "mgb.dev/node=default",
        ],
    );
    let kubelet = FakeKubelet::start(&folder(&node), false);
    let registered = kubelet.registered();
    assert_eq!(registered.version, "v1beta1");
    assert_eq!(registered.resource, "mgb.dev/gpu-memory-gib");
    let asked = kubelet.plugin(&registered.endpoint);
    let each = gib(&node);
    assert!(each.iter().all(|gib| *gib > 0), "{each:?}");
    // The first list may be from before the first look at the node.
    let first = std::iter::from_fn(|| asked.list()).find(|list| !list.is_empty());
    assert_eq!(counts(&first.expect("a list")), [[each[0], 0], [each[1], 0]]);

    let given = asked.allocate(&[&["0-0", "1-1"], &["1-0"]]).expect("it is given");
    assert_eq!(given, vec![vec!["a.example/b=c", "mgb.dev/node=default"]; 2]);
    for unknown in ["0-99", "7-0", "", "0-", "-1", "0-18446744073709551616", "../0"] {
        let refused = asked
            .allocate(&[&["0-0"], &[unknown]])
            .expect_err("there is none");
        assert_eq!(refused.code(), Code::NotFound, "{refused:?}");
    }
    let options: Result<Nothing, _> = asked.ask("/v1beta1.DevicePlugin/GetDevicePluginOptions", Nothing {});
    options.expect("it answers");
    let other: Result<Nothing, _> = asked.ask("/v1beta1.DevicePlugin/Nonsense", Nothing {});
    assert_eq!(other.expect_err("there is none").code(), Code::Unimplemented);

    run(&mut node.mgb(&["drain", "0"])).success();
    assert_eq!(
        counts(&asked.list().expect("another list")),
        [[0, each[0]], [each[1], 0]]
    );
    node.stop_mgbd();
    assert_eq!(
        counts(&asked.list().expect("another list")),
        [[0, each[0]], [0, each[1]]]
    );
    node.start_mgbd("mgb");
    let again = counts(&asked.list().expect("another list"));
    assert_eq!(again[1], [each[1], 0], "{again:?}");

    drop(asked);
    drop(kubelet);
    let next = FakeKubelet::start(&folder(&node), false);
    let registered = next.registered();
    let asked = next.plugin(&registered.endpoint);
    assert_eq!(counts(&asked.list().expect("a list"))[1], [each[1], 0]);

    plugin.signal(Signal::TERM);
    let ended = plugin.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("pods get mgb.dev/gpu-memory-gib of this node"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("no GPU memory is to be had"), "{ended:?}");
    assert_eq!(asked.list(), None);
    assert!(!folder(&node).join(registered.endpoint).exists());
}

#[test]
fn a_kubelet_that_refuses_is_asked_again_and_a_second_plugin_stays_out() {
    let node = PrivateNode::start("1x3GiB", "mgb");
    let refuses = FakeKubelet::start(&folder(&node), true);
    let first = starts(&node, &["--overcommit", "2"]);
    refuses.registered();
    refuses.registered();
    drop(refuses);
    let takes = FakeKubelet::start(&folder(&node), false);
    let asked = takes.plugin(&takes.registered().endpoint);
    let list = std::iter::from_fn(|| asked.list()).find(|list| !list.is_empty());
    let usable = node.view().gpus[0].gpu.usable_bytes;
    assert_eq!(list.expect("a list").len() as u64, (2 * usable) >> 30);

    let second = starts(&node, &[]);
    // It tries for as long as it runs.
    std::thread::sleep(std::time::Duration::from_secs(2));
    second.signal(Signal::INT);
    let ended = second.end();
    assert!(
        ended.stderr.contains("another process answers there"),
        "{ended:?}"
    );
    assert!(wait::try_until(|| asked.allocate(&[&["0-0"]]).ok()).is_some());
    first.signal(Signal::KILL);
    first.try_end_within(std::time::Duration::from_secs(10)).ok();
    // What a plugin that was killed has left is no obstacle.
    let third = starts(&node, &[]);
    takes.registered();
    third.signal(Signal::TERM);
    let ended = third.end();
    assert!(!ended.stderr.contains("another process"), "{ended:?}");
}

#[test]
fn mistakes_in_the_options_are_told() {
    let node = PrivateNode::without_mgbd("1x1GiB");
    for (option, value, says) in [
        ("--overcommit", "0.5", "from 1 to 16"),
        ("--overcommit", "NaN", "from 1 to 16"),
        ("--cdi-device", "mgb.dev", "VENDOR/CLASS=NAME"),
        ("--cdi-device", "/x=", "VENDOR/CLASS=NAME"),
    ] {
        let ended = run(&mut node.mgb(&["container", "kubelet", option, value]));
        assert!(ended.code() == 2 && ended.stderr.contains(says), "{ended:?}");
    }
}
