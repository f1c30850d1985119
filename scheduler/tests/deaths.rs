//! `mgbd` with real processes that end, are killed or hang up, and `mgbd` that ends itself.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{ClientProcess, DRIVER_FILE, Daemon, GpuSetting, MIB, driver_files_open, wait_for};

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

#[test]
fn a_whole_process_task_outlives_its_channel() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let mut program = daemon.client("whole 60 exec sleep 60");
    program.until("execing");
    let view = daemon.wait_view("the task", |view| view.tasks.len() == 1);
    assert_eq!(view.tasks[0].pid, program.child.id());
    let mut waits = daemon.client("begin 60 map 60 say up");
    daemon.wait_view("a queue", |view| view.queue.len() == 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(daemon.view().queue.len(), 1, "its room was given away");
    program.kill();
    waits.until("up");
    waits.finish();
    daemon.check_empty();
}

/// The driver lists a process when it begins to make its context, and takes the memory for it later. The
/// driver takes down what a process had when the last of its files is closed: if kernels of it still run,
/// that ends every other program on the GPU.
#[test]
fn what_is_killed_at_work_stays_until_the_work_is_done() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let is_kept = |times| wait_for("mgbd to have the files", || driver_files_open() == times);
    let holding = |what: &str| format!("begin 60 map 60 keep {DRIVER_FILE} {what} say up sleep 60000");
    // An idle one is gone at once, and so is what it has done.
    for idle in ["", "busy done"] {
        let mut client = daemon.client(&holding(idle));
        client.until("up");
        is_kept(2);
        client.kill();
        is_kept(0);
        daemon.check_empty();
    }
    let mut client = daemon.client(&holding("busy"));
    client.until("up");
    // Asked again, it has only what came last.
    let mut other = daemon.client(&format!(
        "begin 5 map 5 keep {DRIVER_FILE} busy keep {DRIVER_FILE} say up sleep 60000"
    ));
    other.until("up");
    is_kept(4);
    client.kill();
    let waits = daemon.client("begin 60 map 60 say up");
    daemon.wait_view("a queue", |view| view.queue.len() == 1);
    std::thread::sleep(Duration::from_millis(300));
    let view = daemon.view();
    assert_eq!(
        (driver_files_open(), view.queue.len()),
        (4, 1),
        "it was taken for done"
    );
    assert_eq!(view.gpus[0].reclaiming_bytes, 61 * MIB);
    daemon.setting.paused.store(true, Ordering::Relaxed);
    is_kept(2);
    waits.finish();
    // A program that execs another has lost its memory.
    let mut execs = daemon.client(&format!(
        "begin 20 map 20 keep {DRIVER_FILE} busy exec /bin/sleep 60"
    ));
    execs.until("execing");
    is_kept(4);
    execs.kill();
    is_kept(2);
    other.kill();
    is_kept(0);
    daemon.check_empty();
}

#[test]
fn a_context_being_made_is_not_taken_for_made() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, 10 * MIB));
    // Of the 100 MiB: 30 foreign, 15 plain, 20 each with their contexts for two more.
    daemon.foreign(30 * MIB);
    let mut plain = daemon.client("whole 5 map 5 say up sleep 60000");
    plain.until("up");
    let mut making: Vec<ClientProcess> = (0..2)
        .map(|_| daemon.client("begin 10 list say listed sleep 60000"))
        .collect();
    for client in &mut making {
        client.until("listed");
    }
    let mut third = daemon.client("begin 10 map 10 say up");
    daemon.wait_view("a queue", |view| view.queue.len() == 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(
        daemon.view().queue.len(),
        1,
        "it was given memory of contexts being made"
    );
    making[0].kill();
    third.until("up");
    third.finish();
    making[1].kill();
    plain.kill();
    daemon.check_empty();
}

/// `mgb run` connects, and becomes a program that may take long to come to its
/// first GPU op.
#[test]
fn it_stays_while_a_program_that_hung_up_lives() {
    let daemon = Daemon::start_with(GpuSetting::new(1, 100 * MIB, MIB), |config| {
        config.idle_exit = Some(Duration::from_millis(300));
    });
    let mut program = daemon.client("connect exec sleep 60");
    program.until("execing");
    daemon.wait_view("the client", |view| view.clients == 1);
    std::thread::sleep(Duration::from_millis(600));
    assert!(daemon.socket().exists(), "it ended under a living program");
    program.kill();
    common::wait_for("mgbd to end", || !daemon.socket().exists());
}

#[test]
fn a_forked_child_is_a_client_of_its_own() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let mut parent = daemon.client("begin 10 map 10 fork say back end begin 10 say again");
    parent.until("granted");
    parent.until("granted");
    parent.until("back");
    parent.until("again");
    parent.finish();
    assert_eq!(daemon.view().counts.granted, 3);
    daemon.check_empty();
}

#[test]
fn who_waits_when_mgbd_stops_is_told() {
    let mut daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let mut holds = daemon.client("begin 90 map 90 say up sleep 60000");
    holds.until("up");
    let mut waits = daemon.client("begin 90");
    daemon.wait_view("a queue", |view| view.queue.len() == 1);
    let socket = daemon.socket();
    daemon.stop();
    assert_eq!(
        waits.until("refused"),
        format!(
            "refused mgbd ended before it gave the task room; see its log {}.log, start mgbd again and \
             rerun the program",
            socket.display()
        )
    );
    assert!(!socket.exists());
}

/// A channel has 64 cells: a thread beyond those waits for one, and is told as well.
#[test]
fn threads_that_found_no_cell_are_told_as_well_when_mgbd_ends() {
    const THREADS: usize = 80;
    let mut daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let mut holds = daemon.client("begin 90 map 90 say up sleep 60000");
    holds.until("up");
    let client = Arc::new(mgb_probe::Client::connect(&daemon.socket()).unwrap());
    let ask = || {
        let client = Arc::clone(&client);
        let need = mgb_probe::Need {
            mapped_bytes: 50 * MIB,
            ..Default::default()
        };
        move || {
            client.begin(&mgb_probe::BeginRequest {
                need,
                ..Default::default()
            })
        }
    };
    // In no scope: one that waits for ever must not keep the test from failing.
    let threads: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(ask())).collect();
    daemon.wait_view("a full channel", |view| {
        view.queue.len() == mgb_probe::wire::CELLS
    });
    daemon.stop();
    common::wait_for("every thread to be told", || {
        threads.iter().all(|thread| thread.is_finished())
    });
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Err(mgb_probe::Refusal::Disconnected));
    }
}

#[test]
fn only_killed_processes_count_as_dead_with_room() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    // As programs end that free nothing: with a task, and with a context.
    for script in ["begin 10 map 10 say up", "begin 10 map 10 end say up"] {
        let mut client = daemon.client(script);
        client.until("up");
        client.finish();
    }
    daemon.check_empty();
    assert_eq!(daemon.view().counts.died_holding, 0);
    let mut client = daemon.client("begin 10 map 10 say up sleep 60000");
    client.until("up");
    // Nobody waits for it yet: that a signal ended it is to be seen as long as it is a zombie.
    client.child.kill().unwrap();
    daemon.wait_view("the death to count", |view| view.counts.died_holding == 1);
    client.kill();
    daemon.check_empty();
}

#[test]
fn it_ends_when_nobody_needs_it() {
    let setting = GpuSetting::new(1, 100 * MIB, MIB);
    let daemon = Daemon::start_with(setting, |config| {
        config.idle_exit = Some(Duration::from_millis(300));
    });
    let mut client = daemon.client("begin 10 map 10 say up sleep 1000");
    client.until("up");
    std::thread::sleep(Duration::from_millis(500));
    assert!(daemon.socket().exists(), "it ended with a client");
    client.finish();
    common::wait_for("mgbd to end", || !daemon.socket().exists());
}

/// Rounds of 8 clients on two GPUs that hold five of them, one killed at a
/// random moment: its room comes back, never too early, and the others finish.
#[test]
fn killing_clients_loses_no_room() {
    let rounds = std::env::var("MGB_KILL_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(12);
    let daemon = Daemon::start(GpuSetting::new(2, 100 * MIB, 2 * MIB));
    let mut seed = 12345u64;
    let mut random = |below: u64| {
        // xorshift64: the moments differ, and are the same in every run.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for _ in 0..rounds {
        let mut clients: Vec<ClientProcess> = (0..8)
            .map(|_| {
                let (hold, more) = (10 + random(20), 1 + random(15));
                let half = hold / 2;
                daemon.client(&format!(
                    "begin {hold} map {half} sleep {} map {} grow {more} sleep {} end",
                    random(20),
                    hold - half,
                    random(20)
                ))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(random(120)));
        let mut victim = clients.swap_remove(random(8) as usize);
        victim.kill();
        for client in clients {
            client.finish();
        }
    }
    daemon.check_empty();
    let view = daemon.view();
    assert_eq!(view.counts.refused, 0);
    let mut marked = 0;
    for reclaim in &view.reclaims {
        assert!(reclaim.freed_us.is_some());
        marked = marked.max(reclaim.marked_us);
    }
    assert!(marked < 100_000, "a death took {marked} µs to mark");
}
