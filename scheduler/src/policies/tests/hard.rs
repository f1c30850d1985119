//! Policies for which compute is a hard limit, and the one that knows memory only.

use super::*;
use crate::gpu_set::GpuSet;
use crate::sms::SmShape;

/// One of so many blocks that each take half a multiprocessor. There are 16.
fn halves(client: u64, blocks: u32) -> Waiter {
    Waiter {
        launch: TaskLaunch {
            blocks,
            threads: 1024,
            ..TaskLaunch::default()
        },
        ..waiter(client, 1, 1)
    }
}

fn alg2(gpus: &[GpuState], sms: &[Sms], jobs: &[Waiter]) -> Vec<(usize, usize)> {
    serve(Policy::Alg2, Queue::Backfill, gpus, sms, jobs)
}

#[test]
fn alg2_begins_what_finds_its_place_at_once() {
    let gpus = [gpu(100), gpu(100)];
    // 32 halves fit a GPU: the first two fill one, the third is too much for what the second has left beside
    // the fourth.
    let jobs = [
        halves(1, 20),
        halves(2, 12),
        halves(3, 30),
        halves(4, 3),
        halves(5, 2),
    ];
    assert_eq!(alg2(&gpus, &idle(&gpus), &jobs), [(0, 0), (1, 0), (2, 1), (4, 1)]);
}

#[test]
fn alg2_wants_all_of_a_gpu_for_a_grid_beyond_it_and_no_more() {
    let gpus = [gpu(100)];
    let jobs = [halves(1, u32::MAX), halves(2, 1)];
    assert_eq!(alg2(&gpus, &idle(&gpus), &jobs), [(0, 0)]);
    let mut sms = idle(&gpus);
    let one = SmShape::of(&halves(1, 1).launch, sms[0].kind());
    let spread = sms[0].spread(&one);
    sms[0].charge(&one, &spread);
    assert_eq!(alg2(&gpus, &sms, &jobs), [(1, 0)]);
    // Of a launch nobody knows likewise.
    let unknown = Waiter {
        launch: TaskLaunch::default(),
        ..waiter(1, 1, 1)
    };
    assert_eq!(alg2(&gpus, &sms, &[unknown, halves(2, 1)]), [(1, 0)]);
}

#[test]
fn alg2_keeps_one_gpu_for_a_large_grid_that_is_old() {
    let gpus = [gpu(100), gpu(100)];
    let mut sms = idle(&gpus);
    for (sms, blocks) in sms.iter_mut().zip([4, 2]) {
        let shape = SmShape::of(&halves(9, blocks).launch, sms.kind());
        let spread = sms.spread(&shape);
        sms.charge(&shape, &spread);
    }
    let mut jobs = [halves(1, 32), halves(2, 32), halves(3, 1), halves(4, 30)];
    assert_eq!(alg2(&gpus, &sms, &jobs), [(2, 0), (3, 1)]);
    jobs[0].since = ago(10);
    jobs[1].since = ago(10);
    // The one with less on it, and the same one for both.
    assert_eq!(alg2(&gpus, &sms, &jobs), [(2, 0)]);
    jobs[3].contexts = GpuSet::from_bits(0b10);
    assert_eq!(alg2(&gpus, &sms, &jobs), [(2, 0), (3, 1)]);
    jobs[0].since = ago(40);
    assert_eq!(alg2(&gpus, &sms, &jobs), [(2, 0)]);
}

#[test]
fn alg2_keeps_nobody_out_where_all_who_run_wait() {
    let gpus = [GpuState {
        claim: None,
        resting: true,
        ..gpu(100)
    }];
    let mut sms = idle(&gpus);
    let shape = SmShape::of(&halves(9, 32).launch, sms[0].kind());
    let spread = sms[0].spread(&shape);
    sms[0].charge(&shape, &spread);
    assert_eq!(alg2(&gpus, &sms, &[halves(1, 1), halves(2, 1)]), [(0, 0)]);
}

#[test]
fn schedgpu_takes_the_first_gpu_that_fits_whatever_runs_there() {
    let busy = GpuState {
        warps: 100,
        active_warps: 100,
        ..gpu(10)
    };
    let jobs = [waiter(1, 4, 9), waiter(2, 4, 9), waiter(3, 4, 9)];
    assert_eq!(
        place("schedgpu", &[busy, gpu(10)], &jobs),
        [(0, 0), (1, 0), (2, 1)]
    );
}

#[test]
fn schedgpu_waits_in_its_four_ways() {
    let mut jobs = [
        waiter(1, 4, 1),
        waiter(2, 20, 1),
        waiter(3, 2, 1),
        waiter(4, 1, 1),
    ];
    let gpus = [gpu(10)];
    assert_eq!(place("schedgpu:fifo", &gpus, &jobs), [(0, 0)]);
    assert_eq!(place("schedgpu:mmu", &gpus, &jobs), [(0, 0), (2, 0), (3, 0)]);
    jobs[1].priority = 7;
    jobs[3].priority = 7;
    assert_eq!(place("schedgpu:priority-fifo", &gpus, &jobs), []);
    assert_eq!(place("schedgpu:priority-mmu", &gpus, &jobs), [(3, 0)]);
    jobs[1].bytes = 3;
    assert_eq!(place("schedgpu:priority-fifo", &gpus, &jobs), [(1, 0), (3, 0)]);
    // Nobody starves below others of higher priority.
    jobs[0].since = ago(40);
    assert_eq!(place("schedgpu:priority-fifo", &gpus, &jobs), [(0, 0)]);
    // Nor do those keep out who hold what they wait for.
    jobs[0].since = NOW;
    jobs[1].bytes = 20;
    jobs[2].contexts = GpuSet::from_bits(1);
    assert_eq!(place("schedgpu:priority-fifo", &gpus, &jobs), []);
    let stalled = [GpuState {
        stalled: true,
        ..gpu(10)
    }];
    assert_eq!(place("schedgpu:priority-fifo", &stalled, &jobs), [(2, 0)]);
}
