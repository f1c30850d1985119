//! Questions that change nothing, and arrays.

use std::ffi::{c_int, c_void};

use mgb_abi::array::{ArrayDescriptor, FORMAT_FLOAT};
use mgb_abi::pool::POOL_USED_CURRENT;

use crate::driver::{OUT_OF_MEMORY, SUCCESS, driver};
use crate::memory::{self, MemoryKind};
use crate::world::ThreadWorld;

/// CUDA's `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, `_IS_MANAGED` and `_DEVICE_ORDINAL`.
const ATTRIBUTES: [u32; 3] = [2, 8, 9];

/// Makes one drawn step.
pub fn step(world: &mut ThreadWorld) {
    match world.draw.below(10) {
        0..2 => free_memory(world),
        2..5 => pointer(world),
        5 => pool(world),
        6..8 => array(world),
        8 => end_array(world),
        _ => contexts(world),
    }
}

fn free_memory(world: &mut ThreadWorld) {
    let device = world.device();
    world.on(device);
    let (mut free, mut total) = (usize::MAX, 0);
    let code = driver().cuMemGetInfo_v2(&mut free, &mut total);
    let call = format!("cuMemGetInfo d{device}");
    if world.expect(&call, code, SUCCESS) && free > total {
        world.fault(&call, &format!("at most {total}"), &free.to_string());
    }
    if world.draw.one_in(4) {
        let code = driver().cuMemGetInfo_v2(std::ptr::null_mut(), &mut total);
        world.expect("cuMemGetInfo without free", code, SUCCESS);
    }
}

/// What the driver says of an address within an object.
fn pointer(world: &mut ThreadWorld) {
    let Some(at) = memory::any(world) else { return };
    let object = world.memory[at].clone();
    world.on(object.device);
    let inner = world.draw.below(object.bytes) as u64;
    let name = format!("m{} {:?} + {inner}", object.number, object.kind);
    let (mut base, mut bytes) = (0, 0);
    let code = driver().cuMemGetAddressRange_v2(&mut base, &mut bytes, object.address + inner);
    let call = format!("cuMemGetAddressRange {name}");
    if world.expect(&call, code, SUCCESS) && !matches!(object.kind, MemoryKind::Mapped(_)) {
        let expected = (object.address, object.bytes);
        if (base, bytes) != expected {
            world.fault(&call, &format!("{expected:?}"), &format!("{:?}", (base, bytes)));
        }
    }
    let is_managed = u32::from(object.kind == MemoryKind::Managed);
    for (attribute, expected) in ATTRIBUTES.into_iter().zip([2, is_managed, object.device as u32]) {
        let mut value = [u32::MAX; 2];
        let place = value.as_mut_ptr().cast::<c_void>();
        let code = driver().cuPointerGetAttribute(place, attribute, object.address + inner);
        let call = format!("cuPointerGetAttribute {attribute} {name}");
        if world.expect(&call, code, SUCCESS) && value[0] != expected {
            world.fault(&call, &expected.to_string(), &value[0].to_string());
        }
    }
}

/// What the driver says of a device's pool.
fn pool(world: &mut ThreadWorld) {
    let device = world.device();
    let mut pool = 0;
    let code = driver().cuDeviceGetMemPool(&mut pool, device as c_int);
    if !world.expect(&format!("cuDeviceGetMemPool d{device}"), code, SUCCESS) {
        return;
    }
    let mut used = 0u64;
    let code = driver().cuMemPoolGetAttribute(pool, POOL_USED_CURRENT, (&raw mut used).cast());
    world.expect("cuMemPoolGetAttribute", code, SUCCESS);
}

fn array(world: &mut ThreadWorld) {
    let device = world.device();
    let (width, height) = (1 + world.draw.below(1024), 1 + world.draw.below(512));
    let is_huge = world.draw.one_in(10);
    if world.may_not_wait() || !world.has_room(width * height * 4) || world.arrays.len() > 3 {
        return;
    }
    world.on(device);
    let height = if is_huge { 1 << 40 } else { height };
    let wanted = ArrayDescriptor {
        width,
        height,
        format: FORMAT_FLOAT,
        channels: 1,
    };
    let mut handle = 0;
    let code = driver().cuArrayCreate_v2(&mut handle, &wanted);
    let call = format!("cuArrayCreate {width} {height} d{device}");
    if is_huge {
        world.note(&call, code);
        if code == SUCCESS {
            world.fault(&call, &OUT_OF_MEMORY.to_string(), "0");
        }
    } else if world.expect(&call, code, SUCCESS) {
        let number = world.number();
        world.arrays.push((number, handle, [width, height], device));
        let mut seen = ArrayDescriptor::default();
        let code = driver().cuArrayGetDescriptor_v2(&mut seen, handle);
        if world.expect(&format!("cuArrayGetDescriptor a{number}"), code, SUCCESS) && seen != wanted {
            world.fault(
                "cuArrayGetDescriptor",
                &format!("{wanted:?}"),
                &format!("{seen:?}"),
            );
        }
    }
}

fn end_array(world: &mut ThreadWorld) {
    if world.arrays.is_empty() || world.may_not_wait() {
        return;
    }
    let count = world.arrays.len();
    let at = world.draw.below(count);
    clear_array(world, at);
}

fn clear_array(world: &mut ThreadWorld, at: usize) {
    let (number, handle, _, device) = world.arrays.swap_remove(at);
    world.on(device);
    let code = driver().cuArrayDestroy(handle);
    world.expect(&format!("cuArrayDestroy a{number}"), code, SUCCESS);
}

/// Ends all arrays that the thread has.
pub fn clear(world: &mut ThreadWorld) {
    while !world.arrays.is_empty() {
        clear_array(world, 0);
    }
}

fn contexts(world: &mut ThreadWorld) {
    let device = world.device();
    world.on(device);
    let mut seen = -1;
    let code = driver().cuCtxGetDevice(&mut seen);
    if world.expect("cuCtxGetDevice", code, SUCCESS) && seen != device as c_int {
        world.fault("cuCtxGetDevice", &device.to_string(), &seen.to_string());
    }
    let (mut flags, mut active) = (0, -1);
    let code = driver().cuDevicePrimaryCtxGetState(device as c_int, &mut flags, &mut active);
    if world.expect("cuDevicePrimaryCtxGetState", code, SUCCESS) && active != 1 {
        world.fault("cuDevicePrimaryCtxGetState", "1", &active.to_string());
    }
}
