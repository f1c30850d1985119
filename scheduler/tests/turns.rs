//! Turns at the driver, with real processes.

mod common;

use std::time::Duration;

use common::{ClientProcess, Daemon, GpuSetting, MIB};

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

/// Four processes have the driver; who comes next has to wait until one of them is killed, or has had it for
/// too long.
#[test]
fn a_turn_at_the_driver_ends_with_its_process_or_by_time() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    daemon.client("turn over turn over say done").finish();
    let mut holders: Vec<ClientProcess> = (0..4)
        .map(|_| {
            let mut holder = daemon.client("turn say up sleep 60000");
            holder.until("up");
            holder
        })
        .collect();
    let waited = |client: &mut ClientProcess| -> u64 {
        let line = client.until("turn after");
        line.split(' ').nth(2).unwrap().parse().unwrap()
    };
    let mut next = daemon.client("say asks turn say up sleep 60000");
    next.until("asks");
    std::thread::sleep(Duration::from_millis(400));
    holders[1].kill();
    assert!(waited(&mut next) >= 100, "it had its turn beside four others");
    daemon.client("turn begin 10 map 10 end over say done").finish();
    drop((holders, next));
    daemon.check_empty();
}
