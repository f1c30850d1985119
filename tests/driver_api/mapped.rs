//! Memory that the thread makes and maps by itself.

use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::pool::{ACCESS_READ_WRITE, ALLOCATION_PINNED, MemAccessDesc};
use mgb_abi::vmm::MemAllocationProp;

use crate::driver::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, driver};
use crate::memory::{self, MemoryKind};
use crate::world::{GRANULE, ThreadWorld};

/// Addresses, and what is mapped there.
pub struct MappedRange {
    number: usize,
    address: u64,
    bytes: u64,
    /// Start, bytes, and the physical memory's number.
    maps: Vec<(u64, u64, usize)>,
}

/// Physical memory of a device.
pub struct TestPhysical {
    number: usize,
    handle: u64,
    /// The size of the memory in bytes.
    pub bytes: u64,
    device: usize,
    handles: u32,
    maps: u32,
}

/// Makes one drawn step.
pub fn step(world: &mut ThreadWorld) {
    match world.draw.below(12) {
        0..2 => create(world),
        2 => reserve(world),
        3..7 => map(world),
        7..9 => unmap(world),
        9 => release(world),
        10 => retain(world),
        _ => unreserve(world),
    }
}

fn create(world: &mut ThreadWorld) {
    let (device, granules) = (world.device(), 1 + world.draw.below(3) as u64);
    let kind = world.draw.below(12);
    let bytes = match kind {
        0 => 0,
        1 => GRANULE + 1,
        2 => 1 << 42,
        _ => granules * GRANULE,
    };
    if kind > 2 && !world.has_room(bytes as usize) {
        return;
    }
    let prop = MemAllocationProp {
        alloc_type: ALLOCATION_PINNED,
        handle_types: *world.draw.of(&[0, 0, 1]),
        location: MemLocation {
            kind: LOCATION_DEVICE,
            id: device as i32,
        },
        win32_handle_metadata: std::ptr::null_mut(),
        alloc_flags: [0; 8],
    };
    let mut handle = 0;
    let code = driver().cuMemCreate(&mut handle, bytes as usize, &prop, 0);
    let expected = match kind {
        0 | 1 => INVALID_VALUE,
        2 => OUT_OF_MEMORY,
        _ => SUCCESS,
    };
    if world.expect(&format!("cuMemCreate {bytes} d{device}"), code, expected) {
        let number = world.number();
        world.physical.push(TestPhysical {
            number,
            handle,
            bytes,
            device,
            handles: 1,
            maps: 0,
        });
    }
}

fn reserve(world: &mut ThreadWorld) {
    if world.ranges.len() >= 4 {
        return;
    }
    let bytes = GRANULE * (1 + world.draw.below(6)) as u64;
    let mut address = 0;
    let code = driver().cuMemAddressReserve(&mut address, bytes as usize, 0, 0, 0);
    if world.expect(&format!("cuMemAddressReserve {bytes}"), code, SUCCESS) {
        let number = world.number();
        world.ranges.push(MappedRange {
            number,
            address,
            bytes,
            maps: Vec::new(),
        });
    }
}

/// Maps physical memory, where there is a place for it and where there is none.
fn map(world: &mut ThreadWorld) {
    let usable: Vec<usize> = (0..world.physical.len())
        .filter(|&at| world.physical[at].handles > 0)
        .collect();
    let count = world.ranges.len();
    if usable.is_empty() {
        return create(world);
    }
    if count == 0 {
        return reserve(world);
    }
    let (of, to) = (*world.draw.of(&usable), world.draw.below(count));
    let (handle, bytes, name, device) = {
        let physical = &world.physical[of];
        (physical.handle, physical.bytes, physical.number, physical.device)
    };
    let granules = world.ranges[to].bytes / GRANULE;
    let start = world.draw.below(granules as usize) as u64 * GRANULE;
    let range = &world.ranges[to];
    let overlaps = |&(at, length, _): &(u64, u64, usize)| at < start + bytes && start < at + length;
    let fits = start + bytes <= range.bytes && !range.maps.iter().any(overlaps);
    let (address, number) = (range.address + start, range.number);
    if start + bytes > range.bytes && world.is_beside {
        // Another thread's range may lie behind.
        return;
    }
    let code = driver().cuMemMap(address, bytes as usize, 0, handle, 0);
    let expected = if fits { SUCCESS } else { INVALID_VALUE };
    if !world.expect(&format!("cuMemMap r{number} + {start} h{name}"), code, expected) || !fits {
        return;
    }
    world.physical[of].maps += 1;
    world.ranges[to].maps.push((start, bytes, name));
    let location = MemLocation {
        kind: LOCATION_DEVICE,
        id: device as i32,
    };
    let access = MemAccessDesc {
        location,
        flags: ACCESS_READ_WRITE,
    };
    let code = driver().cuMemSetAccess(address, bytes as usize, &access, 1);
    world.expect(&format!("cuMemSetAccess r{number} + {start}"), code, SUCCESS);
    if world.physical[of].maps > 1 {
        // The model has one object for each memory.
        return;
    }
    memory::add(world, address, bytes as usize, MemoryKind::Mapped(number), device);
    let last = world.memory.len() - 1;
    memory::fill(world, last);
}

/// Unmaps one part of a range, or all of it.
fn unmap(world: &mut ThreadWorld) {
    let mapped: Vec<usize> = (0..world.ranges.len())
        .filter(|&at| !world.ranges[at].maps.is_empty())
        .collect();
    if mapped.is_empty() {
        return;
    }
    let at = *world.draw.of(&mapped);
    let count = world.ranges[at].maps.len();
    let which = world.draw.below(count);
    let (start, bytes, _) = world.ranges[at].maps[which];
    let (address, number) = (world.ranges[at].address + start, world.ranges[at].number);
    if bytes > GRANULE && world.draw.one_in(5) {
        let code = driver().cuMemUnmap(address, GRANULE as usize);
        world.expect(
            &format!("cuMemUnmap a part of r{number} + {start}"),
            code,
            INVALID_VALUE,
        );
        return;
    }
    if let Some(object) = world.memory.iter().position(|memory| memory.address == address) {
        memory::verify(world, object);
    }
    end_map(world, at, which);
}

fn end_map(world: &mut ThreadWorld, at: usize, which: usize) {
    let (start, bytes, of) = world.ranges[at].maps.swap_remove(which);
    let (address, number) = (world.ranges[at].address + start, world.ranges[at].number);
    if let Some(object) = world.memory.iter().position(|memory| memory.address == address) {
        memory::remove(world, object);
    }
    let code = driver().cuMemUnmap(address, bytes as usize);
    world.expect(&format!("cuMemUnmap r{number} + {start}"), code, SUCCESS);
    if let Some(physical) = world.physical.iter_mut().find(|physical| physical.number == of) {
        physical.maps -= 1;
    }
    forget_unused(world);
}

fn forget_unused(world: &mut ThreadWorld) {
    world
        .physical
        .retain(|physical| physical.handles > 0 || physical.maps > 0);
}

fn release(world: &mut ThreadWorld) {
    let count = world.physical.len();
    if count == 0 {
        return;
    }
    let at = world.draw.below(count);
    let (number, handle, handles) = (
        world.physical[at].number,
        world.physical[at].handle,
        world.physical[at].handles,
    );
    if handles == 0 {
        let code = driver().cuMemRelease(handle);
        world.expect(&format!("cuMemRelease h{number} too often"), code, INVALID_VALUE);
        return;
    }
    end_handle(world, at);
}

fn end_handle(world: &mut ThreadWorld, at: usize) {
    let physical = &mut world.physical[at];
    physical.handles -= 1;
    let (number, handle) = (physical.number, physical.handle);
    let code = driver().cuMemRelease(handle);
    world.expect(&format!("cuMemRelease h{number}"), code, SUCCESS);
    forget_unused(world);
}

fn retain(world: &mut ThreadWorld) {
    let all: Vec<(u64, usize)> = world
        .ranges
        .iter()
        .flat_map(|range| {
            range
                .maps
                .iter()
                .map(|&(start, _, of)| (range.address + start, of))
        })
        .collect();
    if all.is_empty() {
        return;
    }
    let (address, of) = *world.draw.of(&all);
    let inner = world.draw.below(GRANULE as usize) as u64;
    let mut handle = 0;
    let code = driver().cuMemRetainAllocationHandle(&mut handle, address + inner);
    let call = format!("cuMemRetainAllocationHandle h{of}");
    if !world.expect(&call, code, SUCCESS) {
        return;
    }
    if let Some(physical) = world.physical.iter_mut().find(|physical| physical.number == of) {
        physical.handles += 1;
        let expected = physical.handle;
        if handle != expected {
            world.fault(&call, &expected.to_string(), &handle.to_string());
        }
    }
}

fn unreserve(world: &mut ThreadWorld) {
    let count = world.ranges.len();
    if count == 0 {
        return;
    }
    let at = world.draw.below(count);
    let range = &world.ranges[at];
    let (address, bytes, number, is_free) = (range.address, range.bytes, range.number, range.maps.is_empty());
    let code = driver().cuMemAddressFree(address, bytes as usize);
    let expected = if is_free { SUCCESS } else { INVALID_VALUE };
    if world.expect(&format!("cuMemAddressFree r{number}"), code, expected) && is_free {
        world.ranges.swap_remove(at);
    }
}

/// Ends all that the thread has.
pub fn clear(world: &mut ThreadWorld) {
    while let Some(at) = world.ranges.iter().position(|range| !range.maps.is_empty()) {
        end_map(world, at, 0);
    }
    while let Some(range) = world.ranges.pop() {
        let code = driver().cuMemAddressFree(range.address, range.bytes as usize);
        world.expect(&format!("cuMemAddressFree r{}", range.number), code, SUCCESS);
    }
    while !world.physical.is_empty() {
        end_handle(world, 0);
    }
}
