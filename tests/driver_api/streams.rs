//! Streams, events, and captures.

use crate::driver::{ResultCode, SUCCESS, driver};
use crate::graphs::{Effect, Temporary, TestGraph};
use crate::memory::{self, MemoryKind};
use crate::world::{Capturing, ThreadWorld};

/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`: the capture goes on.
const WRONG_THREAD: ResultCode = 908;

/// A stream of a device.
pub struct TestStream {
    number: usize,
    /// The handle of the stream.
    pub handle: usize,
    /// The device of the stream.
    pub device: usize,
    blocking: bool,
    capture: Option<Capture>,
}

/// What a stream captures.
#[derive(Default)]
struct Capture {
    thread: usize,
    effects: Vec<Effect>,
    temporaries: Vec<Temporary>,
}

/// An event of a stream.
pub struct StreamEvent {
    number: usize,
    handle: usize,
}

/// A stream of the device that does not capture: one of the thread's, or the default one.
pub fn idle_on(world: &mut ThreadWorld, device: usize) -> Option<usize> {
    let is_idle = |stream: &&TestStream| stream.device == device && stream.capture.is_none();
    let mut all: Vec<usize> = world
        .streams
        .iter()
        .filter(is_idle)
        .map(|stream| stream.handle)
        .collect();
    if !world.would_end_capture(device) {
        all.push(0);
    }
    (!all.is_empty()).then(|| *world.draw.of(&all))
}

/// The name of a stream in a line.
pub fn name(world: &ThreadWorld, handle: usize) -> String {
    let known = world.streams.iter().find(|stream| stream.handle == handle);
    known.map_or_else(|| "s0".to_owned(), |stream| format!("s{}", stream.number))
}

/// Makes one drawn step.
pub fn step(world: &mut ThreadWorld) {
    match world.draw.below(16) {
        0..2 => create(world),
        2 => destroy(world),
        3 => work(world),
        4..6 => event(world),
        6..8 => begin(world),
        8..12 => captured(world),
        12 => end_any(world),
        13 => relaxed(world),
        14 => status(world),
        _ => settle(world),
    }
}

fn create(world: &mut ThreadWorld) {
    if world.streams.len() >= 4 {
        return;
    }
    let (device, flags) = (world.device(), world.draw.below(2) as u32);
    world.on(device);
    let mut handle = 0;
    let code = driver().cuStreamCreate(&mut handle, flags);
    if world.expect(&format!("cuStreamCreate {flags} d{device}"), code, SUCCESS) {
        let number = world.number();
        world.streams.push(TestStream {
            number,
            handle,
            device,
            blocking: flags == 0,
            capture: None,
        });
    }
}

fn destroy(world: &mut ThreadWorld) {
    let idle: Vec<usize> = (0..world.streams.len())
        .filter(|&at| world.streams[at].capture.is_none())
        .collect();
    if idle.is_empty() {
        return;
    }
    let at = *world.draw.of(&idle);
    let stream = world.streams.swap_remove(at);
    world.on(stream.device);
    let code = driver().cuStreamDestroy_v2(stream.handle);
    world.expect(&format!("cuStreamDestroy s{}", stream.number), code, SUCCESS);
}

/// Waits for a stream and asks it.
fn work(world: &mut ThreadWorld) {
    let Some(at) = memory::any(world) else { return };
    let object = world.memory[at].clone();
    let Some(stream) = idle_on(world, object.device) else {
        return;
    };
    world.on(object.device);
    let (value, name) = (world.draw.below(256) as u8, name(world, stream));
    let code = driver().cuMemsetD8Async(object.address, value, object.bytes, stream);
    let done = world.expect(
        &format!("cuMemsetD8Async m{} {value} {name}", object.number),
        code,
        SUCCESS,
    );
    if finish(world, stream) && done {
        world.memory[at].filled(value);
    }
    let waits_for_none = |known: &&TestStream| known.handle == stream && !known.blocking;
    if world.streams.iter().find(waits_for_none).is_some() {
        let code = driver().cuStreamQuery(stream);
        world.expect(&format!("cuStreamQuery {name}"), code, SUCCESS);
    }
}

/// Waits for a stream.
pub fn finish(world: &mut ThreadWorld, stream: usize) -> bool {
    let name = name(world, stream);
    let code = driver().cuStreamSynchronize(stream);
    world.expect(&format!("cuStreamSynchronize {name}"), code, SUCCESS)
}

fn event(world: &mut ThreadWorld) {
    let count = world.events.len();
    if count == 0 || count < 3 && world.draw.one_in(3) {
        let device = world.device();
        world.on(device);
        let mut handle = 0;
        let code = driver().cuEventCreate(&mut handle, 2);
        if world.expect("cuEventCreate", code, SUCCESS) {
            let number = world.number();
            world.events.push(StreamEvent { number, handle });
        }
        return;
    }
    let at = world.draw.below(count);
    let (number, handle) = (world.events[at].number, world.events[at].handle);
    if world.draw.one_in(4) {
        world.events.swap_remove(at);
        let code = driver().cuEventDestroy_v2(handle);
        world.expect(&format!("cuEventDestroy e{number}"), code, SUCCESS);
        return;
    }
    let device = world.device();
    let Some(stream) = idle_on(world, device) else {
        return;
    };
    world.on(device);
    let name = name(world, stream);
    let code = driver().cuEventRecord(handle, stream);
    if world.expect(&format!("cuEventRecord e{number} {name}"), code, SUCCESS) {
        let code = driver().cuEventSynchronize(handle);
        world.expect(&format!("cuEventSynchronize e{number}"), code, SUCCESS);
        let code = driver().cuEventQuery(handle);
        world.expect(&format!("cuEventQuery e{number}"), code, SUCCESS);
    }
}

fn begin(world: &mut ThreadWorld) {
    let beside = world.is_beside;
    let may = |stream: &TestStream| stream.capture.is_none() && (!beside || !stream.blocking);
    let all: Vec<usize> = (0..world.streams.len())
        .filter(|&at| may(&world.streams[at]))
        .collect();
    if all.is_empty() {
        return;
    }
    let at = *world.draw.of(&all);
    let mode = if beside {
        1 + world.draw.below(2)
    } else {
        world.draw.below(3)
    } as u32;
    let (number, handle, device, blocking) = {
        let stream = &world.streams[at];
        (stream.number, stream.handle, stream.device, stream.blocking)
    };
    world.on(device);
    let code = driver().cuStreamBeginCapture_v2(handle, mode);
    if world.expect(&format!("cuStreamBeginCapture s{number} {mode}"), code, SUCCESS) {
        let thread = world.thread;
        world.streams[at].capture = Some(Capture {
            thread,
            ..Capture::default()
        });
        world.shared.captures().push(Capturing {
            stream: handle,
            mode,
            thread,
            device,
            blocking,
        });
    }
}

/// One of the streams that capture.
fn capturing(world: &mut ThreadWorld) -> Option<usize> {
    let all: Vec<usize> = (0..world.streams.len())
        .filter(|&at| world.streams[at].capture.is_some())
        .collect();
    (!all.is_empty()).then(|| *world.draw.of(&all))
}

/// Work in a stream that captures.
fn captured(world: &mut ThreadWorld) {
    let Some(at) = capturing(world) else {
        return begin(world);
    };
    let (number, handle, device) = (
        world.streams[at].number,
        world.streams[at].handle,
        world.streams[at].device,
    );
    world.on(device);
    let live: Vec<usize> = {
        let temporaries = &world.streams[at]
            .capture
            .as_ref()
            .expect("it captures")
            .temporaries;
        (0..temporaries.len())
            .filter(|&at| !temporaries[at].is_freed)
            .collect()
    };
    let ways = if live.is_empty() { 2 } else { 5 };
    match world.draw.below(ways) {
        0 => {
            let bytes = world.size();
            if !world.has_room(2 * bytes + (4 << 20)) {
                return;
            }
            let mut address = 0;
            let code = driver().cuMemAllocAsync(&mut address, bytes, handle);
            if world.note(&format!("cuMemAllocAsync {bytes} in s{number}"), code) {
                keep(world, at, |capture| {
                    capture.temporaries.push(Temporary {
                        address,
                        bytes,
                        fill: None,
                        is_freed: false,
                    });
                });
            }
        }
        1 => {
            let Some(to) = memory::any(world).filter(|&to| world.memory[to].device == device) else {
                return;
            };
            let (object, value) = (world.memory[to].clone(), world.draw.below(256) as u8);
            let code = driver().cuMemsetD8Async(object.address, value, object.bytes, handle);
            if world.note(
                &format!("cuMemsetD8Async m{} {value} in s{number}", object.number),
                code,
            ) {
                keep(world, at, |capture| {
                    capture.effects.push(Effect::filled(object.number, value))
                });
            }
        }
        way => of_temporary(world, at, *world_choice(&live, way), way),
    }
}

/// The one that a step is about: the first for one way, the last for others.
fn world_choice(live: &[usize], way: usize) -> &usize {
    if way == 2 { &live[0] } else { &live[live.len() - 1] }
}

/// Work with memory of the graph that is being captured.
fn of_temporary(world: &mut ThreadWorld, at: usize, which: usize, way: usize) {
    let (number, handle, device) = (
        world.streams[at].number,
        world.streams[at].handle,
        world.streams[at].device,
    );
    let Temporary {
        address, bytes, fill, ..
    } = world.streams[at]
        .capture
        .as_ref()
        .expect("it captures")
        .temporaries[which];
    match (way, fill) {
        (2, _) => {
            let code = driver().cuMemFreeAsync(address, handle);
            if world.note(&format!("cuMemFreeAsync t{which} in s{number}"), code) {
                keep(world, at, |capture| capture.temporaries[which].is_freed = true);
            }
        }
        (_, None) => {
            let value = world.draw.below(256) as u8;
            let code = driver().cuMemsetD8Async(address, value, bytes, handle);
            if world.note(&format!("cuMemsetD8Async t{which} {value} in s{number}"), code) {
                keep(world, at, |capture| capture.temporaries[which].fill = Some(value));
            }
        }
        (_, Some(value)) => {
            let Some(to) = memory::any(world).filter(|&to| world.memory[to].device == device) else {
                return;
            };
            let object = world.memory[to].clone();
            let part = bytes.min(object.bytes);
            let code = driver().cuMemcpyDtoDAsync_v2(object.address, address, part, handle);
            if world.note(
                &format!("cuMemcpyDtoDAsync m{} t{which} in s{number}", object.number),
                code,
            ) {
                keep(world, at, |capture| {
                    capture.effects.push(Effect::started(object.number, part, value))
                });
            }
        }
    }
}

fn keep(world: &mut ThreadWorld, at: usize, change: impl FnOnce(&mut Capture)) {
    change(world.streams[at].capture.as_mut().expect("it captures"));
}

fn end_any(world: &mut ThreadWorld) {
    if let Some(at) = capturing(world) {
        end(world, at);
    }
}

fn end(world: &mut ThreadWorld, at: usize) {
    let (number, handle, device) = (
        world.streams[at].number,
        world.streams[at].handle,
        world.streams[at].device,
    );
    world.on(device);
    let mut graph = 0;
    let code = driver().cuStreamEndCapture(handle, &mut graph);
    let is_whole = world.note(&format!("cuStreamEndCapture s{number}"), code);
    if code == WRONG_THREAD {
        return;
    }
    world.shared.captures().retain(|other| other.stream != handle);
    let capture = world.streams[at].capture.take().expect("it captured");
    if is_whole {
        let number = world.number();
        let mut graph = TestGraph::new(number, graph, device, capture.effects, &capture.temporaries);
        let known: Vec<usize> = world.memory.iter().map(|memory| memory.number).collect();
        graph.lose_unless(|number| known.contains(&number));
        world.graphs.push(graph);
    }
}

/// Ends the captures that a thread began, which it alone may.
pub fn end_all(world: &mut ThreadWorld) {
    let thread = world.thread;
    let is_own = |stream: &TestStream| {
        stream
            .capture
            .as_ref()
            .is_some_and(|capture| capture.thread == thread)
    };
    while let Some(at) = world.streams.iter().position(is_own) {
        end(world, at);
    }
}

/// Allocates while the thread itself captures, as allocators with a cache do.
fn relaxed(world: &mut ThreadWorld) {
    let (bytes, device) = (world.size(), world.device());
    if !world.has_room(bytes) {
        return;
    }
    world.on(device);
    let mut mode = 2;
    let code = driver().cuThreadExchangeStreamCaptureMode(&mut mode);
    world.expect(
        &format!("cuThreadExchangeStreamCaptureMode {mode}"),
        code,
        SUCCESS,
    );
    let mut address = 0;
    let code = driver().cuMemAlloc_v2(&mut address, bytes);
    if world.expect(&format!("cuMemAlloc {bytes} relaxed"), code, SUCCESS) {
        memory::add(world, address, bytes, MemoryKind::Plain, device);
    }
    let code = driver().cuThreadExchangeStreamCaptureMode(&mut mode);
    world.expect(
        &format!("cuThreadExchangeStreamCaptureMode back {mode}"),
        code,
        SUCCESS,
    );
}

fn status(world: &mut ThreadWorld) {
    let count = world.streams.len();
    if count == 0 {
        return;
    }
    let at = world.draw.below(count);
    let (number, handle, device) = (
        world.streams[at].number,
        world.streams[at].handle,
        world.streams[at].device,
    );
    world.on(device);
    let mut status = -1;
    let code = driver().cuStreamIsCapturing(handle, &mut status);
    world.note(&format!("cuStreamIsCapturing s{number} says {status}"), code);
}

/// Waits for the device, which natively ends all captures on it.
fn settle(world: &mut ThreadWorld) {
    let device = world.device();
    if world.is_beside || !world.shared.captures().is_empty() && !world.draw.one_in(4) {
        return;
    }
    world.on(device);
    let code = driver().cuCtxSynchronize();
    world.expect("cuCtxSynchronize", code, SUCCESS);
}

/// Ends all that the thread has.
pub fn clear(world: &mut ThreadWorld) {
    while let Some(event) = world.events.pop() {
        let code = driver().cuEventDestroy_v2(event.handle);
        world.expect(&format!("cuEventDestroy e{}", event.number), code, SUCCESS);
    }
    while let Some(stream) = world.streams.pop() {
        world.on(stream.device);
        let code = driver().cuStreamDestroy_v2(stream.handle);
        world.expect(&format!("cuStreamDestroy s{}", stream.number), code, SUCCESS);
    }
}
