//! For programs compiled with CUDA 12's headers: functions that take its arguments and structures, and call
//! CUDA 13's. The pass sends those calls here that `mgb_catalogue::twelve` names. Lengths and places of
//! members are those of CUDA 12.4 and 12.9; what CUDA 13 added to other structures stands at their ends.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null;

use mgb_abi::device::{
    ATTRIBUTE_CLOCK_RATE, ATTRIBUTE_COMPUTE_MODE, ATTRIBUTE_GPU_OVERLAP, ATTRIBUTE_KERNEL_EXEC_TIMEOUT,
    ATTRIBUTE_MAX_TEXTURE_1D_LINEAR_WIDTH, ATTRIBUTE_MEMORY_CLOCK_RATE,
    ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
};
use mgb_abi::location::MemLocation;

use crate::code::Code;

type In = *const c_void;
type Out = *mut c_void;

/// The location that CUDA 12 names by a device's number, which is -1 for the host.
fn location_of(device: c_int) -> MemLocation {
    if device < 0 {
        MemLocation::host()
    } else {
        MemLocation::device(device)
    }
}

macro_rules! thirteen {
    ($(fn $name:ident($($argument:ident: $ty:ty),*) = $symbol:literal;)*) => {
        /// CUDA 13's functions under MGB; structures and handles are addresses here.
        #[allow(clashing_extern_declarations, reason = "structures and handles are addresses here")]
        mod thirteen {
            use super::*;
            unsafe extern "C" {
                $(#[link_name = $symbol] pub fn $name($($argument: $ty),*) -> Code;)*
            }
        }
    };
}

thirteen! {
    fn properties(out: Out, device: c_int) = "mgb_cudaGetDeviceProperties";
    fn device_attribute(out: *mut c_int, attribute: c_uint, device: c_int) = "mgb_cudaDeviceGetAttribute";
    fn pointer_attributes(out: Out, pointer: In) = "mgb_cudaPointerGetAttributes";
    fn advise(at: In, bytes: usize, advice: c_int, location: MemLocation) = "mgb_cudaMemAdvise";
    fn prefetch(at: In, bytes: usize, location: MemLocation, flags: c_uint, stream: Out)
        = "mgb_cudaMemPrefetchAsync";
    fn add_node(out: Out, graph: Out, from: In, edges: In, count: usize, node: Out) = "mgb_cudaGraphAddNode";
    fn add_dependencies(graph: Out, from: In, to: In, edges: In, count: usize) = "mgb_cudaGraphAddDependencies";
    fn remove_dependencies(graph: Out, from: In, to: In, edges: In, count: usize) = "mgb_cudaGraphRemoveDependencies";
    fn edges(graph: Out, from: Out, to: Out, edges: In, count: Out) = "mgb_cudaGraphGetEdges";
    fn dependencies(node: Out, out: Out, edges: In, count: Out) = "mgb_cudaGraphNodeGetDependencies";
    fn dependents(node: Out, out: Out, edges: In, count: Out) = "mgb_cudaGraphNodeGetDependentNodes";
    fn update_capture(stream: Out, nodes: In, edges: In, count: usize, flags: c_uint)
        = "mgb_cudaStreamUpdateCaptureDependencies";
    fn capture_info(stream: Out, status: Out, id: Out, graph: Out, nodes: Out, edges: In, count: Out)
        = "mgb_cudaStreamGetCaptureInfo";
    fn texture(out: Out, resource: In, texture: In, view: In) = "mgb_cudaCreateTextureObject";
    fn surface(out: Out, resource: In) = "mgb_cudaCreateSurfaceObject";
    fn texture_resource(out: Out, texture: u64) = "mgb_cudaGetTextureObjectResourceDesc";
    fn texture_view(out: Out, texture: u64) = "mgb_cudaGetTextureObjectResourceViewDesc";
    fn surface_resource(out: Out, surface: u64) = "mgb_cudaGetSurfaceObjectResourceDesc";
    fn import_memory(out: Out, handle: In) = "mgb_cudaImportExternalMemory";
    fn import_semaphore(out: Out, handle: In) = "mgb_cudaImportExternalSemaphore";
    fn mapped_buffer(out: Out, memory: Out, buffer: In) = "mgb_cudaExternalMemoryGetMappedBuffer";
    fn mapped_array(out: Out, memory: Out, array: In) = "mgb_cudaExternalMemoryGetMappedMipmappedArray";
}

/// Room for any of CUDA 13's structures here, zero where the caller has nothing.
#[repr(C, align(16))]
struct LongerStructure([u8; 1024]);

impl LongerStructure {
    const EMPTY: Self = Self([0; 1024]);

    /// A copy of the caller's structure of `bytes`, followed by zeros: what CUDA 13 added to it.
    ///
    /// # Safety
    /// `from` is null or has `bytes` readable bytes.
    unsafe fn longer(from: In, bytes: usize) -> Self {
        let mut room = Self::EMPTY;
        if !from.is_null() {
            // SAFETY: `from` is not null and has `bytes` readable bytes: contract of this function.
            room.0[..bytes].copy_from_slice(unsafe { std::slice::from_raw_parts(from.cast(), bytes) });
        }
        room
    }

    fn out(&mut self) -> Out {
        self.0.as_mut_ptr().cast()
    }

    fn address(&self) -> In {
        self.0.as_ptr().cast()
    }

    /// The address of the copy, or null where the caller gave none.
    fn unless_null(&self, from: In) -> In {
        if from.is_null() { null() } else { self.address() }
    }
}

/// Has `call` write CUDA 13's structure, and gives the caller the first `bytes` of it.
///
/// # Safety
/// `out` is null or has `bytes` writable bytes.
unsafe fn shorter(out: Out, bytes: usize, call: impl FnOnce(Out) -> Code) -> Code {
    if out.is_null() {
        return call(out);
    }
    let mut room = LongerStructure::EMPTY;
    let code = call(room.out());
    if code.is_success() {
        // SAFETY: `out` is not null and has `bytes` writable bytes: contract of this function.
        unsafe { std::slice::from_raw_parts_mut(out.cast(), bytes) }.copy_from_slice(&room.0[..bytes]);
    }
    code
}

/// Bytes of CUDA 12's structures; of those that are given, up to the end of the last member.
const PROPERTIES: usize = 1032;
const POINTER_ATTRIBUTES: usize = 24;
const RESOURCE: usize = 64;
const VIEW: usize = 48;
const MEMORY_HANDLE: usize = 36;
const SEMAPHORE_HANDLE: usize = 28;
const BUFFER: usize = 20;
const MIPMAPPED_ARRAY: usize = 64;

/// What both structures of properties have: its place in CUDA 12's, in CUDA 13's, and its bytes.
const SHARED: [(usize, usize, usize); 10] = [
    (0, 0, 348),
    (352, 352, 32),
    (388, 384, 4),
    (396, 388, 8),
    (408, 396, 8),
    (420, 404, 188),
    (612, 592, 28),
    (640, 624, 28),
    (672, 652, 20),
    (696, 672, 84),
];
/// What only CUDA 12's structure has: its offset, and the attribute with its value.
/// `cooperativeMultiDeviceLaunch` stays 0.
const ATTRIBUTES: [(usize, c_uint); 7] = [
    (348, ATTRIBUTE_CLOCK_RATE),
    (384, ATTRIBUTE_GPU_OVERLAP),
    (392, ATTRIBUTE_KERNEL_EXEC_TIMEOUT),
    (404, ATTRIBUTE_COMPUTE_MODE),
    (416, ATTRIBUTE_MAX_TEXTURE_1D_LINEAR_WIDTH),
    (608, ATTRIBUTE_MEMORY_CLOCK_RATE),
    (668, ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO),
];

fn properties_of_twelve(out: &mut [u8], room: &LongerStructure, device: c_int) {
    out.fill(0);
    for (to, from, bytes) in SHARED {
        out[to..to + bytes].copy_from_slice(&room.0[from..from + bytes]);
    }
    for (to, attribute) in ATTRIBUTES {
        let mut value = 0;
        // SAFETY: the address of an int; the device was found to be one.
        if unsafe { thirteen::device_attribute(&mut value, attribute, device) }.is_success() {
            out[to..to + 4].copy_from_slice(&value.to_ne_bytes());
        }
    }
}

macro_rules! twelve {
    ($(fn $name:ident = $symbol:literal ($($argument:ident: $ty:ty),*) $body:block)*) => { $(
        /// CUDA 12's function of this name.
        ///
        /// # Safety
        /// The arguments meet the contract of CUDA 12's function.
        #[unsafe(export_name = concat!("mgb_cuda12_", $symbol))]
        pub unsafe extern "C" fn $name($($argument: $ty),*) -> Code {
            // SAFETY: the program passed structures of CUDA 12's headers, whose lengths are given: contract
            // of this function.
            unsafe { $body }
        }
    )* };
}

twelve! {
    fn device_properties = "cudaGetDeviceProperties_v2" (out: Out, device: c_int) {
        if out.is_null() {
            return thirteen::properties(out, device);
        }
        let mut room = LongerStructure::EMPTY;
        let code = thirteen::properties(room.out(), device);
        if code.is_success() {
            properties_of_twelve(std::slice::from_raw_parts_mut(out.cast(), PROPERTIES), &room, device);
        }
        code
    }
    fn pointer_attributes = "cudaPointerGetAttributes" (out: Out, pointer: In) {
        shorter(out, POINTER_ATTRIBUTES, |out| thirteen::pointer_attributes(out, pointer))
    }
    fn advise = "cudaMemAdvise" (at: In, bytes: usize, advice: c_int, device: c_int) {
        thirteen::advise(at, bytes, advice, location_of(device))
    }
    fn prefetch = "cudaMemPrefetchAsync" (at: In, bytes: usize, device: c_int, stream: Out) {
        thirteen::prefetch(at, bytes, location_of(device), 0, stream)
    }
    fn add_node = "cudaGraphAddNode" (out: Out, graph: Out, from: In, count: usize, node: Out) {
        thirteen::add_node(out, graph, from, null(), count, node)
    }
    fn add_dependencies = "cudaGraphAddDependencies" (graph: Out, from: In, to: In, count: usize) {
        thirteen::add_dependencies(graph, from, to, null(), count)
    }
    fn remove_dependencies = "cudaGraphRemoveDependencies" (graph: Out, from: In, to: In, count: usize) {
        thirteen::remove_dependencies(graph, from, to, null(), count)
    }
    fn edges = "cudaGraphGetEdges" (graph: Out, from: Out, to: Out, count: Out) {
        thirteen::edges(graph, from, to, null(), count)
    }
    fn dependencies = "cudaGraphNodeGetDependencies" (node: Out, out: Out, count: Out) {
        thirteen::dependencies(node, out, null(), count)
    }
    fn dependents = "cudaGraphNodeGetDependentNodes" (node: Out, out: Out, count: Out) {
        thirteen::dependents(node, out, null(), count)
    }
    fn update_capture = "cudaStreamUpdateCaptureDependencies" (stream: Out, nodes: In, count: usize, flags: c_uint) {
        thirteen::update_capture(stream, nodes, null(), count, flags)
    }
    fn capture_info = "cudaStreamGetCaptureInfo_v2"
        (stream: Out, status: Out, id: Out, graph: Out, nodes: Out, count: Out) {
        thirteen::capture_info(stream, status, id, graph, nodes, null(), count)
    }
    fn texture = "cudaCreateTextureObject" (out: Out, resource: In, texture: In, view: In) {
        let (longer, of_view) = (LongerStructure::longer(resource, RESOURCE), LongerStructure::longer(view, VIEW));
        thirteen::texture(out, longer.unless_null(resource), texture, of_view.unless_null(view))
    }
    fn surface = "cudaCreateSurfaceObject" (out: Out, resource: In) {
        thirteen::surface(out, LongerStructure::longer(resource, RESOURCE).unless_null(resource))
    }
    fn texture_resource = "cudaGetTextureObjectResourceDesc" (out: Out, texture: u64) {
        shorter(out, RESOURCE, |out| thirteen::texture_resource(out, texture))
    }
    fn texture_view = "cudaGetTextureObjectResourceViewDesc" (out: Out, texture: u64) {
        shorter(out, VIEW, |out| thirteen::texture_view(out, texture))
    }
    fn surface_resource = "cudaGetSurfaceObjectResourceDesc" (out: Out, surface: u64) {
        shorter(out, RESOURCE, |out| thirteen::surface_resource(out, surface))
    }
    fn import_memory = "cudaImportExternalMemory" (out: Out, handle: In) {
        thirteen::import_memory(out, LongerStructure::longer(handle, MEMORY_HANDLE).unless_null(handle))
    }
    fn import_semaphore = "cudaImportExternalSemaphore" (out: Out, handle: In) {
        thirteen::import_semaphore(out, LongerStructure::longer(handle, SEMAPHORE_HANDLE).unless_null(handle))
    }
    fn mapped_buffer = "cudaExternalMemoryGetMappedBuffer" (out: Out, memory: Out, buffer: In) {
        thirteen::mapped_buffer(out, memory, LongerStructure::longer(buffer, BUFFER).unless_null(buffer))
    }
    fn mapped_array = "cudaExternalMemoryGetMappedMipmappedArray" (out: Out, memory: Out, array: In) {
        thirteen::mapped_array(out, memory, LongerStructure::longer(array, MIPMAPPED_ARRAY).unless_null(array))
    }
}
