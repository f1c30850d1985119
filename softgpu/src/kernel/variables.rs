//! A module's variables: one block of device memory per image and device, made when first needed.

use crate::address::allocate;
use crate::device::Gpu;
use crate::error::{Error, Result};
use crate::image::{self, Image, Variable};
use crate::memory::heap::AllocationUse;

/// Alignment that the heap gives.
const ALIGN: u64 = 512;

/// The address of an image's block on a device; zero if it has no variables.
pub fn block(gpu: &Gpu, image: &'static Image) -> Result<usize> {
    if image.variable_bytes == 0 {
        return Ok(0);
    }
    if image.variable_align > ALIGN {
        return Err(Error::NOT_SUPPORTED);
    }
    let mut blocks = gpu.variables();
    let key = std::ptr::from_ref(image) as usize;
    if let Some(&address) = blocks.get(&key) {
        return Ok(address);
    }
    let bytes = image.variable_bytes as usize;
    let address = allocate(gpu, bytes, AllocationUse::Variables)?;
    // SAFETY: the block was just allocated with this size; the image says that its initial contents
    // have it too, and that relocations lie within.
    unsafe {
        let base = address as *mut u8;
        if !image.initial.is_null() {
            std::ptr::copy_nonoverlapping(image.initial, base, bytes);
        } else {
            std::ptr::write_bytes(base, 0, bytes);
        }
        for relocation in image::slice(image.relocations, image.relocation_count) {
            let target = address + relocation.target as usize;
            base.add(relocation.offset as usize)
                .cast::<usize>()
                .write_unaligned(target);
        }
    }
    blocks.insert(key, address);
    Ok(address)
}

/// The address of a variable on a device.
pub fn address(gpu: &Gpu, image: &'static Image, variable: &Variable) -> Result<usize> {
    Ok(block(gpu, image)? + variable.offset as usize)
}
