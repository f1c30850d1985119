//! A connection to `mgbd`: the handshake, and the calls.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};

use crate::cells::{Cells, Gone};
use crate::hello::{Answer, Hello};
use crate::mapping::Mapping;
use crate::published::Published;
use crate::view::{self, NodeView, ViewError};
use crate::wire::{self, CHANNEL_BYTES, MAX_ANSWER, Op, Opening, Reply, Request, Text};
use crate::{Grant, Grown, Need, Refusal, Site, TaskId, binder, visible_gpus};

/// Counts forks: a client made before the last one belongs to the parent.
pub(crate) static FORKS: AtomicU32 = AtomicU32::new(0);

/// How long `mgbd` may take for the hello. It answers at once unless it is
/// stopped in a debugger or the node is badly overloaded.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection. Lowercase fragments: they follow "mgb: ".
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens.
    #[error("no mgbd at {0}")]
    NotRunning(PathBuf),
    /// The folder or the socket belongs to somebody else.
    #[error("no permission on mgbd's socket {0}; start an mgbd of your own, or set MGB_SOCKET")]
    Denied(PathBuf),
    /// It speaks another version.
    #[error("mgbd speaks version {theirs} of the protocol, this program {ours}; use one version of both")]
    Version {
        /// Its version.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// It turned the client away.
    #[error("mgbd turned this process away: {0}")]
    Refused(String),
    /// What listens there is no `mgbd`, or it does not answer.
    #[error("what listens at {0} did not answer as mgbd does: {1}")]
    NoHello(PathBuf, String),
    /// A system call failed.
    #[error("failed to {what} for mgbd at {path}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why it failed.
        error: Errno,
    },
}

/// What a beginning task asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct BeginRequest<'a> {
    /// What it needs.
    pub need: Need,
    /// The static task it is, if it is one.
    pub site: Option<Site<'a>>,
    /// It must be this GPU (index into [`Hello::gpus`]).
    pub gpu: Option<u32>,
    /// The process is the task: its room stays until the process dies, also
    /// when it execs another program.
    pub whole_process: bool,
}

/// A connection to `mgbd`. All calls may come from any thread.
pub struct Client {
    cells: Cells,
    hello: Hello,
    /// GPUs that `CUDA_VISIBLE_DEVICES` leaves this process, by index.
    visible: u64,
    next_task: AtomicU64,
    forks: u32,
}

impl Client {
    /// Connects to the `mgbd` that listens at `path`, as one more client of it.
    pub fn connect(path: &Path) -> Result<Client, ConnectError> {
        Client::open(path, 0)
    }

    /// Connects only to look: [`Client::hello`] and [`Client::status`].
    pub fn observe(path: &Path) -> Result<Client, ConnectError> {
        Client::open(path, wire::CAP_OBSERVER)
    }

    fn open(path: &Path, caps: u64) -> Result<Client, ConnectError> {
        let failed = |what| {
            move |error| ConnectError::System {
                what,
                path: path.to_owned(),
                error,
            }
        };
        let socket = connect_socket(path)?;
        let memory = rustix::fs::memfd_create("mgb-channel", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(failed("make the channel"))?;
        rustix::fs::ftruncate(&memory, CHANNEL_BYTES as u64).map_err(failed("size the channel"))?;
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(failed("seal the channel"))?;
        let mapping = Mapping::new(&memory, CHANNEL_BYTES, true).map_err(failed("map the channel"))?;
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(failed("make the doorbell"))?;
        send_opening(&socket, caps, &memory, &doorbell)
            .map_err(|error| ConnectError::NoHello(path.to_owned(), error.to_string()))?;
        let hello = receive_hello(&socket, path)?;
        let cells = Cells::new(mapping, doorbell, socket);
        let channel = cells.channel();
        channel.magic.store(wire::MAGIC, Ordering::Relaxed);
        channel.version.store(u64::from(wire::VERSION), Ordering::Relaxed);
        Ok(Client {
            visible: visible_mask(&hello),
            cells,
            hello,
            next_task: AtomicU64::new(1),
            forks: FORKS.load(Ordering::Acquire),
        })
    }

    /// What `mgbd` said about itself and the node.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Whether `mgbd` is still there, and this is still the process that
    /// connected.
    pub fn is_connected(&self) -> bool {
        !self.forked() && !self.cells.gone()
    }

    fn forked(&self) -> bool {
        FORKS.load(Ordering::Acquire) != self.forks
    }

    /// A task identity that was not used yet.
    pub(crate) fn new_task(&self) -> TaskId {
        TaskId(self.next_task.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks for a GPU and room for a new task. Blocks until it is granted or
    /// refused. May call [`crate::Binder::swap_out`] while it waits, so the
    /// caller holds no lock which that needs.
    pub fn begin(&self, request: &BeginRequest<'_>) -> Result<Grant, Refusal> {
        let start = Instant::now();
        let task = self.new_task();
        let gpus = match request.gpu {
            Some(gpu) => 1u64.checked_shl(gpu).unwrap_or(0) & self.visible,
            None => self.visible,
        };
        let label = match request.site {
            Some(site) => Text::new(&format!("{}:{}", site.module, site.function)),
            None => Text::new(&program_name()),
        };
        let message = Request {
            op: Op::Begin,
            flags: if request.whole_process {
                wire::WHOLE_PROCESS
            } else {
                0
            },
            task: task.raw(),
            thread: thread(),
            site: request.site.map_or(0, |site| site.id),
            gpus,
            bytes: request.need.reserved_bytes(),
            need: request.need,
            label,
        };
        match self.ask(message)? {
            Reply::Granted { gpu, reserved } if (gpu as usize) < self.hello.gpus.len() => Ok(Grant {
                task,
                gpu,
                reserved_bytes: reserved,
                waited: start.elapsed(),
            }),
            reply => Err(refusal(reply)),
        }
    }

    /// Asks for `more_bytes` on top of the task's reservation. Blocks; see
    /// [`Client::begin`] for what it may call.
    pub fn grow(&self, task: TaskId, more_bytes: u64) -> Result<Grown, Refusal> {
        match self.ask(self.plain(Op::Grow, task, more_bytes))? {
            Reply::Granted { reserved, .. } => Ok(Grown::Granted {
                reserved_bytes: reserved,
            }),
            Reply::SwapOut { .. } => Ok(Grown::SwapOut),
            reply => Err(refusal(reply)),
        }
    }

    /// The task's memory was copied to the host and freed on the GPU: `freed`
    /// bytes of its reservation are given back.
    pub fn swapped(&self, task: TaskId, freed: u64) {
        let _ = self.ask(self.plain(Op::Swapped, task, freed));
    }

    /// `bytes` of the task's reservation are not needed any more. They must be
    /// unmapped already.
    pub fn give_back(&self, task: TaskId, bytes: u64) {
        let _ = self.ask(self.plain(Op::GiveBack, task, bytes));
    }

    /// The task is over: its warps and the reservation beyond `kept_bytes` go
    /// back. What is kept is still mapped, and may be given back later with
    /// [`Client::give_back`] or [`Client::swapped`]. Memory beyond it must be unmapped
    /// already.
    pub fn end(&self, task: TaskId, kept_bytes: u64) {
        let _ = self.ask(self.plain(Op::End, task, kept_bytes));
    }

    /// Where the process says what it maps and launches.
    pub fn published(&self) -> &Published {
        Published::new(&self.cells.channel().published)
    }

    /// The node as `mgbd` sees it now.
    pub fn status(&self) -> Result<NodeView, ViewError> {
        let name = self.hello.view.as_deref().unwrap_or("");
        view::read(name)
    }

    fn plain(&self, op: Op, task: TaskId, bytes: u64) -> Request {
        Request {
            op,
            flags: 0,
            task: task.raw(),
            thread: thread(),
            site: 0,
            gpus: self.visible,
            bytes,
            need: Need::default(),
            label: Text::default(),
        }
    }

    /// Calls until there is an answer for the caller: a request to swap other
    /// tasks out is carried out here, and the call repeated.
    fn ask(&self, request: Request) -> Result<Reply, Refusal> {
        loop {
            if self.forked() {
                return Err(Refusal::Disconnected);
            }
            match self.cells.call(&request) {
                Ok(Some(Reply::SwapOthers { gpu })) => {
                    // Whether it worked, mgbd sees by what was reported.
                    if let Some(binder) = binder() {
                        binder.swap_out(gpu);
                    }
                }
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => return Err(Refusal::Protocol("unknown answer".to_owned())),
                Err(Gone) => return Err(Refusal::Disconnected),
            }
        }
    }
}

fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::NeverFits { wanted, largest } => Refusal::NeverFits { wanted, largest },
        Reply::NoGpu => Refusal::NoGpu,
        Reply::Deadlock => Refusal::Deadlock,
        Reply::Bad(text) => Refusal::Protocol(text.to_text()),
        other => Refusal::Protocol(format!("unexpected answer {other:?}")),
    }
}

fn thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn program_name() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_default()
}

/// The GPUs of the hello that this process's `CUDA_VISIBLE_DEVICES` leaves it.
fn visible_mask(hello: &Hello) -> u64 {
    let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let node = hello
        .gpus
        .iter()
        .map(|gpu| gpu.node_index as usize + 1)
        .max()
        .unwrap_or(0);
    let mut uuids = vec![""; node];
    for gpu in &hello.gpus {
        uuids[gpu.node_index as usize] = &gpu.uuid;
    }
    let Ok(visible) = visible_gpus(list.as_deref(), &uuids) else {
        return 0;
    };
    hello
        .gpus
        .iter()
        .filter(|gpu| visible.contains(&(gpu.node_index as usize)))
        .fold(0, |mask, gpu| mask | 1u64.checked_shl(gpu.index).unwrap_or(0))
}

fn connect_socket(path: &Path) -> Result<OwnedFd, ConnectError> {
    let failed = |what| {
        move |error| ConnectError::System {
            what,
            path: path.to_owned(),
            error,
        }
    };
    let address = SocketAddrUnix::new(path).map_err(failed("name the socket"))?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(failed("make a socket"))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => {
            return Err(ConnectError::NotRunning(path.to_owned()));
        }
        Err(Errno::ACCESS | Errno::PERM) => return Err(ConnectError::Denied(path.to_owned())),
        Err(error) => return Err(failed("connect")(error)),
    }
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(HELLO_TIMEOUT))
        .map_err(failed("set a timeout"))?;
    Ok(socket)
}

fn send_opening(socket: &OwnedFd, caps: u64, memory: &OwnedFd, doorbell: &OwnedFd) -> rustix::io::Result<()> {
    let descriptors = [memory.as_fd(), doorbell.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let opening = Opening::new(caps).encode();
    rustix::net::sendmsg(
        socket,
        &[IoSlice::new(&opening)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

fn receive_hello(socket: &OwnedFd, path: &Path) -> Result<Hello, ConnectError> {
    let strange = |why: String| ConnectError::NoHello(path.to_owned(), why);
    let mut buffer = vec![0; MAX_ANSWER];
    let mut none = rustix::net::RecvAncillaryBuffer::default();
    let received = loop {
        match rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut none,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                return Err(strange(format!("no answer in {} s", HELLO_TIMEOUT.as_secs())));
            }
            Err(error) => return Err(strange(error.to_string())),
            Ok(message) => break message.bytes,
        }
    };
    if received == 0 {
        return Err(strange("it hung up".to_owned()));
    }
    match serde_json::from_slice(&buffer[..received]) {
        Ok(Answer::Hello(hello)) if hello.version == wire::VERSION => Ok(hello),
        Ok(Answer::Hello(Hello { version, .. })) => Err(ConnectError::Version {
            theirs: version,
            ours: wire::VERSION,
        }),
        Ok(Answer::Refused { version, .. }) if version != wire::VERSION => Err(ConnectError::Version {
            theirs: version,
            ours: wire::VERSION,
        }),
        Ok(Answer::Refused { reason, .. }) => Err(ConnectError::Refused(reason)),
        Err(error) => Err(strange(error.to_string())),
    }
}
