//! What hostile processes do, over and over until they are killed: floods. What fills `mgbd` once and stays
//! is in [`super::hoards`].

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mgb_probe::mapping::SharedLayout;
use mgb_probe::wire::{
    ANSWERED, CAP_OBSERVER, CELLS, CHANNEL_BYTES, IDLE, KEEP, MOST_KEPT, Op, Opening, Request,
};

use super::hoards;
use super::serve::DRIVER_FILE;
use crate::raw::{Intruder, SEALS, bell, connect, memory, request, slow_to_close, try_send};

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackKind {
    /// Takes as much of a core as there is, and says nothing to `mgbd`.
    Burn,
    /// Connects and says nothing, as often as it can.
    Connections,
    /// Connects and says something wrong.
    Messages,
    /// Rings without a request.
    Doorbells,
    /// Posts valid requests in all cells at once.
    Requests,
    /// Gives orders as a person does.
    Orders,
    /// Has random words written in its channel while it posts valid requests.
    Garbage,
    /// Has files kept, as many as a message takes.
    Files,
    /// Sends sockets whose close waits for somebody.
    Lingering,
    /// Processes that are stopped with requests under way, and killed.
    Stopped,
    /// Processes that end while a child of theirs has their channel.
    Forks,
    /// A process that posts in the channel of one that is gone.
    Passed,
    /// Says hello and asks, and never looks at an answer.
    NeverReads,
    /// Has as many tasks as it is granted.
    Tasks,
    /// Clients that each wait for a growth that cannot be.
    Growths,
    /// Clients that each wait in all cells.
    Queue,
    /// A thousand clients that ask for nothing.
    Crowd,
}

impl AttackKind {
    pub const ALL: [AttackKind; 17] = [
        AttackKind::Burn,
        AttackKind::Connections,
        AttackKind::Messages,
        AttackKind::Doorbells,
        AttackKind::Requests,
        AttackKind::Orders,
        AttackKind::Garbage,
        AttackKind::Files,
        AttackKind::Lingering,
        AttackKind::Stopped,
        AttackKind::Forks,
        AttackKind::Passed,
        AttackKind::NeverReads,
        AttackKind::Tasks,
        AttackKind::Growths,
        AttackKind::Queue,
        AttackKind::Crowd,
    ];

    pub fn named(name: &str) -> AttackKind {
        let named = |kind: &AttackKind| kind.to_string() == name;
        AttackKind::ALL.into_iter().find(named).expect("a kind")
    }

    /// Whether `mgbd` can tell that no honest client does this.
    pub fn offends(self) -> bool {
        matches!(
            self,
            AttackKind::Messages | AttackKind::Doorbells | AttackKind::Garbage
        )
    }

    pub fn play(self, path: &Path) {
        match self {
            AttackKind::Burn => begun(|| std::hint::black_box(())),
            AttackKind::Connections => connections(path),
            AttackKind::Messages => messages(path),
            AttackKind::Doorbells => doorbells(path),
            AttackKind::Requests => requests(path, 0, |at, odd| {
                let op = if odd { Op::End } else { Op::Begin };
                request(op, at as u64 + 1, 1)
            }),
            AttackKind::Orders => requests(path, CAP_OBSERVER, |_, odd| {
                let op = if odd { Op::Resume } else { Op::Suspend };
                request(op, u64::from(std::process::id()), 0)
            }),
            AttackKind::Garbage => garbage(path),
            AttackKind::Files => files(path),
            AttackKind::Lingering => lingering(path),
            AttackKind::Stopped => stopped(path),
            AttackKind::Forks => forks(path),
            AttackKind::Passed => passed(path),
            AttackKind::NeverReads => hoards::never_reads(path),
            AttackKind::Tasks => hoards::tasks(path),
            AttackKind::Growths => hoards::growths(path),
            AttackKind::Queue => hoards::queue(path),
            AttackKind::Crowd => hoards::crowd(path),
        }
    }
}

impl fmt::Display for AttackKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Says that it has begun after it has done it once, and goes on for ever.
pub fn begun(mut attack: impl FnMut()) {
    attack();
    ready();
    loop {
        attack();
    }
}

pub fn ready() {
    println!("ready");
    std::io::stdout().flush().expect("somebody reads");
}

/// One that is let in, once there is a place.
pub fn intrude(path: &Path, caps: u64) -> Intruder {
    loop {
        if let Some(intruder) = Intruder::open(path, caps) {
            return intruder;
        }
    }
}

fn connections(path: &Path) {
    let mut open = VecDeque::new();
    begun(|| {
        open.extend(connect(path));
        if open.len() > 100 {
            open.pop_front();
        }
    });
}

fn messages(path: &Path) {
    let good = Opening::new(0, 0).encode();
    let oversized = vec![b'M'; 64 << 10];
    let (right, doorbell) = (memory(CHANNEL_BYTES, SEALS), bell());
    let both = [right.as_fd(), doorbell.as_fd()];
    let many = vec![doorbell.as_fd(); MOST_KEPT + 8];
    let mut turn = 0;
    begun(|| {
        let Ok(socket) = connect(path) else { return };
        turn += 1;
        let _ = match turn % 6 {
            0 => try_send(&socket, &good[..turn / 6 % 40], &both),
            1 => try_send(&socket, &oversized, &both),
            2 => try_send(&socket, &good, &[]),
            3 => try_send(&socket, &good, &many),
            4 => try_send(&socket, &good, &[both[1], both[0]]),
            // Let in, and then wrong.
            _ => try_send(&socket, &good, &both).and_then(|_| try_send(&socket, &oversized, &many)),
        };
    });
}

fn doorbells(path: &Path) {
    let mut intruder = intrude(path, 0);
    begun(|| {
        for _ in 0..64 {
            intruder.ring();
        }
        if intruder.is_gone() {
            intruder = intrude(path, 0);
        }
    });
}

/// Posts in every cell that is not under way, each time the other of two requests, and rings once.
fn requests(path: &Path, caps: u64, which: impl Fn(usize, bool) -> Request) {
    let mut intruder = intrude(path, caps);
    let mut odd = u64::MAX;
    begun(|| {
        let mut any = false;
        for at in 0..CELLS {
            if matches!(
                intruder.channel().cells[at].state.load(Ordering::Acquire),
                IDLE | ANSWERED
            ) {
                odd ^= 1 << at;
                intruder.fill(at, &which(at, odd & (1 << at) != 0));
                any = true;
            }
        }
        if any {
            intruder.ring();
        } else if intruder.is_gone() {
            intruder = intrude(path, caps);
        }
    });
}

/// The channel as plain words.
#[repr(C)]
struct ChannelWords([AtomicU64; CHANNEL_BYTES / 8]);

// SAFETY: it consists of atomics only, and zeros are a valid value of them.
unsafe impl SharedLayout for ChannelWords {}

fn garbage(path: &Path) {
    let mut seed = 99u64;
    let mut next = move || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        seed >> 8
    };
    begun(|| {
        let intruder = intrude(path, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let words: &ChannelWords = intruder.mapping.shared().expect("it is mapped whole");
                for _ in 0..2000 {
                    words.0[next() as usize % words.0.len()].store(next(), Ordering::Relaxed);
                }
            });
            for round in 0..20 {
                for at in 0..CELLS {
                    intruder.fill(at, &request(Op::Begin, round * 64 + at as u64 + 1, 1));
                }
                intruder.ring();
            }
        });
    });
}

fn files(path: &Path) {
    let driver = std::fs::File::open(DRIVER_FILE).expect("the driver's file");
    let other = bell();
    let (right, wrong) = (vec![driver.as_fd(); MOST_KEPT], vec![other.as_fd(); MOST_KEPT]);
    let mut intruder = intrude(path, 0);
    begun(|| {
        for files in [&right, &wrong] {
            if try_send(&intruder.socket, KEEP, files).is_err() {
                intruder = intrude(path, 0);
            }
        }
    });
}

/// Each way by which `mgbd` comes to close one: before and after it is let in, taken and not taken.
fn lingering(path: &Path) {
    let mut others = VecDeque::new();
    let mut turn = 0;
    begun(|| {
        let (socket, other) = slow_to_close();
        others.push_back(other);
        if others.len() > 50 {
            others.pop_front();
        }
        turn += 1;
        if turn % 4 < 2 {
            let Ok(guest) = connect(path) else { return };
            let opening = Opening::new(0, 0).encode();
            let _ = try_send(&guest, &opening, &[socket.as_fd()]);
            if turn % 4 == 1 {
                let _ = try_send(&guest, &opening, &[socket.as_fd()]);
            }
        } else {
            let intruder = intrude(path, 0);
            let _ = try_send(&intruder.socket, KEEP, &[socket.as_fd()]);
            if turn % 4 == 3 {
                let _ = try_send(&intruder.socket, b"MGBmore", &[socket.as_fd()]);
                let _ = try_send(&intruder.socket, b"MGBmore", &[socket.as_fd()]);
            }
        }
        drop(socket);
        std::thread::sleep(Duration::from_millis(5));
    });
}

/// Does this in a forked child, which ends with it.
fn in_child(what: impl FnOnce()) -> libc::pid_t {
    // SAFETY: this process's other thread only waits for the end of the input; the child needs none of it.
    match unsafe { libc::fork() } {
        0 => {
            what();
            // SAFETY: ends the child without running the rest of its parent's program.
            unsafe { libc::_exit(0) }
        }
        child => child,
    }
}

fn wait(child: libc::pid_t) {
    // SAFETY: waits for a child of this process.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

fn stopped(path: &Path) {
    let mut children = VecDeque::new();
    begun(|| {
        children.push_back(in_child(|| {
            let intruder = intrude(path, 0);
            for at in 0..CELLS {
                intruder.fill(at, &request(Op::Begin, at as u64 + 1, 1));
                if at % 20 == 0 {
                    intruder.ring();
                }
            }
            // SAFETY: stops this process, which is the child.
            unsafe { libc::raise(libc::SIGSTOP) };
        }));
        std::thread::sleep(Duration::from_millis(5));
        if children.len() > 16
            && let Some(oldest) = children.pop_front()
        {
            // SAFETY: ends a child that was not waited for yet.
            unsafe { libc::kill(oldest, libc::SIGKILL) };
            wait(oldest);
        }
    });
}

fn forks(path: &Path) {
    begun(|| {
        wait(in_child(|| {
            let intruder = intrude(path, 0);
            intruder.post(0, &request(Op::Begin, 1, 1));
            in_child(|| {
                for at in 1..CELLS {
                    intruder.post(at, &request(Op::Begin, at as u64 + 1, 1));
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
        }));
        std::thread::sleep(Duration::from_millis(5));
    });
}

fn passed(path: &Path) {
    use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketType};
    use rustix::net::{SocketFlags, socketpair};
    begun(|| {
        let flags = SocketFlags::CLOEXEC;
        let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("two");
        let child = in_child(|| {
            let intruder = intrude(path, 0);
            let all = [&intruder.socket, &intruder.doorbell, &intruder.memory].map(AsFd::as_fd);
            let _ = try_send(&there, b"all", &all);
            std::thread::sleep(Duration::from_millis(3));
        });
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 8];
        let mut parts = [std::io::IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(&here, &mut parts, &mut control, RecvFlags::empty()).expect("a message");
        let files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let files: Vec<OwnedFd> = files.flatten().collect();
        let [socket, doorbell, memory] = files.try_into().expect("three");
        let intruder = Intruder::again(socket, doorbell, memory);
        for turn in 0..500 {
            let cell = turn % CELLS;
            if intruder.channel().cells[cell].state.load(Ordering::Acquire) != mgb_probe::wire::POSTED {
                intruder.post(cell, &request(Op::Begin, turn as u64 + 1, 1));
            }
            if turn == 250 {
                wait(child);
            }
        }
    });
}
