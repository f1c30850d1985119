//! An `mgbd` over GPUs that nobody uses, with a holder and a log as it has them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgb_probe::Gpu;
use mgb_scheduler::Users;
use mgb_scheduler::daemon::{self, Config};
use mgb_scheduler::node::{GpuMemory, NodeDriver, NodeError, Resident, capability};

use super::GIB;

/// Bytes of each GPU.
pub const TOTAL: u64 = 140 * GIB;
/// The device of the make-believe driver.
pub const DRIVER_FILE: &str = "/dev/full";

struct IdleGpus(Vec<Gpu>);

impl NodeDriver for IdleGpus {
    fn gpus(&self) -> &[Gpu] {
        &self.0
    }

    fn software(&self) -> bool {
        true
    }

    fn memory(&self, _gpu: usize) -> Result<GpuMemory, NodeError> {
        let (total, free) = (TOTAL, TOTAL);
        Ok(GpuMemory { total, free })
    }

    fn residents(&self, _gpu: usize) -> Result<Vec<Resident>, NodeError> {
        Ok(Vec::new())
    }

    fn utilisation(&self, _gpu: usize) -> Result<u32, NodeError> {
        Ok(0)
    }

    fn driver_files(&self) -> Vec<PathBuf> {
        vec![DRIVER_FILE.into()]
    }

    fn paused_within(&self, _gpu: usize, _ago: Duration) -> Result<bool, NodeError> {
        Ok(true)
    }
}

fn gpu(index: u32) -> Gpu {
    let multiprocessors = capability::multiprocessors(16896, 9, 0);
    Gpu {
        index,
        node_index: index,
        uuid: format!("GPU-{index}"),
        name: "made up".to_owned(),
        total_bytes: TOTAL,
        usable_bytes: TOTAL,
        context_bytes: GIB / 2,
        max_warps: multiprocessors.all_warps(),
        multiprocessors,
    }
}

/// Serves until the standard input ends.
pub fn serve(socket: &Path) {
    let log = File::create(socket.with_file_name("log")).expect("a log");
    tracing_subscriber::fmt().with_ansi(false).with_writer(log).init();
    let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
    let path = socket.to_owned();
    std::thread::spawn(move || {
        while !path.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("served");
        let _ = std::io::read_to_string(std::io::stdin());
        drop(stop);
    });
    let holder = Some(env!("CARGO_BIN_EXE_mgbd").into());
    let config = Config {
        holder,
        users: Users::All,
        ..Config::new(socket.to_owned())
    };
    let node = IdleGpus((0..2).map(gpu).collect());
    daemon::run(config, Box::new(node), OwnedFd::from(stopped)).expect("mgbd runs");
}
