//! Allocation in stream order, and pools.

use std::ffi::c_int;

use mgb_abi::location::MemLocation;
use mgb_abi::pool::{MemPoolProps, POOL_RELEASE_THRESHOLD};

use crate::driver::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, driver};
use crate::memory::{self, MemoryKind};
use crate::streams;
use crate::world::ThreadWorld;

/// A pool that the thread made.
pub struct TestPool {
    number: usize,
    handle: usize,
    /// Its device; none: host memory.
    device: Option<usize>,
}

/// Makes one drawn step.
pub fn step(world: &mut ThreadWorld) {
    match world.draw.below(12) {
        0..2 => create(world),
        2..6 => allocate(world),
        6..9 => free_any(world),
        9 => trim(world),
        10 => destroy(world),
        _ => choose(world),
    }
}

fn create(world: &mut ThreadWorld) {
    if world.pools.len() >= 3 {
        return;
    }
    let current = world.device();
    world.on(current);
    let device = if world.draw.one_in(4) {
        None
    } else {
        Some(world.device())
    };
    let mut props = MemPoolProps::of_device(device.unwrap_or(0) as c_int);
    if device.is_none() {
        props.location = MemLocation::host();
    }
    let mut handle = 0;
    let code = driver().cuMemPoolCreate(&mut handle, &props);
    if !world.expect(&format!("cuMemPoolCreate {device:?}"), code, SUCCESS) {
        return;
    }
    let number = world.number();
    world.pools.push(TestPool {
        number,
        handle,
        device,
    });
    if world.draw.one_in(2) {
        let mut keep: u64 = *world.draw.of(&[0, 4 << 20, u64::MAX]);
        let code = driver().cuMemPoolSetAttribute(handle, POOL_RELEASE_THRESHOLD, (&raw mut keep).cast());
        world.expect(&format!("cuMemPoolSetAttribute p{number} {keep}"), code, SUCCESS);
    }
}

fn allocate(world: &mut ThreadWorld) {
    let (bytes, current) = (world.size(), world.device());
    if !world.has_room(bytes) {
        return;
    }
    let Some(stream) = streams::idle_on(world, current) else {
        return;
    };
    world.on(current);
    let name = streams::name(world, stream);
    let count = world.pools.len();
    let mut address = 0;
    if count > 0 && world.draw.one_in(2) {
        let at = world.draw.below(count);
        let (number, pool, of) = (
            world.pools[at].number,
            world.pools[at].handle,
            world.pools[at].device,
        );
        let huge = world.draw.one_in(8);
        let bytes = if huge { 1 << 40 } else { bytes };
        if huge && of.is_none() {
            return;
        }
        let code = driver().cuMemAllocFromPoolAsync(&mut address, bytes, pool, stream);
        let expected = if huge { OUT_OF_MEMORY } else { SUCCESS };
        if world.expect(
            &format!("cuMemAllocFromPoolAsync {bytes} p{number} {name}"),
            code,
            expected,
        ) {
            let kind = if of.is_some() {
                MemoryKind::Pool(number)
            } else {
                MemoryKind::HostPool
            };
            // Freed in a stream of any device.
            let device = of.unwrap_or(current);
            memory::add(world, address, bytes, kind, device);
            streams::finish(world, stream);
        }
        return;
    }
    let code = driver().cuMemAllocAsync(&mut address, bytes, stream);
    if world.expect(&format!("cuMemAllocAsync {bytes} {name}"), code, SUCCESS) {
        memory::add(world, address, bytes, MemoryKind::Pool(0), current);
        streams::finish(world, stream);
        let last = world.memory.len() - 1;
        memory::fill(world, last);
    }
}

/// Frees one of the objects that `cuMemFreeAsync` takes.
fn free_any(world: &mut ThreadWorld) {
    let is = |kind: MemoryKind| {
        matches!(
            kind,
            MemoryKind::Plain | MemoryKind::Pool(_) | MemoryKind::HostPool | MemoryKind::Graph
        )
    };
    let all: Vec<usize> = (0..world.memory.len())
        .filter(|&at| is(world.memory[at].kind))
        .collect();
    if all.is_empty() {
        return;
    }
    let at = *world.draw.of(&all);
    let device = world.memory[at].device;
    let Some(stream) = streams::idle_on(world, device) else {
        return;
    };
    if world.memory[at].kind != MemoryKind::HostPool && world.draw.one_in(2) {
        memory::verify(world, at);
    }
    free(world, at, stream);
}

/// Frees an object in the order of a stream.
pub fn free(world: &mut ThreadWorld, at: usize, stream: usize) {
    let freed = memory::remove(world, at);
    world.on(freed.device);
    let name = streams::name(world, stream);
    let code = driver().cuMemFreeAsync(freed.address, stream);
    let call = format!("cuMemFreeAsync m{} {:?} {name}", freed.number, freed.kind);
    let done = world.expect(&call, code, SUCCESS);
    // A graph's next launch, in another stream, has the same address.
    if world.draw.one_in(2) || freed.kind == MemoryKind::Graph {
        streams::finish(world, stream);
    }
    if done
        && !world.is_beside
        && freed.kind != MemoryKind::HostPool
        && freed.kind != MemoryKind::Graph
        && world.draw.one_in(6)
    {
        streams::finish(world, stream);
        let code = driver().cuMemFreeAsync(freed.address, stream);
        world.expect(&format!("{call} again"), code, INVALID_VALUE);
    }
}

fn trim(world: &mut ThreadWorld) {
    let count = world.pools.len();
    if count == 0 {
        return;
    }
    let at = world.draw.below(count);
    let (number, handle) = (world.pools[at].number, world.pools[at].handle);
    let keep = world.size();
    let code = driver().cuMemPoolTrimTo(handle, keep);
    world.expect(&format!("cuMemPoolTrimTo p{number} {keep}"), code, SUCCESS);
}

fn destroy(world: &mut ThreadWorld) {
    let count = world.pools.len();
    if count > 0 {
        let at = world.draw.below(count);
        end(world, at);
    }
}

fn end(world: &mut ThreadWorld, at: usize) {
    let TestPool { number, handle, .. } = world.pools.swap_remove(at);
    let code = driver().cuMemPoolDestroy(handle);
    world.expect(&format!("cuMemPoolDestroy p{number}"), code, SUCCESS);
    if !world.is_beside && world.draw.one_in(4) {
        let code = driver().cuMemPoolDestroy(handle);
        world.expect(&format!("cuMemPoolDestroy p{number} again"), code, INVALID_VALUE);
    }
}

/// Has a device allocate from one of the pools, or from its default one.
fn choose(world: &mut ThreadWorld) {
    let of = |pool: &TestPool| Some((pool.number, pool.handle, pool.device?));
    let all: Vec<(usize, usize, usize)> = world.pools.iter().filter_map(of).collect();
    if world.is_beside {
        return;
    }
    if all.is_empty() || world.draw.one_in(2) {
        let (device, mut pool) = (world.device(), 0);
        let code = driver().cuDeviceGetDefaultMemPool(&mut pool, device as c_int);
        world.expect(&format!("cuDeviceGetDefaultMemPool d{device}"), code, SUCCESS);
        let code = driver().cuDeviceSetMemPool(device as c_int, pool);
        world.expect(&format!("cuDeviceSetMemPool d{device} default"), code, SUCCESS);
        return;
    }
    let (number, handle, device) = *world.draw.of(&all);
    let code = driver().cuDeviceSetMemPool(device as c_int, handle);
    world.expect(&format!("cuDeviceSetMemPool d{device} p{number}"), code, SUCCESS);
}

/// Ends all pools that the thread has.
pub fn clear(world: &mut ThreadWorld) {
    while !world.pools.is_empty() {
        end(world, 0);
    }
}

/// Ends the pools of host memory, which go with no context.
pub fn clear_host(world: &mut ThreadWorld) {
    while let Some(at) = world.pools.iter().position(|pool| pool.device.is_none()) {
        end(world, at);
    }
}
