use super::*;

const GIB: u64 = 1 << 30;

/// A node of 4 GPUs and 64 cores with a lot of everything left.
fn idle(at_ms: u64, running: usize) -> NodeSample {
    NodeSample {
        at: Duration::from_millis(at_ms),
        running,
        young: 0,
        finished: 0,
        waiting: 0,
        cores_free: 50.0,
        cores_used: 0.5 * running as f64,
        gpus: 4,
        gpus_used: 0.2,
        memory_free: 500 * GIB,
        memory_owed: 0,
        memory_next: GIB,
    }
}

/// Plays `seconds` of a node that starts what is wanted at once. Returns the number at the end.
fn play(controller: &mut Controller, seconds: u64, sample: impl Fn(u64, usize) -> NodeSample) -> usize {
    let mut running = 4;
    for tick in 0..seconds * 10 {
        running = controller.wanted(&sample(tick * 100, running));
        assert!(running > 0, "nothing would ever run");
    }
    running
}

#[test]
fn it_rises_by_a_step_a_pace_while_there_is_something_left() {
    let mut controller = Controller::new(4);
    assert_eq!(controller.wanted(&idle(0, 0)), 4);
    assert_eq!(controller.wanted(&idle(20, 4)), 4, "the pace is not over");
    assert_eq!(controller.wanted(&idle(40, 4)), 8);
    assert_eq!(
        controller.wanted(&idle(80, 7)),
        8,
        "what was wanted does not run yet"
    );
    assert_eq!(controller.wanted(&idle(90, 8)), 12);
    // Where less is left than a step would take.
    let last_core = NodeSample {
        cores_free: 1.0,
        ..idle(130, 12)
    };
    assert_eq!(controller.wanted(&last_core), 13);
    let last_memory = NodeSample {
        memory_free: 3 * GIB,
        ..idle(170, 13)
    };
    assert_eq!(controller.wanted(&last_memory), 14);
    // Where a step would bring more than eight a GPU.
    assert_eq!(controller.wanted(&idle(210, 14)), 18);
    assert_eq!(controller.wanted(&idle(250, 29)), 30);
}

#[test]
fn a_queue_for_memory_stops_it() {
    let mut controller = Controller::new(4);
    let waits_from_ten = |at, running: usize| NodeSample {
        waiting: running.saturating_sub(10),
        ..idle(at, running)
    };
    // Ten fit, and for each GPU eight may wait.
    assert_eq!(play(&mut controller, 10, waits_from_ten), 10 + 4 * 8);
}

#[test]
fn cores_stop_it() {
    let mut controller = Controller::new(4);
    let one_each = |at, running: usize| NodeSample {
        cores_free: 64.0 - running as f64,
        cores_used: running as f64,
        ..idle(at, running)
    };
    assert_eq!(play(&mut controller, 20, one_each), 64);
    let mut controller = Controller::new(4);
    // Those just started do not show what they will use.
    let all_young = |at, running: usize| NodeSample {
        young: running,
        cores_used: 0.0,
        cores_free: 16.0,
        ..idle(at, running)
    };
    assert_eq!(play(&mut controller, 20, all_young), 16);
}

#[test]
fn host_memory_stops_it_and_takes_it_back() {
    let mut controller = Controller::new(4);
    let owes = |at, running: usize| NodeSample {
        memory_free: 100 * GIB,
        memory_owed: running as u64 * 8 * GIB,
        memory_next: 8 * GIB,
        ..idle(at, running)
    };
    assert_eq!(play(&mut controller, 10, owes), 12);
    let short = NodeSample {
        memory_free: 50 * GIB,
        ..owes(10_000, 12)
    };
    assert_eq!(controller.wanted(&short), 11);
    let none = NodeSample {
        memory_free: 0,
        ..owes(10_100, 1)
    };
    assert_eq!(controller.wanted(&none), 1, "one always runs");
}

#[test]
fn gpus_that_are_full_stop_it() {
    let mut controller = Controller::new(4);
    let full = |at, running| NodeSample {
        gpus_used: 4.0,
        ..idle(at, running)
    };
    let reached = play(&mut controller, 60, full);
    // It takes some seconds to see that they are.
    assert!((8..96).contains(&reached), "{reached}");
    let then = controller.wanted(&full(61_000, 8));
    assert_eq!(
        controller.wanted(&full(62_000, then)),
        then,
        "no more once it is known"
    );
}

#[test]
fn throughput_that_no_longer_rises_stops_it() {
    // Contexts are made one after another: no more than six jobs end in a second.
    let per_second = |running: usize| (running as f64 / 2.0).min(6.0);
    let (mut controller, mut running, mut finished) = (Controller::new(4), 4, 0.0);
    let mut most = 0;
    for tick in 0..1200 {
        finished += 0.1 * per_second(running);
        let sample = NodeSample {
            finished: finished as usize,
            ..idle(tick * 100, running)
        };
        running = controller.wanted(&sample);
        if tick > 600 {
            most = most.max(running);
        }
    }
    assert!(
        most < 200,
        "it would want 1,200 by then without a look at throughput: {most}"
    );
    assert!(running >= 8, "{running}");
}

#[test]
fn throughput_that_rises_does_not_stop_it() {
    let (mut controller, mut running, mut finished) = (Controller::new(4), 4, 0.0);
    for tick in 0..300 {
        finished += 0.1 * running as f64 / 3.0;
        let sample = NodeSample {
            finished: finished as usize,
            ..idle(tick * 100, running)
        };
        running = controller.wanted(&sample);
    }
    assert!(running > 150, "{running}");
}

/// Jobs so short that hardly a sample sees one run.
#[test]
fn a_number_of_jobs_that_nobody_saw_run_is_no_limit() {
    let mut controller = Controller::new(1);
    let sample = |at_ms, running, finished| NodeSample {
        finished,
        gpus: 1,
        ..idle(at_ms, running)
    };
    assert!(controller.wanted(&sample(0, 0, 0)) > 0);
    // A window in which none was seen,
    assert!(controller.wanted(&sample(500, 0, 20)) > 0);
    // and one of fewer jobs a second in which some were.
    for tick in 1..40 {
        assert!(controller.wanted(&sample(500 + tick * 100, 1, 20 + tick as usize / 4)) > 0);
    }
    for tick in 0..100 {
        assert!(
            controller.wanted(&sample(4500 + tick * 100, 0, 30)) > 0,
            "none for ever"
        );
    }
}

/// The queue looks at no node for seconds after its disk has failed, and jobs end meanwhile.
#[test]
fn what_happened_while_nobody_looked_is_not_measured() {
    let mut controller = Controller::new(1);
    let sample = |at_ms, running, finished| NodeSample {
        finished,
        gpus: 1,
        ..idle(at_ms, running)
    };
    controller.wanted(&sample(0, 4, 0));
    controller.wanted(&sample(5000, 0, 20));
    assert!(controller.best.is_none(), "{controller:?}");
    assert_eq!(
        (controller.window.finished, controller.window.job_seconds),
        (20, 0.0)
    );
}
