//! Memory that the GPU can use, and what is in it.

use std::ffi::c_void;

use crate::driver::{SUCCESS, driver};
use crate::world::ThreadWorld;

/// Whose memory it is, and how it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// `cuMemAlloc`'s, and `cuMemAllocPitch`'s.
    Plain,
    /// Memory of `cuMemAllocManaged`.
    Managed,
    /// Of a pool, or of a device's default one (0), in stream order.
    Pool(usize),
    /// Of a pool of host memory.
    HostPool,
    /// Left by a launched graph.
    Graph,
    /// A mapped range, by its number.
    Mapped(usize),
}

/// An object in memory.
#[derive(Clone, Debug)]
pub struct MemoryObject {
    /// The number of the object.
    pub number: usize,
    /// Its first byte.
    pub address: u64,
    /// The size of the object in bytes.
    pub bytes: usize,
    /// How the object was allocated.
    pub kind: MemoryKind,
    /// The device of the object.
    pub device: usize,
    /// What all of it is, if it was written.
    pub fill: Option<u8>,
    /// Other bytes at its start.
    pub start: Option<(usize, u8)>,
}

impl MemoryObject {
    /// What a byte of it is, if that is known.
    fn byte(&self, at: usize) -> Option<u8> {
        match self.start {
            Some((bytes, value)) if at < bytes => Some(value),
            _ => self.fill,
        }
    }

    /// All of it is this from here on.
    pub fn filled(&mut self, value: u8) {
        self.fill = Some(value);
        self.start = None;
    }

    /// Its start is this from here on.
    pub fn started(&mut self, bytes: usize, value: u8) {
        if bytes >= self.bytes {
            self.filled(value);
            return;
        }
        if let Some((longer, _)) = self.start.filter(|(longer, _)| *longer > bytes) {
            // Two values at the start are more than the model keeps: it forgets all beyond the first.
            let _ = longer;
            self.fill = None;
        }
        self.start = Some((bytes, value));
    }
}

/// One of the thread's objects that lie on a GPU, by its place.
pub fn any(world: &mut ThreadWorld) -> Option<usize> {
    let is = |at: &usize| world.memory[*at].kind != MemoryKind::HostPool;
    let all: Vec<usize> = (0..world.memory.len()).filter(is).collect();
    (!all.is_empty()).then(|| *world.draw.of(&all))
}

/// Fills an object by one of the ways that there are.
pub fn fill(world: &mut ThreadWorld, at: usize) {
    let MemoryObject {
        number,
        address,
        bytes,
        device,
        ..
    } = world.memory[at].clone();
    if world.would_end_capture(device) && !world.draw.one_in(8) {
        return;
    }
    world.on(device);
    let value = world.draw.below(256) as u8;
    let ways = world.draw.below(4);
    if ways == 0 {
        // A part, from the host.
        let part = 1 + world.draw.below(bytes.min(4096));
        let from = vec![value; part];
        let code = driver().cuMemcpyHtoD_v2(address, from.as_ptr().cast::<c_void>(), part);
        if world.expect(
            &format!("cuMemcpyHtoD m{number} {part} of {value}"),
            code,
            SUCCESS,
        ) {
            world.memory[at].started(part, value);
        }
        return;
    }
    let code = driver().cuMemsetD8_v2(address, value, bytes);
    if world.expect(&format!("cuMemsetD8 m{number} {value} {bytes}"), code, SUCCESS) {
        world.memory[at].filled(value);
    }
}

/// Reads some of an object.
pub fn verify(world: &mut ThreadWorld, at: usize) {
    let memory = world.memory[at].clone();
    let device = memory.device;
    if world.would_end_capture(device) && !world.draw.one_in(8) {
        return;
    }
    world.on(device);
    let inner = world.draw.below(memory.bytes);
    for from in [0, inner, memory.bytes.saturating_sub(64)] {
        let count = 64.min(memory.bytes - from);
        let mut seen = [0u8; 64];
        let code = driver().cuMemcpyDtoH_v2(seen.as_mut_ptr().cast(), memory.address + from as u64, count);
        let call = format!("cuMemcpyDtoH m{} {from} {count}", memory.number);
        if !world.expect(&call, code, SUCCESS) {
            return;
        }
        let wrong = (0..count).find(|&at| memory.byte(from + at).is_some_and(|value| value != seen[at]));
        if let Some(wrong) = wrong {
            let expected = memory.byte(from + wrong).unwrap_or(0);
            world.fault(
                &format!("{call}: byte {}", from + wrong),
                &expected.to_string(),
                &seen[wrong].to_string(),
            );
        }
    }
}

/// Copies from one object to the start of another of the same device.
pub fn copy(world: &mut ThreadWorld, from: usize, to: usize) {
    let (source, target) = (world.memory[from].clone(), world.memory[to].clone());
    let Some(value) = source.fill.filter(|_| from != to && source.start.is_none()) else {
        return;
    };
    if source.device != target.device || world.would_end_capture(source.device) {
        return;
    }
    world.on(source.device);
    let most = source.bytes.min(target.bytes);
    let bytes = 1 + world.draw.below(most);
    let code = driver().cuMemcpyDtoD_v2(target.address, source.address, bytes);
    let call = format!("cuMemcpyDtoD m{} m{} {bytes}", target.number, source.number);
    if world.expect(&call, code, SUCCESS) {
        world.memory[to].started(bytes, value);
    }
}

/// A new object of the thread's.
pub fn add(world: &mut ThreadWorld, address: u64, bytes: usize, kind: MemoryKind, device: usize) -> usize {
    let number = world.number();
    let fill = None;
    world.memory.push(MemoryObject {
        number,
        address,
        bytes,
        kind,
        device,
        fill,
        start: None,
    });
    number
}

/// Forgets an object, and whatever graph refers to it can run no more.
pub fn remove(world: &mut ThreadWorld, at: usize) -> MemoryObject {
    let gone = world.memory.swap_remove(at);
    world.graphs.iter_mut().for_each(|graph| graph.lose(gone.number));
    world.execs.iter_mut().for_each(|exec| exec.lose(gone.number));
    gone
}
