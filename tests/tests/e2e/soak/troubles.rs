//! What else goes wrong on a node for a while: its mgbd lacks what it usually has.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::names;

/// How long one lasts: longer than mgbd waits for NVML or a name before it goes on without.
const LENGTH: Duration = Duration::from_millis(700);
/// The folder of the node that its disk of its own is mounted at.
const DISK: &str = "disk";

/// What an mgbd lacks.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// NVML does not answer.
    Nvml,
    /// Neither does the name service.
    Names,
    /// It can open no further file.
    Descriptors,
    /// The disk with its socket takes not one more byte.
    Disk,
}

const ALL: [Trouble; 4] = [Trouble::Nvml, Trouble::Names, Trouble::Descriptors, Trouble::Disk];

/// The troubles of one node, one after another.
pub(super) struct Troubles {
    nvml: PathBuf,
    names: PathBuf,
    fill: Option<PathBuf>,
    begun: usize,
    ends: Option<JoinHandle<()>>,
}

impl Troubles {
    /// Prepares a node without an mgbd for them: what is returned starts its mgbd.
    pub(super) fn prepare(node: &mut PrivateNode) -> (Troubles, Command) {
        let fill = has_own_disk(node).then(|| {
            node.move_socket(DISK);
            node.folder().join(DISK).join("fill")
        });
        let troubles = Troubles {
            nvml: node.folder().join("nvml-is-silent"),
            names: node.folder().join("names-are-silent"),
            fill,
            begun: 0,
            ends: None,
        };
        // With a group in them mgbd asks for names.
        let group = rustix::process::getegid().as_raw();
        let quotas = node.write("quotas.toml", &format!("[groups.{group}]\ntasks = 10000\n"));
        let quotas = quotas.to_str().expect("paths of tests are UTF-8");
        let mut mgbd = node.mgbd(&["--move-every", "5", "--quotas", quotas]);
        mgbd.env("LD_PRELOAD", names::library(node))
            .env("TEST_SLEEPS", &troubles.names)
            .env("SOFTGPU_FAIL", format!("nvml@file={}", troubles.nvml.display()));
        (troubles, mgbd)
    }

    /// Begins the next one, once the last one is over. It ends by itself.
    pub(super) fn begin(&mut self, mgbd: u32) {
        self.end();
        let trouble = ALL[self.begun % ALL.len()];
        self.begun += 1;
        self.ends = match trouble {
            Trouble::Nvml => Some(while_there(&self.nvml)),
            Trouble::Names => Some(while_there(&self.names)),
            Trouble::Descriptors => without_descriptors(mgbd),
            Trouble::Disk => self.fill.as_ref().map(|file| {
                let mut fill = File::create(file).expect("there is room for its name");
                while fill.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
                ends_by_removal(file)
            }),
        };
    }

    /// Waits for the end of the last one.
    pub(super) fn end(&mut self) {
        if let Some(ends) = self.ends.take() {
            ends.join().expect("it ends");
        }
    }

    pub(super) fn count(&self) -> usize {
        self.begun
    }
}

/// A small disk for the node, which this thread and what it starts see alone; whether there is one.
fn has_own_disk(node: &PrivateNode) -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("its disk is never full: only root can mount one");
        return false;
    }
    // SAFETY: no descriptor is closed or left to others, since FILES is not among the flags.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.expect("root may have mounts of its own");
    let disk = node.folder().join(DISK);
    fs::create_dir(&disk).expect("the folder is new");
    run(Command::new("mount").args(["--make-rprivate", "/"])).success();
    let mut mount = Command::new("mount");
    run(mount
        .args(["-t", "tmpfs", "-o", "size=256k,mode=755", "none"])
        .arg(disk))
    .success();
    true
}

fn while_there(file: &Path) -> JoinHandle<()> {
    File::create(file).expect("there is room for it");
    ends_by_removal(file)
}

/// The file is opened as its folder is seen here: a thread has the mounts of the one that starts it.
fn ends_by_removal(file: &Path) -> JoinHandle<()> {
    let file = file.to_owned();
    std::thread::spawn(move || {
        std::thread::sleep(LENGTH);
        fs::remove_file(file).expect("it is there");
    })
}

/// Takes the right to open further files from an mgbd; `None`: it has ended.
fn without_descriptors(mgbd: u32) -> Option<JoinHandle<()>> {
    let usual = getrlimit(Resource::Nofile);
    let pid = Pid::from_raw(mgbd.try_into().ok()?);
    let none = Rlimit {
        current: Some(0),
        ..usual
    };
    let before = prlimit(pid, Resource::Nofile, none).ok()?;
    Some(std::thread::spawn(move || {
        std::thread::sleep(LENGTH);
        // It may have ended since; whoever has its number then has as much as before.
        let _ = prlimit(pid, Resource::Nofile, before);
    }))
}
