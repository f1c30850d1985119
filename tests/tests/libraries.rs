//! Thrust and CUB (`tests/libraries`) on software GPUs: the same checked results natively and under MGB,
//! alone and with others. CUDA's compiled libraries hold machine code, so they have their trial on real GPUs
//! only.

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;

#[test]
fn thrust_and_cub_answer_under_mgb_as_natively() {
    let Some(folder) = built::libraries() else {
        eprintln!("left out: this CUDA has no headers of Thrust and CUB");
        return;
    };
    let node = PrivateNode::start("2x64MiB", "mgb");
    let start = |name: &str, mode: &str| {
        let mut command = node.command(folder.join(name), &[]);
        RunningProgram::start(command.env("MGB", mode).env("SOFTGPU_TIME", "off"))
    };
    let expected = ["thrust", "cub"].map(|name| (name, start(name, "off").end().success()));
    for (name, output) in &expected {
        assert!(output.ends_with("PASS\n"), "{name}: {output}");
        assert_eq!(&start(name, "require").end().success(), output, "{name}");
    }
    let together = expected
        .iter()
        .cycle()
        .take(4)
        .map(|(name, output)| (name, output, start(name, "require")));
    for (name, output, running) in together.collect::<Vec<_>>() {
        assert_eq!(&running.end().success(), output, "{name} among others");
    }
    node.wait_until_empty();
}
