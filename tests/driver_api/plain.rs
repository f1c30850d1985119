//! `cuMemAlloc` and its like, and how they are freed, rightly and wrongly.

use crate::driver::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, driver};
use crate::memory::{self, MemoryKind};
use crate::world::ThreadWorld;

/// Makes one drawn step.
pub fn step(world: &mut ThreadWorld) {
    match world.draw.below(12) {
        0..4 => allocate(world),
        4 => pitched(world),
        5 => managed(world),
        6..8 => free_any(world),
        8 => wrong_free(world),
        9 => wrong_size(world),
        _ => host(world),
    }
}

fn allocate(world: &mut ThreadWorld) {
    let (bytes, device) = (world.size(), world.device());
    if world.may_not_wait() || !world.has_room(bytes) {
        return;
    }
    world.on(device);
    let mut address = 0;
    let code = driver().cuMemAlloc_v2(&mut address, bytes);
    if world.expect(&format!("cuMemAlloc {bytes} d{device}"), code, SUCCESS) {
        memory::add(world, address, bytes, MemoryKind::Plain, device);
        let last = world.memory.len() - 1;
        memory::fill(world, last);
    }
}

fn pitched(world: &mut ThreadWorld) {
    let (width, height, device) = (
        1 + world.draw.below(3000),
        1 + world.draw.below(800),
        world.device(),
    );
    let row = width.next_multiple_of(512);
    if world.may_not_wait() || !world.has_room(row * height) {
        return;
    }
    world.on(device);
    let element = *world.draw.of(&[4, 8, 16, 3]);
    let (mut address, mut pitch) = (0, 0);
    let code = driver().cuMemAllocPitch_v2(&mut address, &mut pitch, width, height, element);
    let expected = if element == 3 { INVALID_VALUE } else { SUCCESS };
    let call = format!("cuMemAllocPitch {width} {height} {element} d{device}");
    if world.expect(&call, code, expected) {
        if pitch != row {
            world.fault(&call, &row.to_string(), &pitch.to_string());
        }
        memory::add(world, address, row * height, MemoryKind::Plain, device);
    }
}

fn managed(world: &mut ThreadWorld) {
    let (bytes, device) = (world.size(), world.device());
    if !world.has_room(bytes) || world.may_not_wait() && !world.draw.one_in(6) {
        return;
    }
    world.on(device);
    let flags = *world.draw.of(&[1, 1, 2, 7]);
    let mut address = 0;
    let code = driver().cuMemAllocManaged(&mut address, bytes, flags);
    let expected = if flags == 7 { INVALID_VALUE } else { SUCCESS };
    if world.expect(
        &format!("cuMemAllocManaged {bytes} {flags} d{device}"),
        code,
        expected,
    ) {
        memory::add(world, address, bytes, MemoryKind::Managed, device);
    }
}

/// Frees one of the objects that `cuMemFree` takes.
fn free_any(world: &mut ThreadWorld) {
    let is = |kind: MemoryKind| {
        matches!(
            kind,
            MemoryKind::Plain | MemoryKind::Managed | MemoryKind::Graph | MemoryKind::Pool(_)
        )
    };
    let all: Vec<usize> = (0..world.memory.len())
        .filter(|&at| is(world.memory[at].kind))
        .collect();
    if all.is_empty() || world.may_not_wait() {
        return;
    }
    let at = *world.draw.of(&all);
    if world.draw.one_in(2) {
        memory::verify(world, at);
    }
    free(world, at);
}

/// Frees an object by `cuMemFree`.
pub fn free(world: &mut ThreadWorld, at: usize) {
    let freed = memory::remove(world, at);
    world.on(freed.device);
    let code = driver().cuMemFree_v2(freed.address);
    world.expect(
        &format!("cuMemFree m{} {:?}", freed.number, freed.kind),
        code,
        SUCCESS,
    );
}

/// What must not free anything.
fn wrong_free(world: &mut ThreadWorld) {
    let device = world.device();
    if world.may_not_wait() {
        return;
    }
    world.on(device);
    let code = driver().cuMemFree_v2(0);
    world.expect("cuMemFree 0", code, SUCCESS);
    let plain: Vec<usize> = (0..world.memory.len())
        .filter(|&at| world.memory[at].kind == MemoryKind::Plain && world.memory[at].bytes > 1)
        .collect();
    if plain.is_empty() {
        return;
    }
    let at = *world.draw.of(&plain);
    let (address, number, bytes) = (
        world.memory[at].address,
        world.memory[at].number,
        world.memory[at].bytes,
    );
    let inner = 1 + world.draw.below(bytes - 1);
    let code = driver().cuMemFree_v2(address + inner as u64);
    world.expect(&format!("cuMemFree m{number} + {inner}"), code, INVALID_VALUE);
    if world.draw.one_in(3) && !world.is_beside {
        // Twice.
        free(world, at);
        let code = driver().cuMemFree_v2(address);
        world.expect(&format!("cuMemFree m{number} again"), code, INVALID_VALUE);
    }
}

/// Sizes that cannot be.
fn wrong_size(world: &mut ThreadWorld) {
    let device = world.device();
    if world.may_not_wait() {
        return;
    }
    world.on(device);
    let huge = *world.draw.of(&[
        0,
        1 << 33,
        1 << 40,
        1 << 52,
        1 << 62,
        usize::MAX,
        usize::MAX - 511,
    ]);
    let expected = if huge == 0 { INVALID_VALUE } else { OUT_OF_MEMORY };
    let mut address = 0;
    match world.draw.below(3) {
        0 => {
            let code = driver().cuMemAllocManaged(&mut address, huge, 1);
            world.expect(&format!("cuMemAllocManaged {huge}"), code, expected);
        }
        1 => {
            let mut pitch = 0;
            let code = driver().cuMemAllocPitch_v2(&mut address, &mut pitch, huge, 2, 4);
            world.expect(&format!("cuMemAllocPitch {huge} 2"), code, expected);
        }
        _ => {
            let code = driver().cuMemAlloc_v2(&mut address, huge);
            world.expect(&format!("cuMemAlloc {huge}"), code, expected);
        }
    }
}

/// Pinned memory of the host, which is nobody's charge.
fn host(world: &mut ThreadWorld) {
    if world.may_not_wait() {
        return;
    }
    let device = world.device();
    world.on(device);
    if world.hosts.len() < 4 && world.draw.one_in(2) {
        let bytes = world.size();
        let flags = world.draw.below(4) as u32;
        let mut address = std::ptr::null_mut();
        let code = driver().cuMemHostAlloc(&mut address, bytes, flags);
        if world.expect(&format!("cuMemHostAlloc {bytes} {flags}"), code, SUCCESS) {
            // SAFETY: just allocated, so large.
            unsafe { address.cast::<u8>().write_bytes(7, bytes) };
            world.hosts.push((address as u64, bytes));
        }
        return;
    }
    if world.hosts.is_empty() {
        return;
    }
    let count = world.hosts.len();
    let at = world.draw.below(count);
    let (address, bytes) = world.hosts[at];
    if world.draw.one_in(2)
        && let Some(to) = memory::any(world)
    {
        through_host(world, to, address, bytes);
        return;
    }
    world.hosts.swap_remove(at);
    let code = driver().cuMemFreeHost(address as *mut _);
    world.expect("cuMemFreeHost", code, SUCCESS);
}

/// Fills the start of an object from pinned memory, in a stream.
fn through_host(world: &mut ThreadWorld, to: usize, address: u64, bytes: usize) {
    let memory = world.memory[to].clone();
    let Some(stream) = crate::streams::idle_on(world, memory.device) else {
        return;
    };
    world.on(memory.device);
    let value = world.draw.below(256) as u8;
    let part = 1 + world.draw.below(bytes.min(memory.bytes));
    // SAFETY: host memory of the model's, which no work uses: every use is waited for.
    unsafe { (address as *mut u8).write_bytes(value, part) };
    let code = driver().cuMemcpyHtoDAsync_v2(memory.address, address as *const _, part, stream);
    let call = format!("cuMemcpyHtoDAsync m{} {part} of {value}", memory.number);
    let copied = world.expect(&call, code, SUCCESS);
    let code = driver().cuStreamSynchronize(stream);
    if world.expect("cuStreamSynchronize", code, SUCCESS) && copied {
        world.memory[to].started(part, value);
    }
}
