//! A file system that hangs on demand: FUSE without a library, with one file, which is a copy of another.
//! Only root can mount it so.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const ROOT: u64 = 1;
const PROGRAM: u64 = 2;
const EVERYBODY: u32 = u32::MAX;
const NAME: &[u8] = b"program";

/// The file system; gone when dropped, with all that waits for it.
pub struct Fuse {
    folder: tempfile::TempDir,
    state: Arc<FuseState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct FuseState {
    /// The process whose questions about the file are not answered; 0: all are; [`EVERYBODY`]: nobody's are.
    hangs_for: AtomicU32,
    /// How many of them there were.
    unanswered: AtomicU64,
    ends: AtomicBool,
}

impl Fuse {
    /// With a copy of `file`; `None`: this machine or user has no FUSE.
    pub fn new(file: &Path) -> Option<Fuse> {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let device = options.open("/dev/fuse").ok()?;
        let folder = tempfile::tempdir().unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            device.as_raw_fd()
        );
        if !mount(folder.path(), &options) {
            eprintln!("left out: only root can mount a file system that hangs");
            return None;
        }
        let state = Arc::<FuseState>::default();
        let (own, file) = (state.clone(), File::open(file).unwrap());
        let thread = std::thread::spawn(move || serve(device, &file, &own));
        Some(Fuse {
            folder,
            state,
            thread: Some(thread),
        })
    }

    /// The path of the file that the file system has.
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// From now on no thread of this process hears anything of the file.
    pub fn hang_for(&self, process: u32) {
        self.state.hangs_for.store(process, Ordering::Relaxed);
    }

    /// From now on nobody hears anything of the file.
    pub fn hang_for_all(&self) {
        self.hang_for(EVERYBODY);
    }

    /// How many questions were left unanswered.
    pub fn unanswered(&self) -> u64 {
        self.state.unanswered.load(Ordering::Relaxed)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        let path = std::ffi::CString::new(self.folder.path().as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a path that is valid for the call.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

fn mount(folder: &Path, options: &str) -> bool {
    let text = |text: &[u8]| std::ffi::CString::new(text).unwrap();
    let (name, kind) = (text(b"hangs"), text(b"fuse"));
    let (folder, options) = (
        text(folder.as_os_str().as_encoded_bytes()),
        text(options.as_bytes()),
    );
    // SAFETY: all of these are valid for the call.
    let done = unsafe {
        libc::mount(
            name.as_ptr(),
            folder.as_ptr(),
            kind.as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            options.as_ptr().cast(),
        )
    };
    done == 0
}

/// Answers until told to end; whoever waits then is told that nobody answers.
fn serve(mut device: File, file: &File, state: &FuseState) {
    let mut buffer = vec![0; (1 << 20) + (1 << 12)];
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    while !state.ends.load(Ordering::Relaxed) {
        let _ = poll(&mut [PollFd::new(&device, PollFlags::IN)], Some(&moment));
        let Ok(length) = device.read(&mut buffer) else {
            continue;
        };
        let request = FuseRequest(&buffer[..length]);
        let Some((error, body)) = answer(&request, file, state) else {
            continue;
        };
        let length = 16 + body.len() as u32;
        let mut message = length.to_le_bytes().to_vec();
        message.extend(i32::to_le_bytes(-error));
        message.extend(request.long(8).to_le_bytes());
        message.extend(body);
        let _ = device.write(&message);
    }
}

/// A request as the kernel writes it (`linux/fuse.h`).
struct FuseRequest<'a>(&'a [u8]);

impl FuseRequest<'_> {
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// Whether a thread of this process asks.
    fn is_by(&self, process: u32) -> bool {
        process == EVERYBODY
            || process != 0 && Path::new(&format!("/proc/{process}/task/{}", self.word(32))).exists()
    }
}

/// An error, or what is answered; `None`: nothing is.
fn answer(request: &FuseRequest<'_>, file: &File, state: &FuseState) -> Option<(i32, Vec<u8>)> {
    const LOOKUP: u32 = 1;
    const FORGET: u32 = 2;
    const GETATTR: u32 = 3;
    const OPEN: u32 = 14;
    const READ: u32 = 15;
    const RELEASE: u32 = 18;
    const FLUSH: u32 = 25;
    const INIT: u32 = 26;
    const OPENDIR: u32 = 27;
    const INTERRUPT: u32 = 36;
    const BATCH_FORGET: u32 = 42;
    let node = request.long(16);
    let size = file.metadata().unwrap().len();
    let zeros = |count: usize| vec![0; count];
    Some(match request.word(4) {
        INIT => {
            let mut body = Vec::new();
            for word in [7u32, 31, 1 << 17, 0, 12 | 9 << 16, 1 << 17, 1, 0] {
                body.extend(word.to_le_bytes());
            }
            body.resize(64, 0);
            (0, body)
        }
        LOOKUP if request.0[40..].strip_suffix(b"\0") == Some(NAME) => {
            let mut body = PROGRAM.to_le_bytes().to_vec();
            body.extend(zeros(32));
            body.extend(attributes(PROGRAM, size));
            (0, body)
        }
        LOOKUP => (libc::ENOENT, Vec::new()),
        // Sizes and times are asked for each time.
        GETATTR => {
            if node == PROGRAM && request.is_by(state.hangs_for.load(Ordering::Relaxed)) {
                state.unanswered.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let mut body = zeros(16);
            body.extend(attributes(node, size));
            (0, body)
        }
        OPEN | OPENDIR => (0, zeros(16)),
        READ => {
            let mut body = zeros(request.word(56) as usize);
            let count = file.read_at(&mut body, request.long(48)).unwrap();
            body.truncate(count);
            (0, body)
        }
        FLUSH if request.is_by(state.hangs_for.load(Ordering::Relaxed)) => {
            state.unanswered.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        RELEASE | FLUSH => (0, Vec::new()),
        FORGET | BATCH_FORGET | INTERRUPT => return None,
        _ => (libc::ENOSYS, Vec::new()),
    })
}

fn attributes(node: u64, size: u64) -> Vec<u8> {
    let (mode, size) = if node == ROOT {
        (libc::S_IFDIR | 0o755, 0)
    } else {
        (libc::S_IFREG | 0o755, size)
    };
    let mut all = Vec::new();
    for word in [node, size, size.div_ceil(512), 1, 1, 1] {
        all.extend(word.to_le_bytes());
    }
    for word in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0u32] {
        all.extend(word.to_le_bytes());
    }
    all
}
