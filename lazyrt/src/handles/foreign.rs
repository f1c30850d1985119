//! Streams of the runtime's own: on which GPU each was made.
//!
//! In an open process streams are the runtime's, and a copy between devices goes by the GPU of its stream.
//! The runtime tells the device of a stream, but not of one that captures: asking ends the capture (measured
//! with driver 580: `cudaStreamGetDevice` gives `cudaErrorStreamCaptureUnsupported` in every capture mode,
//! and the capture is invalid from there on). So lazyrt notes the GPU as the program makes the stream.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;

use crate::native::Stream;

/// By handle: the GPU, index into the hello.
static GPUS: LazyLock<RwLock<HashMap<usize, u32>>> = LazyLock::new(RwLock::default);

/// The program made the stream on that GPU.
pub fn note(stream: Stream, gpu: u32) {
    GPUS.write().insert(stream.addr(), gpu);
}

/// The program destroyed the stream, whose handle may come again.
pub fn forget(stream: Stream) {
    GPUS.write().remove(&stream.addr());
}

/// All streams on the GPU are gone with its context.
pub fn context_gone(gpu: u32) {
    GPUS.write().retain(|_, there| *there != gpu);
}

/// The GPU of a stream that the program made.
pub fn gpu_of(stream: Stream) -> Option<u32> {
    GPUS.read().get(&stream.addr()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_known_until_they_end() {
        let streams = [0x9000, 0x9100, 0x9200].map(|at: usize| at as Stream);
        for (stream, gpu) in streams.into_iter().zip([6, 7, 7]) {
            note(stream, gpu);
        }
        assert_eq!(streams.map(gpu_of), [Some(6), Some(7), Some(7)]);
        forget(streams[1]);
        note(streams[1], 6);
        context_gone(7);
        assert_eq!(streams.map(gpu_of), [Some(6), Some(6), None]);
        context_gone(6);
        assert_eq!(streams.map(gpu_of), [None; 3]);
    }
}
