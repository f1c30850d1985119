//! Another process that memory is handed to.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::driver::{INVALID_VALUE, IpcBytes, ResultCode, SUCCESS, driver};
use crate::memory::{self, MemoryKind};
use crate::world::ThreadWorld;

/// What a peer is told: open a handle to so many bytes, fill them, close them; and its answer, a code and the first
/// and last byte.
const OPEN: u8 = b'o';
const FILL: u8 = b'f';
const CLOSE: u8 = b'c';

/// The other process.
pub struct Peer {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Peer {
    /// Starts it, and waits until it has a context: where it waits for others, this process would wait for it.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start() -> Peer {
        let program = std::env::current_exe().expect("the program has a path");
        let mut command = Command::new(program);
        let mut child = command
            .arg("peer")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started again");
        let (to, from) = (
            child.stdin.take().expect("piped"),
            child.stdout.take().expect("piped"),
        );
        let mut peer = Peer { child, to, from };
        peer.from.read_exact(&mut [0]).expect("the other process begins");
        peer
    }

    fn ask(&mut self, what: u8, handle: &IpcBytes, bytes: usize, value: u8) -> (ResultCode, [u8; 2]) {
        let mut request = vec![what, value];
        request.extend((bytes as u64).to_le_bytes());
        request.extend(handle.0);
        let mut answer = [0; 6];
        let done = self
            .to
            .write_all(&request)
            .and_then(|()| self.from.read_exact(&mut answer));
        if done.is_err() {
            return (-1, [0; 2]);
        }
        let [a, b, c, d, first, last] = answer;
        (ResultCode::from_le_bytes([a, b, c, d]), [first, last])
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One step: hands an object over, which the other process reads and writes.
pub fn step(world: &mut ThreadWorld) {
    let is = |at: &usize| world.memory[*at].kind == MemoryKind::Plain;
    let all: Vec<usize> = (0..world.memory.len()).filter(is).collect();
    // Which GPU the other process has is mgbd's choice where there are several.
    if all.is_empty() || world.devices > 1 || world.would_end_capture(0) {
        return;
    }
    let at = *world.draw.of(&all);
    let object = world.memory[at].clone();
    world.on(object.device);
    let inner = world.draw.below(object.bytes) as u64;
    let mut handle = IpcBytes([0; 64]);
    let code = driver().cuIpcGetMemHandle(&mut handle, object.address + inner);
    if !world.expect(
        &format!("cuIpcGetMemHandle m{} + {inner}", object.number),
        code,
        SUCCESS,
    ) {
        return;
    }
    let shared = world.shared.clone();
    let mut peer = shared.peer.lock().expect("no thread panics");
    let peer = peer.as_mut().expect("started at first");
    let (code, seen) = peer.ask(OPEN, &handle, object.bytes, 0);
    let call = format!("cuIpcOpenMemHandle m{} elsewhere", object.number);
    if !world.expect(&call, code, SUCCESS) {
        return;
    }
    let first = if object.start.is_some() {
        object.start.map(|(_, value)| value)
    } else {
        object.fill
    };
    for (seen, expected) in seen.into_iter().zip([first, object.fill]) {
        if let Some(expected) = expected.filter(|expected| *expected != seen) {
            world.fault(&call, &expected.to_string(), &seen.to_string());
        }
    }
    let value = world.draw.below(256) as u8;
    if world.draw.one_in(2) {
        let (code, _) = peer.ask(FILL, &handle, object.bytes, value);
        if world.expect(
            &format!("cuMemsetD8 m{} {value} elsewhere", object.number),
            code,
            SUCCESS,
        ) {
            world.memory[at].filled(value);
        }
        memory::verify(world, at);
    }
    let (code, _) = peer.ask(CLOSE, &handle, object.bytes, 0);
    world.expect(
        &format!("cuIpcCloseMemHandle m{} elsewhere", object.number),
        code,
        SUCCESS,
    );
}

/// Does what another process asks for, until that closes its pipe.
pub fn serve() {
    let driver = driver();
    let (mut context, mut opened) = (0, 0);
    let begun = [
        driver.cuInit(0),
        driver.cuDevicePrimaryCtxRetain(&mut context, 0),
        driver.cuCtxSetCurrent(context),
    ];
    assert_eq!(begun, [SUCCESS; 3]);
    let (mut input, mut output) = (std::io::stdin(), std::io::stdout());
    output
        .write_all(&[0])
        .and_then(|()| output.flush())
        .expect("who started it reads");
    let mut request = [0; 74];
    while input.read_exact(&mut request).is_ok() {
        let [what, value, ..] = request;
        let bytes = u64::from_le_bytes(request[2..10].try_into().expect("eight bytes")) as usize;
        let handle = IpcBytes(request[10..].try_into().expect("a handle"));
        let mut seen = [0u8; 2];
        let code = match what {
            OPEN => match driver.cuIpcOpenMemHandle_v2(&mut opened, handle, 1) {
                SUCCESS => ends_of(opened, bytes, &mut seen),
                code => code,
            },
            FILL => driver.cuMemsetD8_v2(opened, value, bytes),
            CLOSE => driver.cuIpcCloseMemHandle(opened),
            _ => INVALID_VALUE,
        };
        let mut answer = code.to_le_bytes().to_vec();
        answer.extend(seen);
        if output.write_all(&answer).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

/// The first and the last byte of memory.
fn ends_of(address: u64, bytes: usize, seen: &mut [u8; 2]) -> ResultCode {
    let last = address + bytes as u64 - 1;
    let first = driver().cuMemcpyDtoH_v2((&raw mut seen[0]).cast(), address, 1);
    match first {
        SUCCESS => driver().cuMemcpyDtoH_v2((&raw mut seen[1]).cast(), last, 1),
        code => code,
    }
}
