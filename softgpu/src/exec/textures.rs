//! The services that read textures, and read and write surfaces.

use std::ffi::c_void;
use std::sync::Arc;

use super::grid::KernelFailure;
use super::thread::{BlockThread, own};
use crate::error::Error;
use crate::image;
use crate::texture::Geometry;
use crate::texture::objects::{self, Objects, SurfaceObject, TextureObject, Wanted};
use crate::texture::sample::Fetch;
use crate::texture::surface::Boundary;

/// Ends the kernel: it uses an object as it cannot be used.
#[cold]
fn fail(thread: &mut BlockThread, handle: u64, wanted: Wanted, what: &str) -> ! {
    // SAFETY: the block outlives its threads, and only one of them runs at a time.
    let kernel = unsafe { &(*thread.block).kernel };
    let kind = match wanted {
        Wanted::Texture => "texture",
        Wanted::Surface => "surface",
    };
    let text = format!(
        "kernel {kernel} uses {kind} object {handle}, which {what} ({})",
        thread.position()
    );
    thread.fail(KernelFailure {
        error: Error::LAUNCH_FAILURE,
        text,
    })
}

/// The object of a handle: of those that there were at the launch, or made since.
///
/// # Safety
/// No one else has the thread's block: it is the running thread's.
unsafe fn find<'a, T>(
    thread: &mut BlockThread,
    handle: u64,
    wanted: Wanted,
    of: impl Fn(&'a Objects) -> Option<&'a Arc<T>>,
) -> &'a T {
    // SAFETY: the block outlives its threads, and only one of them runs at a time. Its objects are replaced
    // here alone, when nothing has been found among them, and a service keeps none over its return.
    unsafe {
        let shared = thread.block;
        if let Some(found) = of(&(*shared).objects) {
            return found;
        }
        (*shared).objects = (*shared).objects.renewed();
        if let Some(found) = of(&(*shared).objects) {
            return found;
        }
    }
    fail(thread, handle, wanted, objects::why_missing(handle, wanted))
}

/// The service `texture` of `softgpu_image.h`.
///
/// # Safety
/// Called by generated code with its own thread, with four words at `at` and room for four at `result`.
pub unsafe extern "C" fn read(
    thread: *mut image::Thread,
    object: u64,
    geometry: u32,
    kind: u32,
    at: *const u32,
    result: *mut u32,
) {
    // SAFETY: called by generated code with its own thread, and with room for four words at both places. The
    // texels are a program's: where their memory is gone, the fault is the kernel's.
    unsafe {
        let thread = own(thread);
        let found: &TextureObject = find(thread, object, Wanted::Texture, |all| all.texture(object));
        let read = match (Geometry::of(geometry), Fetch::of(kind)) {
            (Some(geometry), Some(fetch)) => {
                found.texture.read(geometry, fetch, at.cast::<[u32; 4]>().read())
            }
            _ => Err("is read in a way that this version does not have".to_owned()),
        };
        match read {
            Ok(value) => result.cast::<[u32; 4]>().write(value),
            Err(what) => fail(thread, object, Wanted::Texture, &what),
        }
    }
}

/// Where a surface access goes; null: nowhere.
///
/// # Safety
/// As the services.
unsafe fn place(
    thread: *mut image::Thread,
    object: u64,
    geometry: u32,
    mode: u32,
    at: *const u32,
    bytes: u32,
) -> *mut u8 {
    // SAFETY: called by generated code with its own thread, and with four words at `at`.
    unsafe {
        let thread = own(thread);
        let found: &SurfaceObject = find(thread, object, Wanted::Surface, |all| all.surface(object));
        let place = match (Geometry::of(geometry), Boundary::of(mode)) {
            (Some(geometry), Some(boundary)) => {
                let at = at.cast::<[u32; 4]>().read();
                found.surface.place(geometry, boundary, at, bytes as usize)
            }
            _ => Err("is accessed in a way that this version does not have".to_owned()),
        };
        match place {
            Ok(address) => address.map_or(std::ptr::null_mut(), |address| address as *mut u8),
            Err(what) => fail(thread, object, Wanted::Surface, &what),
        }
    }
}

/// The service `surface_read` of `softgpu_image.h`.
///
/// # Safety
/// Called by generated code with its own thread, with four words at `at` and room for `bytes` bytes at `to`.
pub unsafe extern "C" fn surface_read(
    thread: *mut image::Thread,
    object: u64,
    geometry: u32,
    mode: u32,
    at: *const u32,
    bytes: u32,
    to: *mut c_void,
) {
    // SAFETY: called by generated code with its own thread, and with room for so many bytes; the place lies
    // in the surface.
    unsafe {
        let from = place(thread, object, geometry, mode, at, bytes);
        match from.is_null() {
            true => to.cast::<u8>().write_bytes(0, bytes as usize),
            false => from.copy_to_nonoverlapping(to.cast(), bytes as usize),
        }
    }
}

/// The service `surface_write` of `softgpu_image.h`.
///
/// # Safety
/// Called by generated code with its own thread, with four words at `at` and `bytes` bytes at `from`.
pub unsafe extern "C" fn surface_write(
    thread: *mut image::Thread,
    object: u64,
    geometry: u32,
    mode: u32,
    at: *const u32,
    bytes: u32,
    from: *const c_void,
) {
    // SAFETY: called by generated code with its own thread, and with so many bytes; the place lies in the
    // surface.
    unsafe {
        let to = place(thread, object, geometry, mode, at, bytes);
        if !to.is_null() {
            to.copy_from_nonoverlapping(from.cast(), bytes as usize);
        }
    }
}
