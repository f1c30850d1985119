//! The texture and surface objects of each device, by their handles.
//!
//! A launch keeps those that there are when it is called, so that kernels look them up without a lock, and
//! what is destroyed meanwhile stays as long as a kernel may read through it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mgb_abi::texture::{DriverResourceDesc, DriverTextureDesc, ResourceViewDesc};
use parking_lot::RwLock;

use super::sample::Texture;
use super::surface::Surface;

/// A texture object, and what it was made of.
#[allow(missing_docs)]
pub struct TextureObject {
    pub texture: Texture,
    pub resource: DriverResourceDesc,
    pub settings: DriverTextureDesc,
    pub view: Option<ResourceViewDesc>,
}

/// A surface object, and what it was made of.
#[allow(missing_docs)]
pub struct SurfaceObject {
    pub surface: Surface,
    pub resource: DriverResourceDesc,
}

/// The objects of a device.
#[derive(Clone, Default)]
pub struct Objects {
    ordinal: usize,
    textures: BTreeMap<u64, Arc<TextureObject>>,
    surfaces: BTreeMap<u64, Arc<SurfaceObject>>,
}

static DEVICES: RwLock<BTreeMap<usize, Arc<Objects>>> = RwLock::new(BTreeMap::new());

/// Handles are never used again, so that one of what is gone names nothing else.
fn next_handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// The objects that a device has now.
pub fn of(ordinal: usize) -> Arc<Objects> {
    if let Some(found) = DEVICES.read().get(&ordinal) {
        return found.clone();
    }
    Arc::new(Objects {
        ordinal,
        ..Objects::default()
    })
}

/// Drops the objects of a device whose context goes.
pub fn forget(ordinal: usize) {
    DEVICES.write().remove(&ordinal);
}

fn change(ordinal: usize, change: impl FnOnce(&mut Objects)) {
    let mut devices = DEVICES.write();
    let objects = devices.entry(ordinal).or_insert_with(|| {
        Arc::new(Objects {
            ordinal,
            ..Objects::default()
        })
    });
    change(Arc::make_mut(objects));
}

/// Keeps a texture object of a device; returns its handle.
pub fn add_texture(ordinal: usize, object: TextureObject) -> u64 {
    let handle = next_handle();
    change(ordinal, |objects| {
        objects.textures.insert(handle, Arc::new(object));
    });
    handle
}

/// Keeps a surface object of a device; returns its handle.
pub fn add_surface(ordinal: usize, object: SurfaceObject) -> u64 {
    let handle = next_handle();
    change(ordinal, |objects| {
        objects.surfaces.insert(handle, Arc::new(object));
    });
    handle
}

/// The texture object of a handle, of whichever device.
pub fn texture(handle: u64) -> Option<Arc<TextureObject>> {
    DEVICES
        .read()
        .values()
        .find_map(|objects| objects.texture(handle).cloned())
}

/// The surface object of a handle, of whichever device.
pub fn surface(handle: u64) -> Option<Arc<SurfaceObject>> {
    DEVICES
        .read()
        .values()
        .find_map(|objects| objects.surface(handle).cloned())
}

/// Drops a texture object; whether there was one.
pub fn remove_texture(handle: u64) -> bool {
    let owner = DEVICES
        .read()
        .values()
        .find(|one| one.texture(handle).is_some())
        .map(|one| one.ordinal);
    owner
        .inspect(|&ordinal| change(ordinal, |objects| drop(objects.textures.remove(&handle))))
        .is_some()
}

/// Drops a surface object; whether there was one.
pub fn remove_surface(handle: u64) -> bool {
    let owner = DEVICES
        .read()
        .values()
        .find(|one| one.surface(handle).is_some())
        .map(|one| one.ordinal);
    owner
        .inspect(|&ordinal| change(ordinal, |objects| drop(objects.surfaces.remove(&handle))))
        .is_some()
}

impl Objects {
    /// The texture object of a handle.
    pub fn texture(&self, handle: u64) -> Option<&Arc<TextureObject>> {
        self.textures.get(&handle)
    }

    /// The surface object of a handle.
    pub fn surface(&self, handle: u64) -> Option<&Arc<SurfaceObject>> {
        self.surfaces.get(&handle)
    }

    /// What the device has now, where that is more than this.
    pub fn renewed(&self) -> Arc<Objects> {
        of(self.ordinal)
    }
}

/// Why a device has no texture object, or no surface object, of a handle.
pub fn why_missing(handle: u64, wanted: Wanted) -> &'static str {
    match (texture(handle), surface(handle), wanted) {
        (Some(_), _, Wanted::Texture) | (_, Some(_), Wanted::Surface) => "belongs to another device",
        (Some(_), _, Wanted::Surface) => "is a texture object",
        (_, Some(_), Wanted::Texture) => "is a surface object",
        (None, None, _) => "was never created, or is destroyed",
    }
}

/// What a kernel takes a handle for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Wanted {
    Texture,
    Surface,
}
