//! Programs that others wait for, and what batch programs are told because of them.

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::mps_daemon::{self, MpsDaemon};
use common::raw::{Intruder, request};
use common::{Daemon, GpuSetting, MIB, wait_for};
use mgb_probe::view::{Lack, NodeView};
use mgb_probe::wire::{ANSWERED, CAP_OBSERVER, IDLE, Op, Reply, Request};
use mgb_probe::{BeginRequest, Class, Client, MpsClient};

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

fn setting() -> GpuSetting {
    GpuSetting::new(2, 100 * MIB, MIB)
}

/// An mgbd whose quotas say that.
fn daemon_with(quotas: &str) -> (Daemon, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), quotas).unwrap();
    let path = file.path().to_owned();
    let daemon = Daemon::start_with(setting(), |config| config.quotas = Some(path));
    (daemon, file)
}

fn client(daemon: &Daemon, class: Class) -> Client {
    let client = Client::connect_as(&daemon.socket(), class).unwrap();
    for gpu in 0..2 {
        let request = BeginRequest {
            gpu: Some(gpu),
            ..BeginRequest::default()
        };
        client.begin(&request).unwrap();
        client.published().context_made(gpu);
    }
    client
}

fn is_held(client: &Client, gpu: u32) -> bool {
    client.pace().hold(gpu).is_some()
}

#[test]
fn batch_programs_are_held_while_one_that_others_wait_for_has_work() {
    let daemon = Daemon::start(setting());
    let batch = client(&daemon, Class::Batch);
    assert!(!batch.pace().is_any());
    let latency = client(&daemon, Class::Latency);
    assert_eq!(
        (batch.hello().class, latency.hello().class),
        (Some(Class::Batch), Some(Class::Latency))
    );
    latency.set_urgent(1, true);
    wait_for("a hold", || is_held(&batch, 1));
    // Where nobody has work that others wait for, what is in flight is bounded, in case he gets some.
    assert!(batch.pace().is_paced(0) && !is_held(&batch, 0));
    // A second one that is no batch program is not held.
    let second = client(&daemon, Class::Latency);
    second.set_urgent(0, true);
    wait_for("the second's hold", || is_held(&batch, 0));
    assert!(!second.pace().is_any() && !latency.pace().is_any());
    latency.set_urgent(1, false);
    wait_for("the end of the hold", || !is_held(&batch, 1));
    drop((latency, second));
    wait_for("the end of all of it", || !batch.pace().is_any());
}

#[test]
fn who_comes_later_is_held_as_well_and_others_see_it() {
    let daemon = Daemon::start(setting());
    let latency = client(&daemon, Class::Latency);
    latency.set_urgent(0, true);
    let held = client(&daemon, Class::Batch);
    wait_for("a hold", || is_held(&held, 0));
    let mut batch = daemon.client("begin 10 map 10 paused 1500 say up sleep 60000");
    batch.until("up");
    let view = daemon.wait_view("the task", |view| {
        view.tasks.iter().any(|task| task.paused_ms == 1500)
    });
    assert_eq!(view.tasks[0].class, Class::Batch);
    batch.kill();
}

/// What a client says of GPUs where it was granted nothing counts for nothing, also that it has work and
/// starves.
#[test]
fn who_was_granted_nothing_on_a_gpu_has_nobody_held_there() {
    let daemon = Daemon::start(setting());
    let batch = client(&daemon, Class::Batch);
    let liar = Client::connect_as(&daemon.socket(), Class::Latency).unwrap();
    (0..64).for_each(|gpu| liar.published().context_made(gpu));
    (0..64).for_each(|gpu| liar.set_urgent(gpu, true));
    // The answer to a request comes behind whatever the rings could have caused.
    let mut other = daemon.client("begin 10 map 10 unmap 10 end");
    other.until("granted");
    other.finish();
    assert!(!batch.pace().is_any());
}

#[test]
fn a_hold_ends_with_the_process_that_it_is_for() {
    let daemon = Daemon::start(setting());
    let batch = client(&daemon, Class::Batch);
    let mut latency = daemon.latency_client("begin 10 map 10 urgent say up sleep 60000");
    latency.until("up");
    let view = daemon.wait_view("its class", |view| {
        view.tasks.iter().any(|task| task.class == Class::Latency)
    });
    let gpu = view.tasks[0].gpu;
    wait_for("a hold", || is_held(&batch, gpu));
    latency.kill();
    wait_for("the end of the hold", || !batch.pace().is_any());
}

#[test]
fn who_is_never_idle_takes_no_more_than_his_part() {
    let (daemon, _quotas) = daemon_with("[default]\nlatency = 10\n");
    let (batch, latency) = (client(&daemon, Class::Batch), client(&daemon, Class::Latency));
    latency.set_urgent(0, true);
    for _ in 0..3 {
        wait_for("a hold", || is_held(&batch, 0));
        wait_for("a pause of the hold", || !is_held(&batch, 0));
        assert!(batch.pace().is_paced(0));
    }
    // Whatever it says, it goes on, and so do others.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        latency.set_urgent(0, false);
        latency.set_urgent(0, true);
    }
    let mut other = daemon.client("begin 10 map 10 unmap 10 end");
    other.until("granted");
    other.finish();
    assert!(latency.is_connected());
}

#[test]
fn whose_user_may_run_none_is_a_batch_program() {
    let (daemon, _quotas) = daemon_with("[default]\nlatency = false\n");
    let (batch, latency) = (client(&daemon, Class::Batch), client(&daemon, Class::Latency));
    assert_eq!(latency.hello().class, Some(Class::Batch));
    latency.set_urgent(0, true);
    // The answer to a request comes behind whatever the ring could have caused.
    let mut other = daemon.client("begin 10 map 10 unmap 10 end");
    other.until("granted");
    other.finish();
    assert!(!batch.pace().is_any() && !latency.pace().is_any());
}

/// A client that stays for the whole test, as a program's does.
fn lasting(daemon: &Daemon, class: Class) -> &'static Client {
    Box::leak(Box::new(client(daemon, class)))
}

#[test]
fn a_program_that_runs_becomes_a_latency_program() {
    let daemon = Daemon::start(setting());
    let (batch, program) = (client(&daemon, Class::Batch), lasting(&daemon, Class::Batch));
    assert_eq!(program.class(), Class::Batch);
    let latency = client(&daemon, Class::Latency);
    latency.set_urgent(0, true);
    wait_for("a hold", || is_held(&batch, 0) && is_held(program, 0));
    program.become_latency();
    assert_eq!(program.class(), Class::Latency);
    wait_for("its own hold to end", || !program.pace().is_any());
    assert!(is_held(&batch, 0) || batch.pace().is_paced(0));
    latency.set_urgent(0, false);
    program.set_urgent(1, true);
    wait_for("a hold for it", || is_held(&batch, 1));
    program.set_urgent(1, false);
}

#[test]
fn who_may_run_none_does_not_become_a_latency_program() {
    let (daemon, _quotas) = daemon_with("[default]\nlatency = false\n");
    let (batch, program) = (client(&daemon, Class::Batch), lasting(&daemon, Class::Batch));
    program.become_latency();
    assert_eq!(program.class(), Class::Batch);
    program.set_urgent(0, true);
    let mut other = daemon.client("begin 10 map 10 unmap 10 end");
    other.until("granted");
    other.finish();
    assert!(!batch.pace().is_any() && program.is_connected());
}

/// The word of its class is a client's own, and mgbd reads it where the client says hello.
#[test]
fn a_word_that_changes_all_the_time_makes_no_latency_program() {
    let daemon = Daemon::start(setting());
    let latency = client(&daemon, Class::Latency);
    let intruder = Intruder::new(&daemon.socket());
    let begin = Request {
        gpus: 1,
        ..request(Op::Begin, 1, 0)
    };
    intruder.post(0, &begin);
    let channel = intruder.channel();
    wait_for("a grant", || {
        channel.cells[0].state.load(Ordering::Acquire) == ANSWERED
    });
    channel.published.contexts.store(1, Ordering::Release);
    latency.set_urgent(0, true);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        for word in 0..3 {
            channel.published.say_class(word);
            channel.published.urgent.store(word, Ordering::Release);
        }
    }
    channel.published.say_class(1);
    let mut other = daemon.client("begin 10 map 10 unmap 10 end");
    other.until("granted");
    other.finish();
    wait_for("a hold of it", || channel.pace.hold(0).is_some());
}

#[test]
fn who_only_looks_becomes_no_latency_program_however_often_it_says_so() {
    let daemon = Daemon::start(setting());
    let batch = client(&daemon, Class::Batch);
    let observer = Intruder::open(&daemon.socket(), CAP_OBSERVER).unwrap();
    let channel = observer.channel();
    for _ in 0..100 {
        channel.cells[0].state.store(IDLE, Ordering::Release);
        observer.post(0, &request(Op::BecomeLatency, 0, 0));
        wait_for("an answer", || {
            channel.cells[0].state.load(Ordering::Acquire) == ANSWERED
        });
        assert_eq!(Reply::decode(&channel.cells[0]), Some(Reply::Unchanged));
    }
    channel.published.contexts.store(u64::MAX, Ordering::Release);
    channel.published.urgent.store(u64::MAX, Ordering::Release);
    observer.ring();
    let mut other = daemon.client("begin 10 map 10 unmap 10 end");
    other.until("granted");
    other.finish();
    assert!(!batch.pace().is_any());
}

#[test]
fn batch_programs_are_below_in_mps_and_leave_some_of_a_gpu() {
    let mut mps = MpsDaemon::new();
    mps.start();
    let join = |class| Client::connect_as(&mps.daemon.socket(), class).unwrap();
    let said = |client: &Client| client.hello().mps_client;
    let below = |percentage| MpsClient {
        priority: Some(1),
        percentage,
    };
    let first = join(Class::Batch);
    assert_eq!(said(&first), below(None));
    let latency = join(Class::Latency);
    let normal = MpsClient {
        priority: Some(0),
        percentage: None,
    };
    assert_eq!(said(&latency), normal);
    assert_eq!(said(&join(Class::Batch)), below(Some(90)));
    drop(latency);
    wait_for("none to be left", || said(&join(Class::Batch)) == below(None));
}

#[test]
fn who_has_not_the_right_costs_nobody_multiprocessors() {
    let mut mps = MpsDaemon::new();
    let quotas = mps.folder().join("quotas.toml");
    std::fs::write(&quotas, "[default]\nlatency = false\n").unwrap();
    let with = mps_daemon::with_mps(mps.folder());
    mps.daemon.start_again_with(|config| {
        with(config);
        config.quotas = Some(quotas);
    });
    let join = |class| Client::connect_as(&mps.daemon.socket(), class).unwrap();
    let refused = join(Class::Latency);
    assert_eq!(refused.hello().class, Some(Class::Batch));
    assert_eq!(join(Class::Batch).hello().mps_client.percentage, None);
}

#[test]
fn what_programs_cannot_be_given_any_more_is_shown() {
    let mut mps = MpsDaemon::new();
    mps.start();
    let daemon = &mps.daemon;
    let noted = |view: &NodeView, pid: u32| {
        let task = view.tasks.iter().find(|task| task.pid == pid);
        task.map(|task| task.lacks.clone())
    };
    let mut early = daemon.client("begin 10 map 10 joins 1 0 say up await latency say late sleep 60000");
    early.until("up");
    let own = early.child.id();
    daemon.wait_view("nothing to say", |view| noted(view, own) == Some(vec![]));
    let mut latency = daemon.latency_client("begin 10 map 10 joins 0 0 say up sleep 60000");
    latency.until("up");
    daemon.wait_view("a note", |view| {
        noted(view, own) == Some(vec![Lack::AllMultiprocessors])
    });
    let mut beside = daemon.client("begin 10 map 10 joins 1 90 say up sleep 60000");
    beside.until("up");
    let (second, third) = (latency.child.id(), beside.child.id());
    let has_none =
        |view: &NodeView| [second, third].map(|pid| noted(view, pid)) == [Some(vec![]), Some(vec![])];
    daemon.wait_view("nothing to say of the others", has_none);
    let percent = |view: &NodeView, pid: u32| {
        let task = view.tasks.iter().find(|task| task.pid == pid);
        task.and_then(|task| task.multiprocessors_percent)
    };
    daemon.wait_view("the part of one", |view| {
        [own, second, third].map(|pid| percent(view, pid)) == [None, None, Some(90)]
    });
    daemon.go();
    early.until("late");
    daemon.wait_view("what came too late", |view| {
        noted(view, own) == Some(vec![Lack::LowPriority])
    });
    for mut process in [early, latency, beside] {
        process.kill();
    }
}
