//! Batches of copies and of prefetches. The copies of a batch are in the order of one stream, so they run on
//! its GPU, which is lent the objects that lie on others; locations named in hints are the program's.

use std::ffi::c_void;

use mgb_abi::copy::MemcpyAttributes;
use mgb_abi::copy3d::{CudaExtent, Memcpy3DBatchOp, Memcpy3DOperand, OPERAND_POINTER, Pos};
use mgb_abi::location::MemLocation;

use super::boxes::plane;
use super::copy::{claim, task_of};
use super::locations::NamesDevice;
use super::span::Span;
use super::{passthrough, run};
use crate::code::{Answer, Code, Own};
use crate::handles::on;
use crate::native::Stream;
use crate::task_binding::Asked;
use crate::{state, thread};

/// The caller's list, empty where there is none.
///
/// # Safety
/// `pointer` is null or has `count` elements, which outlive `'a`.
unsafe fn list<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: a `pointer` that is not null has `count` elements, which outlive the slice: contract of this
    // function.
    unsafe { std::slice::from_raw_parts(pointer, count) }
}

/// Runs a call that touches these spans.
fn on_spans(spans: impl Iterator<Item = Span>, stream: Stream, call: impl FnOnce(Stream) -> Code) -> Answer {
    let hint = thread::with(|thread| thread.take_hint());
    let mut state = state::lock();
    let mut keys = Vec::new();
    for span in spans.filter(|span| span.bytes != 0) {
        if let Some(key) = task_of(&state, span)? {
            let key = claim(&mut state, hint, key);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let other = state.task_of_hint(hint);
    drop(state);
    match keys[..] {
        [] => run::on_task(other, Asked::default(), || on(stream, call)),
        [key] => run::on_objects(key, Some(stream), || on(stream, call)),
        _ => run::on_several(&keys, stream, || on(stream, call)),
    }
}

type Copies = unsafe extern "C" fn(
    *const *mut c_void,
    *const *const c_void,
    *const usize,
    usize,
    *const MemcpyAttributes,
    *const usize,
    usize,
    Stream,
) -> Code;

/// `cudaMemcpyBatchAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyBatchAsync`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn copies(
    native: Copies,
    to: *const *mut c_void,
    from: *const *const c_void,
    sizes: *const usize,
    count: usize,
    attributes: *const MemcpyAttributes,
    starts: *const usize,
    attribute_count: usize,
    stream: Stream,
) -> Answer {
    // SAFETY: the lists are null or of the lengths that the program passed: contract of
    // `cudaMemcpyBatchAsync`.
    let (tos, froms, bytes, asked) = unsafe {
        (
            list(to, count),
            list(from, count),
            list(sizes, count),
            list(attributes, attribute_count),
        )
    };
    let real = |attributes: &MemcpyAttributes| {
        Ok(MemcpyAttributes {
            src_location_hint: attributes.src_location_hint.real()?,
            dst_location_hint: attributes.dst_location_hint.real()?,
            ..*attributes
        })
    };
    let real: Vec<MemcpyAttributes> = asked.iter().map(real).collect::<Result<_, Own>>()?;
    let attributes = if real.is_empty() {
        attributes
    } else {
        real.as_ptr()
    };
    let spans = |addresses: Vec<u64>| {
        let spans = addresses.into_iter().zip(bytes);
        spans.map(|(address, &bytes)| Span {
            address,
            bytes: bytes as u64,
        })
    };
    let written = spans(tos.iter().map(|&address| address as u64).collect());
    let read = spans(froms.iter().map(|&address| address as u64).collect());
    on_spans(written.chain(read), stream, |stream| {
        // SAFETY: the program's lists, and attributes in which only the locations differ: contract of
        // `cudaMemcpyBatchAsync`.
        unsafe {
            native(
                to,
                from,
                sizes,
                count,
                attributes,
                starts,
                attribute_count,
                stream,
            )
        }
    })
}

fn is_array(operand: &Memcpy3DOperand) -> bool {
    operand.kind != OPERAND_POINTER
}

/// An operand whose hint has the real number of its device.
fn real(operand: Memcpy3DOperand) -> Result<Memcpy3DOperand, Own> {
    if is_array(&operand) {
        return Ok(operand);
    }
    let location_hint = operand.location_hint.real()?;
    Ok(Memcpy3DOperand {
        location_hint,
        ..operand
    })
}

fn span(operand: &Memcpy3DOperand, extent: CudaExtent) -> Span {
    let or = |value: usize, other: usize| if value == 0 { other } else { value };
    let pitch = or(operand.row_length, extent.width);
    let rows = or(operand.layer_height, extent.height);
    let memory = plane(operand.object as u64, pitch, extent.width, rows);
    Span::of_box(&memory, Pos::default(), extent)
}

type Boxes = unsafe extern "C" fn(usize, *const Memcpy3DBatchOp, u64, Stream) -> Code;

/// `cudaMemcpy3DBatchAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy3DBatchAsync`.
pub unsafe fn boxes(
    native: Boxes,
    count: usize,
    all: *const Memcpy3DBatchOp,
    flags: u64,
    stream: Stream,
) -> Answer {
    // SAFETY: `all` is null or has `count` elements: contract of `cudaMemcpy3DBatchAsync`.
    let asked = unsafe { list(all, count) };
    let translated = |copy: &Memcpy3DBatchOp| {
        Ok(Memcpy3DBatchOp {
            src: real(copy.src)?,
            dst: real(copy.dst)?,
            ..*copy
        })
    };
    let real: Vec<Memcpy3DBatchOp> = asked.iter().map(translated).collect::<Result<_, Own>>()?;
    let all = if real.is_empty() { all } else { real.as_ptr() };
    // SAFETY: `all` is the program's list, or as many copies with real locations: contract of
    // `cudaMemcpy3DBatchAsync`.
    let call = |stream| unsafe { native(count, all, flags, stream) };
    if asked
        .iter()
        .any(|copy| is_array(&copy.src) || is_array(&copy.dst))
    {
        thread::with(|thread| thread.take_hint());
        return passthrough::run(|| on(stream, call));
    }
    let spans = asked
        .iter()
        .flat_map(|copy| [span(&copy.dst, copy.extent), span(&copy.src, copy.extent)]);
    on_spans(spans, stream, call)
}

type Prefetches = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut usize,
    usize,
    *const MemLocation,
    *mut usize,
    usize,
    u64,
    Stream,
) -> Code;

/// `cudaMemPrefetchBatchAsync`, `cudaMemDiscardAndPrefetchBatchAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemPrefetchBatchAsync`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn prefetches(
    native: Prefetches,
    pointers: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    locations: *const MemLocation,
    starts: *mut usize,
    location_count: usize,
    flags: u64,
    stream: Stream,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: `locations` is null or has `location_count` elements: contract of `cudaMemPrefetchBatchAsync`.
    let asked = unsafe { list(locations, location_count) };
    let real: Vec<MemLocation> = asked
        .iter()
        .map(|location| location.real())
        .collect::<Result<_, Own>>()?;
    let locations = if real.is_empty() { locations } else { real.as_ptr() };
    passthrough::run(|| {
        // SAFETY: the program's lists, and as many locations with real ordinals: contract of
        // `cudaMemPrefetchBatchAsync`.
        on(stream, |stream| unsafe {
            native(
                pointers,
                sizes,
                count,
                locations,
                starts,
                location_count,
                flags,
                stream,
            )
        })
    })
}
