//! What one thread of a seed has, as the model knows it, and the lines that say what was called and answered.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard};

use mgb_tests::generate::draw::Draw;

use crate::driver::{ResultCode, SUCCESS, driver};
use crate::graphs::{TestGraph, TestGraphExec};
use crate::mapped::{MappedRange, TestPhysical};
use crate::memory::MemoryObject;
use crate::peer::Peer;
use crate::pools::TestPool;
use crate::streams::{StreamEvent, TestStream};

/// Most bytes that the objects of one thread have on GPUs.
const MAX_BYTES: u64 = 24 << 20;
/// What the driver hands out at a time.
pub const GRANULE: u64 = 2 << 20;

thread_local! {
    /// The device whose context is current.
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A capture that goes on, of any thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Capturing {
    /// The stream's handle.
    pub stream: usize,
    /// `CUstreamCaptureMode`.
    pub mode: u32,
    /// The thread that began it.
    pub thread: usize,
    /// The stream's device.
    pub device: usize,
    /// The legacy stream and this one wait for each other.
    pub blocking: bool,
}

/// What all threads of a seed have in common.
#[derive(Default)]
pub struct SeedShared {
    /// Captures that go on.
    pub captures: Mutex<Vec<Capturing>>,
    /// The other process.
    pub peer: Mutex<Option<Peer>>,
    /// Contexts, by device.
    pub contexts: Mutex<Vec<usize>>,
}

impl SeedShared {
    /// The captures that go on.
    pub fn captures(&self) -> MutexGuard<'_, Vec<Capturing>> {
        self.captures.lock().expect("no thread panics")
    }
}

/// One thread's objects.
pub struct ThreadWorld {
    /// The seed that the program is drawn from.
    pub seed: u64,
    /// Where decisions come from.
    pub draw: Draw,
    /// The thread that makes the step.
    pub thread: usize,
    /// The number of the step.
    pub step: usize,
    /// Other threads run meanwhile.
    pub is_beside: bool,
    /// How many devices there are.
    pub devices: usize,
    /// What all threads share.
    pub shared: Arc<SeedShared>,
    /// Memory that the GPU can use.
    pub memory: Vec<MemoryObject>,
    /// Pools that this thread made.
    pub pools: Vec<TestPool>,
    /// The streams there are.
    pub streams: Vec<TestStream>,
    /// The events there are.
    pub events: Vec<StreamEvent>,
    /// The graphs there are.
    pub graphs: Vec<TestGraph>,
    /// The executable graphs there are.
    pub execs: Vec<TestGraphExec>,
    /// Addresses, with what is mapped there.
    pub ranges: Vec<MappedRange>,
    /// The physical memory there is.
    pub physical: Vec<TestPhysical>,
    /// Arrays: number, handle, width and height.
    pub arrays: Vec<(usize, usize, [usize; 2], usize)>,
    /// Host memory: address and bytes.
    pub hosts: Vec<(u64, usize)>,
    /// What was called and answered.
    pub lines: Vec<(usize, String)>,
    /// What was answered wrongly.
    pub faults: usize,
    last: usize,
}

impl ThreadWorld {
    /// An empty one.
    pub fn new(seed: u64, owner: usize, devices: usize, shared: Arc<SeedShared>) -> ThreadWorld {
        ThreadWorld {
            seed,
            draw: Draw::new(seed.wrapping_mul(8).wrapping_add(owner as u64 + 1)),
            thread: owner,
            step: 0,
            is_beside: false,
            devices,
            shared,
            memory: Vec::new(),
            pools: Vec::new(),
            streams: Vec::new(),
            events: Vec::new(),
            graphs: Vec::new(),
            execs: Vec::new(),
            ranges: Vec::new(),
            physical: Vec::new(),
            arrays: Vec::new(),
            hosts: Vec::new(),
            lines: Vec::new(),
            faults: 0,
            last: owner * 1000,
        }
    }

    /// A number that no other object has.
    pub fn number(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    /// Notes a call whose answer only another run knows.
    pub fn note(&mut self, call: &str, code: ResultCode) -> bool {
        let line = format!(
            "seed {} step {} thread {}: {call} -> {code}",
            self.seed, self.step, self.thread
        );
        self.lines.push((self.step, line));
        code == SUCCESS
    }

    /// Notes a call whose answer the model knows, unless a capture forbids the call.
    pub fn expect(&mut self, call: &str, code: ResultCode, expected: ResultCode) -> bool {
        let is_known = self.shared.captures().is_empty();
        if is_known && code != expected {
            self.fault(call, &expected.to_string(), &code.to_string());
        }
        self.note(call, code)
    }

    /// Something is not as the model has it.
    pub fn fault(&mut self, call: &str, expected: &str, seen: &str) {
        self.faults += 1;
        let (seed, step, thread) = (self.seed, self.step, self.thread);
        let line = format!(
            "FAULT seed {seed} step {step} thread {thread}: {call}: expected {expected}, seen {seen}"
        );
        eprintln!("{line}");
        self.lines.push((self.step, line));
    }

    /// One of the devices.
    pub fn device(&mut self) -> usize {
        self.draw.below(self.devices)
    }

    /// Makes a device's context the thread's.
    pub fn on(&mut self, device: usize) {
        if CURRENT.get() == device {
            return;
        }
        let context = self.shared.contexts.lock().expect("no thread panics")[device];
        let code = driver().cuCtxSetCurrent(context);
        self.expect(&format!("cuCtxSetCurrent d{device}"), code, SUCCESS);
        CURRENT.set(device);
    }

    /// The thread's context is of no device that the model knows.
    pub fn forget_current() {
        CURRENT.set(usize::MAX);
    }

    /// Whether so many more bytes are within what a thread may have.
    pub fn has_room(&self, bytes: usize) -> bool {
        let rounded =
            |bytes: usize| (bytes as u64).next_multiple_of(if bytes < 1 << 20 { 512 } else { GRANULE });
        let memory: u64 = self.memory.iter().map(|memory| rounded(memory.bytes)).sum();
        let physical: u64 = self.physical.iter().map(|physical| physical.bytes).sum();
        let arrays: u64 = self
            .arrays
            .iter()
            .map(|(_, _, [width, height], _)| (width * height * 4) as u64)
            .sum();
        let graphs = self.graphs.iter().map(|graph| graph.bytes);
        let graphs: u64 = graphs.chain(self.execs.iter().map(|exec| exec.bytes)).sum();
        memory + physical + arrays + graphs + rounded(bytes) <= MAX_BYTES
    }

    /// The bytes of something new.
    pub fn size(&mut self) -> usize {
        match self.draw.below(10) {
            0..4 => 1 + self.draw.below(8192),
            4..6 => 1 + self.draw.below(1 << 20),
            6..9 => (1 << 20) + self.draw.below(3 << 20),
            _ => (1 + self.draw.below(3)) << 21,
        }
    }

    /// Whether a capture that goes on forbids this thread to allocate and free: natively that fails and ends the
    /// capture; MGB, as its documentation says, does it. So such calls are not drawn then.
    pub fn may_not_wait(&self) -> bool {
        let all = self.shared.captures();
        all.iter().any(|capture| match capture.mode {
            0 => true,
            1 => capture.thread == self.thread,
            _ => false,
        })
    }

    /// Whether a call that uses the legacy stream would end a capture.
    pub fn would_end_capture(&self, device: usize) -> bool {
        let all = self.shared.captures();
        all.iter()
            .any(|capture| capture.blocking && capture.device == device)
    }
}
