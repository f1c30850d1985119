//! Texture and surface objects: what can be made, and what they say of themselves. What kernels read through
//! them is the conformance set's.

mod common;

use common::{in_child, ok};
use mgb_abi::array::{ARRAY_LAYERED, ARRAY_SURFACE_LOAD_STORE, ChannelFormatDesc};
use mgb_abi::copy3d::CudaExtent;
use mgb_abi::texture::*;
use softgpu::cudart::array::{cudaFreeArray, cudaMalloc3DArray, cudaMallocArray};
use softgpu::cudart::channel::cudaCreateChannelDesc;
use softgpu::cudart::device::{cudaDeviceGetAttribute, cudaDeviceReset};
use softgpu::cudart::memory::cudaMalloc;
use softgpu::cudart::surface::*;
use softgpu::cudart::texture::*;
use softgpu::driver::texture::{cuTexObjectGetResourceDesc, cuTexObjectGetTextureDesc};

const DEVICES: &str = "1x64MiB";
const INVALID_VALUE: i32 = 1;
const INVALID_CHANNEL_DESCRIPTOR: i32 = 20;
const INVALID_FILTER_SETTING: i32 = 26;
const INVALID_HANDLE: i32 = 400;
const NOT_SUPPORTED: i32 = 801;

fn bytes() -> ChannelFormatDesc {
    cudaCreateChannelDesc(8, 8, 0, 0, 1)
}

fn memory() -> usize {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: an out pointer of our own.
    ok(unsafe { cudaMalloc(&mut pointer, 1 << 20) });
    pointer as usize
}

fn array(flags: u32) -> usize {
    let mut array = 0;
    // SAFETY: an out pointer and a description of our own.
    ok(unsafe { cudaMallocArray(&mut array, &bytes(), 16, 8, flags) });
    array
}

fn of_array(array: usize) -> ResourceDesc {
    ResourceDesc {
        kind: RESOURCE_ARRAY,
        resource: Resource { array },
        flags: 0,
    }
}

fn linear(address: usize, format: ChannelFormatDesc, bytes: usize) -> ResourceDesc {
    let linear = Linear {
        address,
        format,
        bytes,
    };
    ResourceDesc {
        kind: RESOURCE_LINEAR,
        resource: Resource { linear },
        flags: 0,
    }
}

fn pitched(address: usize, width: usize, height: usize, pitch: usize) -> ResourceDesc {
    let pitched = Pitch2D {
        address,
        format: bytes(),
        width,
        height,
        pitch,
    };
    ResourceDesc {
        kind: RESOURCE_PITCH_2D,
        resource: Resource { pitched },
        flags: 0,
    }
}

fn make(resource: &ResourceDesc, settings: &TextureDesc, view: Option<&ResourceViewDesc>) -> (i32, u64) {
    let mut object = 0;
    let view = view.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: an out pointer and descriptions of the test.
    let code = unsafe { cudaCreateTextureObject(&mut object, resource, settings, view) };
    (code, object)
}

/// The code that making a texture object gives.
fn code(resource: &ResourceDesc, settings: TextureDesc) -> i32 {
    make(resource, &settings, None).0
}

#[test]
fn objects_are_made_of_what_textures_can_read() {
    in_child("objects_are_made_of_what_textures_can_read", DEVICES, || {
        let (memory, array) = (memory(), array(0));
        let plain = TextureDesc::default();
        for good in [
            of_array(array),
            linear(memory, bytes(), 100),
            pitched(memory + 512, 100, 10, 224),
        ] {
            assert_eq!(code(&good, plain), 0);
        }
        let three = cudaCreateChannelDesc(8, 8, 8, 0, 1);
        let here = std::ptr::from_ref(&plain) as usize;
        for (bad, wanted) in [
            (of_array(array + 1), INVALID_HANDLE),
            (linear(memory + 256, bytes(), 100), INVALID_VALUE),
            (linear(memory, bytes(), 1), INVALID_VALUE),
            (linear(memory, bytes(), 1 << 40), INVALID_VALUE),
            (linear(here / 512 * 512, bytes(), 100), INVALID_VALUE),
            (linear(memory, three, 100), INVALID_CHANNEL_DESCRIPTOR),
            (pitched(memory, 100, 10, 200), INVALID_VALUE),
            (pitched(memory, 113, 10, 224), INVALID_VALUE),
            (pitched(memory, 100, 65_001, 224), INVALID_VALUE),
            (
                ResourceDesc {
                    flags: 1,
                    ..of_array(array)
                },
                INVALID_VALUE,
            ),
            (
                ResourceDesc {
                    kind: 7,
                    ..of_array(array)
                },
                INVALID_VALUE,
            ),
        ] {
            assert_eq!(code(&bad, plain), wanted);
        }
        for (bad, wanted) in [
            (
                TextureDesc {
                    filter: FILTER_LINEAR,
                    ..plain
                },
                INVALID_FILTER_SETTING,
            ),
            (TextureDesc { filter: 2, ..plain }, INVALID_VALUE),
            (TextureDesc { read: 2, ..plain }, INVALID_VALUE),
            (
                TextureDesc {
                    address: [0, 0, 4],
                    ..plain
                },
                INVALID_VALUE,
            ),
        ] {
            assert_eq!(code(&of_array(array), bad), wanted);
        }
        let promoted = TextureDesc {
            filter: FILTER_LINEAR,
            read: READ_NORMALIZED_FLOAT,
            ..plain
        };
        assert_eq!(code(&of_array(array), promoted), 0);
    });
}

#[test]
fn what_there_is_not_is_named() {
    let said = in_child("what_there_is_not_is_named", DEVICES, || {
        let array = array(0);
        let mipmapped = ResourceDesc {
            kind: RESOURCE_MIPMAPPED_ARRAY,
            ..of_array(array)
        };
        assert_eq!(code(&mipmapped, TextureDesc::default()), NOT_SUPPORTED);
        let blocks = ResourceViewDesc {
            format: VIEW_FORMAT_FLOAT4 + 1,
            ..ResourceViewDesc::default()
        };
        assert_eq!(
            make(&of_array(array), &TextureDesc::default(), Some(&blocks)).0,
            NOT_SUPPORTED
        );
    });
    assert!(said.contains("no mipmapped arrays"), "{said}");
    assert!(said.contains("no views of compressed blocks"), "{said}");
}

#[test]
fn a_view_shows_a_part_of_an_array() {
    in_child("a_view_shows_a_part_of_an_array", DEVICES, || {
        let mut layers = 0;
        let extent = CudaExtent {
            width: 16,
            height: 8,
            depth: 4,
        };
        // SAFETY: an out pointer and a description of our own.
        ok(unsafe { cudaMalloc3DArray(&mut layers, &bytes(), extent, ARRAY_LAYERED) });
        let whole = ResourceViewDesc {
            width: 16,
            height: 8,
            depth: 4,
            last_layer: 3,
            ..ResourceViewDesc::default()
        };
        let code = |view: ResourceViewDesc| make(&of_array(layers), &TextureDesc::default(), Some(&view)).0;
        // Two bytes are also one of 16 bits, but none of 32.
        for (view, wanted) in [
            (whole, 0),
            (
                ResourceViewDesc {
                    first_layer: 3,
                    ..whole
                },
                0,
            ),
            (
                ResourceViewDesc {
                    format: 0x07,
                    ..whole
                },
                0,
            ),
            (
                ResourceViewDesc {
                    format: 0x0d,
                    ..whole
                },
                INVALID_VALUE,
            ),
            (ResourceViewDesc { width: 15, ..whole }, INVALID_VALUE),
            (
                ResourceViewDesc {
                    last_layer: 4,
                    ..whole
                },
                INVALID_VALUE,
            ),
            (
                ResourceViewDesc {
                    first_layer: 2,
                    last_layer: 1,
                    ..whole
                },
                INVALID_VALUE,
            ),
            (
                ResourceViewDesc {
                    last_level: 1,
                    ..whole
                },
                INVALID_VALUE,
            ),
        ] {
            assert_eq!(code(view), wanted, "{view:?}");
        }
        let settings = TextureDesc::default();
        assert_eq!(
            make(&linear(memory(), bytes(), 32), &settings, Some(&whole)).0,
            INVALID_VALUE
        );
        let (_, object) = make(&of_array(layers), &settings, Some(&whole));
        let mut found = ResourceViewDesc::default();
        // SAFETY: an out pointer of our own.
        ok(unsafe { cudaGetTextureObjectResourceViewDesc(&mut found, object) });
        assert_eq!(found, whole);
    });
}

#[test]
fn objects_say_what_they_were_made_of() {
    in_child("objects_say_what_they_were_made_of", DEVICES, || {
        let memory = memory();
        let settings = TextureDesc {
            address: [ADDRESS_MIRROR, ADDRESS_BORDER, ADDRESS_WRAP],
            normalized: 1,
            border: [1.0, 2.0, 3.0, 4.0],
            ..TextureDesc::default()
        };
        let (code, object) = make(&pitched(memory, 100, 10, 224), &settings, None);
        ok(code);
        let mut resource = of_array(0);
        let mut found = TextureDesc::default();
        let mut driver = DriverTextureDesc::default();
        // SAFETY: out pointers of our own; the union holds what its kind says.
        unsafe {
            ok(cudaGetTextureObjectResourceDesc(&mut resource, object));
            assert_eq!(resource.kind, RESOURCE_PITCH_2D);
            let of = resource.resource.pitched;
            assert_eq!(
                (of.address, of.width, of.height, of.pitch),
                (memory, 100, 10, 224)
            );
            assert_eq!(of.format, bytes());
            ok(cudaGetTextureObjectTextureDesc(&mut found, object));
            assert_eq!(found, settings);
            ok(cuTexObjectGetTextureDesc(&mut driver, object));
            assert_eq!(driver.flags, FLAG_READ_AS_INTEGER | FLAG_NORMALIZED_COORDINATES);
            let mut of_driver = DriverResourceDesc {
                kind: 9,
                resource: DriverResource { array: 0 },
                flags: 0,
            };
            ok(cuTexObjectGetResourceDesc(&mut of_driver, object));
            assert_eq!(
                (of_driver.kind, of_driver.resource.pitched.channels),
                (RESOURCE_PITCH_2D, 2)
            );
            let mut view = ResourceViewDesc::default();
            ok(cudaGetTextureObjectResourceViewDesc(&mut view, object));
            assert_eq!(view.format, 0);
            ok(cudaDestroyTextureObject(object));
            assert_eq!(cudaDestroyTextureObject(object), INVALID_VALUE);
            assert_eq!(cudaGetTextureObjectTextureDesc(&mut found, object), INVALID_VALUE);
        }
    });
}

#[test]
fn surfaces_are_of_arrays_made_for_them() {
    in_child("surfaces_are_of_arrays_made_for_them", DEVICES, || {
        let (array, other) = (array(ARRAY_SURFACE_LOAD_STORE), array(0));
        let mut object = 0;
        let mut make = |resource: ResourceDesc| {
            // SAFETY: an out pointer and a description of our own.
            unsafe { cudaCreateSurfaceObject(&mut object, &resource) }
        };
        assert_eq!(make(of_array(other)), INVALID_VALUE);
        assert_eq!(make(linear(memory(), bytes(), 32)), INVALID_VALUE);
        ok(make(of_array(array)));
        let mut resource = of_array(0);
        // SAFETY: out pointers of our own; the union holds what its kind says.
        unsafe {
            ok(cudaGetSurfaceObjectResourceDesc(&mut resource, object));
            assert_eq!((resource.kind, resource.resource.array), (RESOURCE_ARRAY, array));
            // A handle of the other kind is none.
            assert_eq!(cudaDestroyTextureObject(object), INVALID_VALUE);
            ok(cudaDestroySurfaceObject(object));
            assert_eq!(cudaDestroySurfaceObject(object), INVALID_VALUE);
            ok(cudaFreeArray(array));
        }
    });
}

#[test]
fn a_reset_takes_objects_along() {
    in_child("a_reset_takes_objects_along", DEVICES, || {
        let (_, object) = make(&of_array(array(0)), &TextureDesc::default(), None);
        let mut width = 0;
        // SAFETY: an out pointer of our own.
        unsafe {
            ok(cudaDeviceGetAttribute(&mut width, 69, 0));
            assert_eq!(width, 1 << 28);
            ok(cudaDeviceReset());
            assert_eq!(cudaDestroyTextureObject(object), INVALID_VALUE);
        }
    });
}
