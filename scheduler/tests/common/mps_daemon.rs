//! An `mgbd` whose GPUs want MPS, with a script in the place of MPS's control program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use mgb_probe::Client;
use mgb_scheduler::daemon::Config;
use rustix::process::{Pid, Signal, kill_process};

use super::{DRIVER_FILE, Daemon, GpuSetting, MIB, alive, holders, wait_for};

/// As NVIDIA's: `-d` leaves a daemon behind that its pid file names; without it commands come on standard
/// input.
pub const CONTROL: &str = r#"#!/bin/sh
pipe=$CUDA_MPS_PIPE_DIRECTORY
pid=$pipe/nvidia-cuda-mps-control.pid
case "$1" in
-d)
    echo start >>"$pipe/calls"
    "$0" --daemon </dev/null >/dev/null 2>&1 &
    echo $! >"$pid.new" && chmod 666 "$pid.new" && mv "$pid.new" "$pid"
    exit 0 ;;
--daemon)
    while [ -d "$pipe" ]; do sleep 0.05; done
    exit 0 ;;
esac
# Version 3 has other verbs.
[ "${CUDA_MPS_PROTOCOL_VERSION:-2}" = 2 ] || exit 1
while read -r line; do
    echo "$line" >>"$pipe/calls"
    case "$line" in
    get_server_list) [ ! -s "$pipe/clients" ] || echo 4711 ;;
    get_client_list*) cat "$pipe/clients" ;;
    quit*) kill "$(cat "$pid")" && rm "$pid" ;;
    esac
done
"#;

pub fn setting() -> GpuSetting {
    GpuSetting {
        mps: true,
        ..GpuSetting::new(1, 100 * MIB, MIB)
    }
}

pub fn with_mps(folder: &Path) -> impl FnOnce(&mut Config) + use<> {
    let control = folder.join("nvidia-cuda-mps-control");
    move |config| {
        config.holder = Some(env!("CARGO_BIN_EXE_mgbd").into());
        config.mps_control = control;
    }
}

/// An `mgbd` whose GPUs want MPS. Whoever kills it starts it in a process.
pub struct MpsDaemon {
    pub daemon: Daemon,
}

impl MpsDaemon {
    pub fn new() -> MpsDaemon {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("memory")).unwrap();
        let node = MpsDaemon {
            daemon: Daemon::over(folder, setting()),
        };
        node.install(CONTROL);
        node
    }

    pub fn folder(&self) -> &Path {
        self.daemon.folder.path()
    }

    pub fn start(&mut self) {
        let with = with_mps(self.folder());
        self.daemon.start_again_with(with);
    }

    /// Starts one that can be killed.
    pub fn start_process(&self) -> Child {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["mgbd_process", "--exact", "--nocapture", "--test-threads=1"])
            .env("MGB_TEST_MGBD", self.folder())
            // As an administrator may have it.
            .env("CUDA_MPS_PROTOCOL_VERSION", "3")
            .spawn()
            .unwrap();
        wait_for("mgbd to answer", || {
            Client::observe(&self.daemon.socket()).is_ok()
        });
        child
    }

    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder().join("clients/mps/calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|line| line.starts_with(call)).count()
    }

    pub fn mps_pid(&self) -> Option<u32> {
        let pid = fs::read_to_string(self.folder().join("clients/mps/nvidia-cuda-mps-control.pid"));
        pid.ok()?.trim().parse().ok()
    }

    pub fn mps_runs(&self) -> bool {
        self.mps_pid().is_some_and(alive)
    }

    pub fn kill_mps(&self) {
        let pid = Pid::from_raw(self.mps_pid().expect("an MPS") as i32).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// Puts a script in the place of MPS's control program.
    pub fn install(&self, control: &str) {
        let path = self.folder().join("nvidia-cuda-mps-control");
        let aside = path.with_extension("new");
        fs::write(&aside, control).unwrap();
        fs::set_permissions(&aside, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&aside, &path).unwrap();
    }

    pub fn pipe(&self) -> Option<String> {
        Client::observe(&self.daemon.socket())
            .unwrap()
            .hello()
            .mps_pipe
            .clone()
    }

    /// The holders that run for this node.
    pub fn holders(&self) -> Vec<u32> {
        holders(&self.daemon.socket())
    }

    /// Files of the driver that the holder has.
    pub fn files_held(&self) -> usize {
        let count = |pid: &u32| {
            let files = fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten()
                .flatten();
            files
                .filter(|file| fs::read_link(file.path()).is_ok_and(|to| to == Path::new(DRIVER_FILE)))
                .count()
        };
        self.holders().iter().map(count).sum()
    }

    pub fn check_over(&self) {
        wait_for("MPS to end", || !self.mps_runs());
        wait_for("the holder to end", || self.holders().is_empty());
        assert_eq!(
            (self.count("start"), self.count("quit")),
            (1, 1),
            "{:?}",
            self.calls()
        );
    }
}
