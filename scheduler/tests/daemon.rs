//! `mgbd` with real processes: grants, growth, fairness.

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mgb_probe::view::{NodeView, WaitView, WaitsFor};

use common::{ClientProcess, Daemon, GpuSetting, MIB};

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

#[test]
fn tasks_are_granted_spread_and_given_back() {
    let daemon = Daemon::start(GpuSetting::new(2, 100 * MIB, MIB));
    let mut first = daemon.client("begin 60 map 60 say up sleep 60000");
    first.until("up");
    let mut second = daemon.client("begin 60 map 60 say up sleep 60000");
    assert_eq!(second.until("granted"), "granted 1");
    second.until("up");
    let view = daemon.wait_view("both tasks to show", |view| view.tasks.len() == 2);
    assert_eq!(view.gpus[0].reserved_bytes, 60 * MIB);
    assert_eq!(view.gpus[0].warps_charged, 16);
    let waits = daemon.client("begin 60 map 60 end say done");
    daemon.wait_view("a queue", |view| view.queue.len() == 1 && !view.queue[0].growth);
    first.kill();
    waits.finish();
    second.kill();
    daemon.check_empty();
}

/// Servers with a declared need neither move nor leave, so nine tenths of a GPU come free nowhere.
#[test]
fn what_fits_nowhere_keeps_one_gpu_and_gives_it_up() {
    let short = Duration::from_millis(100);
    let daemon = Daemon::start_with(GpuSetting::new(2, 100 * MIB, MIB), |config| {
        config.patience = short
    });
    let mut servers: Vec<_> = (0..2)
        .map(|_| daemon.client("whole 30 map 30 say up sleep 60000"))
        .collect();
    servers.iter_mut().for_each(|server| drop(server.until("up")));
    let mut large = daemon.client("begin 90");
    let gathers = |view: &NodeView| {
        matches!(
            view.queue[..],
            [WaitView {
                waits_for: Some(WaitsFor::RoomGathers(_)),
                ..
            }]
        )
    };
    daemon.wait_view("room to gather", |view| !view.queue.is_empty() && gathers(view));
    // The other GPU is everybody's, and in the end this one is, too.
    let mut first = daemon.client("begin 60 map 60 say up sleep 60000");
    first.until("up");
    daemon.client("begin 20 map 20 unmap 20 end").finish();
    daemon.wait_view("it to be said", |view| {
        matches!(
            view.queue[..],
            [WaitView {
                waits_for: Some(WaitsFor::NothingLeaves),
                ..
            }]
        )
    });
    // Where it gathers, it is served once there is room.
    servers.iter_mut().for_each(ClientProcess::kill);
    first.kill();
    large.until("granted");
    large.finish();
    daemon.check_empty();
}

/// Three programs that do not use MGB keep a GPU busy; they have little memory there.
#[test]
fn newcomers_keep_off_a_gpu_where_programs_outside_work() {
    let setting = GpuSetting::new(2, 100 * MIB, MIB);
    setting.utilisation.store(100, Ordering::Relaxed);
    let daemon = Daemon::start(setting);
    let mut first = daemon.client("blocks 64 begin 1 busy say up sleep 60000");
    assert_eq!(first.until("granted"), "granted 1");
    first.until("up");
    let mut second = daemon.client("blocks 64 begin 1 say up sleep 60000");
    assert_eq!(second.until("granted"), "granted 1");
    first.kill();
    second.kill();
    daemon.check_empty();
}

#[test]
fn a_program_in_a_host_phase_keeps_nobody_off_its_gpu() {
    let daemon = Daemon::start(GpuSetting::new(2, 100 * MIB, MIB));
    let busy = "blocks 256 begin 20 map 20 busy say up sleep 60000";
    let mut first = daemon.client(busy);
    first.until("up");
    let host_phase = "blocks 256 begin 20 map 20 busy done say up sleep 60000";
    let mut second = daemon.client(host_phase);
    assert_eq!(second.until("granted"), "granted 1");
    second.until("up");
    // Longer than what was seen of it counts for much.
    std::thread::sleep(Duration::from_millis(2500));
    let mut others: Vec<_> = (0..2)
        .map(|_| daemon.client("blocks 1 begin 1 say up sleep 60000"))
        .collect();
    for other in &mut others {
        assert_eq!(other.until("granted"), "granted 1");
    }
    for process in others.iter_mut().chain([&mut first, &mut second]) {
        process.kill();
    }
    daemon.check_empty();
}

#[test]
fn the_order_of_the_queue_is_told_and_kept() {
    let daemon = Daemon::start_with(GpuSetting::new(1, 100 * MIB, MIB), |config| {
        config.policy = "schedgpu".parse().unwrap();
        config.queue = mgb_interface::Queue::InOrder;
    });
    assert_eq!(
        mgb_probe::Client::observe(&daemon.socket())
            .unwrap()
            .hello()
            .queue,
        "in-order"
    );
    let mut holder = daemon.client("begin 50 map 50 say up sleep 60000");
    holder.until("up");
    let large = daemon.client("begin 90 map 90 end say done");
    daemon.wait_view("the large one to wait", |view| view.queue.len() == 1);
    let small = daemon.client("begin 1 map 1 end say done");
    daemon.wait_view("the small one to wait behind it", |view| view.queue.len() == 2);
    holder.kill();
    large.finish();
    small.finish();
    daemon.check_empty();
}

#[test]
fn what_never_fits_is_refused_with_both_figures() {
    let daemon = Daemon::start(GpuSetting::new(2, 80 << 30, 1 << 30));
    let mut client = daemon.client("begin 97280");
    assert_eq!(
        client.until("refused"),
        "refused needs 96.0 GiB, the largest GPU has 80.0 GiB"
    );
}

/// The four processes of FlexGPU's deadlock, a GiB being a MiB here.
#[test]
fn four_that_grow_at_once_all_finish() {
    let context = MIB / 2;
    let daemon = Daemon::start(GpuSetting::new(1, 12 * 64 * MIB + 4 * context, context));
    // In 64ths of a GiB: what each holds, and what it asks for then.
    let clients: Vec<ClientProcess> = [(231, 215), (87, 198), (120, 225), (248, 161)]
        .into_iter()
        .map(|(hold, more)| {
            daemon.client(&format!(
                "begin {hold} map {hold} say up await grow {more} sleep 100 end say done"
            ))
        })
        .map(|mut client| {
            client.until("up");
            client
        })
        .collect();
    daemon.go();
    for client in clients {
        client.finish();
    }
    let counts = daemon.view().counts;
    assert_eq!(counts.refused, 0);
    assert!(counts.swapped_out >= 1, "{counts:?}");
    daemon.check_empty();
}

#[test]
fn a_second_run_has_the_room_to_which_the_first_grew() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    daemon.client("begin 20 map 20 grow 50 end say done").finish();
    let mut second = daemon.client("begin 20 map 20 say up sleep 60000");
    second.until("up");
    let other = daemon.client("begin 40 map 40 end say done");
    let view = daemon.wait_view("the other to wait", |view| view.queue.len() == 1);
    assert_eq!(view.gpus[0].reserved_bytes, 20 * MIB, "nobody was told of more");
    second.kill();
    other.finish();
    daemon.check_empty();
}

#[test]
fn a_large_task_is_not_starved_by_small_ones() {
    let setting = GpuSetting::new(1, 100 * MIB, 0);
    let daemon = Daemon::start_with(setting, |config| config.patience = Duration::from_millis(300));
    let mut small: Vec<ClientProcess> = (0..3)
        .map(|_| daemon.client("begin 40 map 40 say up sleep 200 end"))
        .collect();
    small[0].until("up");
    let start = Instant::now();
    let mut large = daemon.client("begin 90 map 90 say up");
    // A new small one whenever one ends, for as long as the large one waits.
    let feeder = std::thread::scope(|scope| {
        let handle = scope.spawn(|| {
            large.until("up");
            start.elapsed()
        });
        while !handle.is_finished() {
            small.push(daemon.client("begin 40 map 40 sleep 200 end"));
            std::thread::sleep(Duration::from_millis(60));
        }
        handle.join().unwrap()
    });
    assert!(feeder < Duration::from_secs(5), "it waited {feeder:?}");
    drop(small);
    large.finish();
    daemon.check_empty();
}

/// What a grant and its end cost on an idle `mgbd`; run it with `--ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn how_long_calls_take() {
    let daemon = Daemon::start(GpuSetting::new(4, 100 * MIB, 0));
    let client = mgb_probe::Client::connect(&daemon.socket()).unwrap();
    let mut times: Vec<Duration> = (0..5000)
        .map(|_| {
            let start = Instant::now();
            let grant = client.begin(&mgb_probe::BeginRequest::default()).unwrap();
            let took = start.elapsed();
            client.end(grant.task, 0);
            took
        })
        .collect();
    times.sort();
    println!(
        "begin: median {:?}, p99 {:?}, most {:?}",
        times[2500], times[4950], times[4999]
    );
}
