//! Growing at once: four processes on one device hold a part, and then all ask for more, together almost
//! twice what the device has. One after another is swapped out and comes back; all finish, with every word
//! right.
//!
//! The sizes are the sixteenth part of those in the evaluation on a real GPU (`tests/gpu/growth.py`).

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;
use mgb_tests::trace;

/// What each holds and then asks for, in KiB: 3.61, 1.36, 1.88, 3.88 and 3.36, 3.09, 3.51, 2.51 GiB, by
/// sixteen.
const PROGRAMS: [(u64, u64); 4] = [
    (236_586, 220_201),
    (89_129, 202_506),
    (123_208, 230_031),
    (254_280, 164_495),
];

#[test]
fn four_that_grow_at_once_all_finish() {
    let program = built::program("grow");
    // 12 GiB by sixteen after four contexts of 2 MiB.
    let node = PrivateNode::start("1x776MiB:ctx=2MiB", "mgb");
    let barrier = node.folder().join("barrier");
    std::fs::create_dir(&barrier).expect("a temporary folder can be made");
    let file = node.folder().join("trace.jsonl");
    let running: Vec<RunningProgram> = PROGRAMS
        .iter()
        .map(|(hold, more)| {
            let arguments = [format!("{hold}KiB"), format!("{more}KiB"), "--barrier".to_owned()];
            let mut command = node.command(&program, &[]);
            RunningProgram::start(
                command
                    .args(arguments)
                    .arg(&barrier)
                    .arg("4")
                    .env("MGB", "require")
                    .env("MGB_TRACE", &file),
            )
        })
        .collect();
    for (program, (hold, more)) in running.into_iter().zip(PROGRAMS) {
        let output = program.end().success();
        assert_eq!(
            output,
            format!("grow: hold={} more={} PASS\n", hold << 10, more << 10)
        );
    }
    node.wait_until_empty();
    // All four hold before any asks: so at least two of them had to make room for others.
    let counts = node.view().counts;
    assert!(counts.swapped_out > 0 && counts.refused == 0, "{counts:?}");
    // Each time has an entry, but for room that was given up before there was memory in it; what left came
    // back, unless it was freed in the host.
    let processes = trace::read(&file).expect("they have left lines");
    let swaps: Vec<&trace::TracedSwap> = processes
        .iter()
        .flat_map(|process| process.tasks.iter().flat_map(|task| &task.swaps))
        .collect();
    let of_kind = |kind: &'static str| swaps.iter().filter(move |swap| swap.kind == kind);
    let evicted = of_kind("evicted").count() as u64;
    assert!(
        evicted > 0 && evicted <= counts.swapped_out + counts.evicted,
        "{evicted} of {counts:?}"
    );
    let bytes = |kind| of_kind(kind).map(|swap| swap.bytes).sum::<u64>();
    assert!(
        bytes("restored") > 0 && bytes("restored") <= bytes("evicted"),
        "{swaps:?}"
    );
}
