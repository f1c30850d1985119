//! Memory for other processes: `cuIpcGetMemHandle` and `cuIpcOpenMemHandle`.
//!
//! The driver gives such handles for its own allocations only, so the front has its own kind for blocks of
//! the arena. Its memory is not swapped from the first handle on. Who opens the handle asks the owner for a
//! descriptor, at a socket that a thread of the owner's serves for its own user. A handle names the memory, not
//! only its addresses, which the owner may have given to other memory since.

use std::ffi::{c_int, c_uint};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use mgb_core::arena::extent_of;
use mgb_core::gate;
use mgb_core::notice;
use parking_lot::Mutex;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::calls::{Code, driver};
use crate::native::{IpcHandle, own};
use crate::{allocations, frees};

/// What the front's own handles begin with.
const MAGIC: u64 = u64::from_le_bytes(*b"mgb-ipc\x02");
/// How long to wait for the owner.
const OWNER_TIMEOUT: Duration = Duration::from_secs(10);
const BACKLOG: i32 = 64;

/// The name of a process's socket: nobody guesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner([u64; 2]);

impl Owner {
    fn address(self) -> rustix::io::Result<SocketAddrUnix> {
        SocketAddrUnix::new_abstract_name(format!("mgb-ipc-{:016x}{:016x}", self.0[0], self.0[1]).as_bytes())
    }
}

/// What a handle says: the owner, the extent, its memory's number, and where in it the block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HandleContent {
    owner: Owner,
    start: u64,
    number: u64,
    length: u64,
    offset: u64,
}

impl HandleContent {
    fn encode(self) -> IpcHandle {
        let Owner([first, second]) = self.owner;
        let extent = [self.start, self.length, self.offset, self.number];
        IpcHandle([
            MAGIC, first, second, extent[0], extent[1], extent[2], extent[3], 0,
        ])
    }

    fn decode(handle: &IpcHandle) -> Option<HandleContent> {
        let [magic, first, second, start, length, offset, number, _] = handle.0;
        (magic == MAGIC && offset < length).then_some(HandleContent {
            owner: Owner([first, second]),
            start,
            number,
            length,
            offset,
        })
    }
}

/// Another process's extent, mapped here.
struct Opened {
    owner: Owner,
    start: u64,
    number: u64,
    base: u64,
    length: u64,
    device: c_int,
    /// How often it is open.
    times: u32,
}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// This process's socket, which a thread serves from here on. `None`: there is none.
fn owner() -> Option<Owner> {
    static OWNER: OnceLock<Option<Owner>> = OnceLock::new();
    *OWNER.get_or_init(|| {
        let mut words = [0u64; 2];
        // SAFETY: as many bytes as are written.
        let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), size_of_val(&words), 0) };
        if got != size_of_val(&words) as isize {
            return None;
        }
        let owner = Owner(words);
        match listen(owner) {
            Ok(socket) => {
                let server = std::thread::Builder::new().name("mgb-ipc".to_owned());
                server.spawn(move || serve(&socket)).ok().map(|_| owner)
            }
            Err(error) => {
                notice::once(
                    "ipc",
                    format_args!("failed to share device memory with other processes: {error}"),
                );
                None
            }
        }
    })
}

fn socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

fn listen(owner: Owner) -> rustix::io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::bind(&socket, &owner.address()?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn serve(socket: &OwnedFd) {
    loop {
        let Ok(guest) = rustix::net::accept_with(socket, SocketFlags::CLOEXEC) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let _ = set_socket_timeout(&guest, Timeout::Recv, Some(OWNER_TIMEOUT));
        let _ = answer(&guest);
    }
}

/// Sends a descriptor of the extent that the guest names.
fn answer(guest: &OwnedFd) -> rustix::io::Result<()> {
    let own = rustix::process::geteuid();
    if socket_peercred(guest)?.uid != own {
        return Ok(());
    }
    let mut asked = [[0; 8]; 2];
    if rustix::net::recv(guest, asked.as_flattened_mut(), RecvFlags::empty())?.0 != size_of_val(&asked) {
        return Ok(());
    }
    let [start, number] = asked.map(u64::from_le_bytes);
    let file = allocations::lock().shared_file(start, number);
    let Some(file) = file else { return Ok(()) };
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(guest, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Asks the owner for a descriptor of the extent.
fn ask(shared: &HandleContent) -> rustix::io::Result<Option<OwnedFd>> {
    let socket = socket()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(OWNER_TIMEOUT))?;
    rustix::net::connect(&socket, &shared.owner.address()?)?;
    let asked = [shared.start, shared.number].map(u64::to_le_bytes);
    rustix::net::send(&socket, asked.as_flattened(), SendFlags::NOSIGNAL)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut to = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(&socket, &mut to, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(files.next().and_then(|mut files| files.next()))
}

/// A handle to the block that the address lies in, as the driver's handles are to whole allocations. `None`: no
/// block is there.
fn share(address: u64) -> Option<Result<HandleContent, Code>> {
    let (start, _) = allocations::lock().find(address)?;
    let extent = extent_of(start);
    let Some(owner) = owner() else {
        return Some(Err(Code::INVALID_HANDLE));
    };
    // No extent is in host memory then.
    let _inside = gate::enter();
    let shared = allocations::lock()
        .share(extent)
        .map(|(length, number)| HandleContent {
            owner,
            start: extent,
            number,
            length,
            offset: start - extent,
        });
    Some(shared)
}

/// Maps what a handle stands for; the address of the block.
fn open(shared: &HandleContent) -> Result<u64, Code> {
    if owner_if_any() == Some(shared.owner) {
        return Err(Code::INVALID_CONTEXT);
    }
    let device = driver().device()?;
    let mut opened = OPENED.lock();
    let is = |opened: &&mut Opened| {
        (opened.owner, opened.start, opened.number) == (shared.owner, shared.start, shared.number)
    };
    if let Some(known) = opened.iter_mut().find(is) {
        known.times += 1;
        return Ok(known.base + shared.offset);
    }
    let file = match ask(shared) {
        Ok(Some(file)) => file,
        // The owner has ended, or freed it.
        Ok(None) | Err(_) => return Err(Code::INVALID_HANDLE),
    };
    let _inside = gate::enter();
    let handle = driver().import(file.as_raw_fd())?;
    let base = driver().reserve(shared.length, 0);
    let mapped = base.and_then(|base| {
        let mut code = driver().map(base, shared.length, handle);
        if code == Code::SUCCESS {
            code = driver().allow(base, shared.length, device);
            if code != Code::SUCCESS {
                driver().unmap(base, shared.length);
            }
        }
        if code == Code::SUCCESS {
            return Ok(base);
        }
        driver().unreserve(base, shared.length);
        Err(code)
    });
    // The mapping keeps the memory.
    driver().release(handle);
    let base = mapped?;
    opened.push(Opened {
        owner: shared.owner,
        start: shared.start,
        number: shared.number,
        base,
        length: shared.length,
        device,
        times: 1,
    });
    Ok(base + shared.offset)
}

/// This process's socket, if it has shared anything.
fn owner_if_any() -> Option<Owner> {
    static KNOWN: OnceLock<Owner> = OnceLock::new();
    if let Some(owner) = KNOWN.get() {
        return Some(*owner);
    }
    if !allocations::lock().has_shared() {
        return None;
    }
    owner().inspect(|owner| {
        let _ = KNOWN.set(*owner);
    })
}

/// Unmaps what was opened at the address, unless it was opened more often, once no work uses it any more:
/// callers close what kernels under way still read, as the driver lets them. False: nothing was opened there.
fn close(address: u64) -> bool {
    let closed = {
        let mut opened = OPENED.lock();
        let holds = |opened: &Opened| address.wrapping_sub(opened.base) < opened.length;
        let Some(at) = opened.iter().position(holds) else {
            return false;
        };
        opened[at].times -= 1;
        if opened[at].times > 0 {
            return true;
        }
        opened.swap_remove(at)
    };
    let Opened {
        base, length, device, ..
    } = closed;
    let unmap = move || {
        let _inside = gate::enter();
        driver().unmap(base, length);
        driver().unreserve(base, length);
    };
    if frees::when_all_is_done(device, unmap) != Code::SUCCESS {
        // The context is broken, and nothing in it uses the memory.
        unmap();
    }
    true
}

/// # Safety
/// `pointer` is null or can be written.
unsafe fn open_to(pointer: *mut u64, handle: &IpcHandle, native: impl FnOnce() -> Code) -> Code {
    let Some(shared) = HandleContent::decode(handle).filter(|_| !pointer.is_null()) else {
        return native();
    };
    match open(&shared) {
        Ok(address) => {
            // SAFETY: not null, so it can be written: contract of this function.
            unsafe { *pointer = address };
            Code::SUCCESS
        }
        Err(code) => code,
    }
}

own! {
    fn cuIpcGetMemHandle(handle: *mut IpcHandle, address: u64) |native| {
        match share(address) {
            None => native(handle, address),
            Some(Ok(shared)) if !handle.is_null() => {
                // SAFETY: not null, so it can be written: CUDA's contract of the function.
                unsafe { *handle = shared.encode() };
                Code::SUCCESS
            }
            Some(Ok(_)) => Code::INVALID_VALUE,
            Some(Err(code)) => code,
        }
    }

    fn cuIpcOpenMemHandle(pointer: *mut u64, handle: IpcHandle, flags: c_uint) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { open_to(pointer, &handle, || native(pointer, handle, flags)) }
    }

    fn cuIpcOpenMemHandle_v2(pointer: *mut u64, handle: IpcHandle, flags: c_uint) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { open_to(pointer, &handle, || native(pointer, handle, flags)) }
    }

    fn cuIpcCloseMemHandle(address: u64) |native| {
        if close(address) { Code::SUCCESS } else { native(address) }
    }
}
