//! Streams and events.

use std::time::Duration;

use mgb_abi::error::Code;
use mgb_abi::stream::{EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING};

use super::table::{Driver, Event, Stream, call, written};

impl Driver {
    /// A stream that waits for no other, in the thread's context.
    pub fn stream(&self) -> Result<Stream, Code> {
        let mut stream = 0;
        let code = call!(self.cuStreamCreate(&mut stream, STREAM_NON_BLOCKING));
        written(stream, code)
    }

    /// Ends a stream, once its work is done.
    pub fn end_stream(&self, stream: Stream) -> Code {
        call!(self.cuStreamDestroy_v2(stream))
    }

    /// Whether a stream's work is done: [`Code::SUCCESS`] if so.
    pub fn query(&self, stream: Stream) -> Code {
        call!(self.cuStreamQuery(stream))
    }

    /// An event at the present end of a stream of the thread's context.
    ///
    /// # Errors
    /// The driver's, as for a stream of another context.
    pub fn record(&self, stream: Stream) -> Result<Event, Code> {
        let mut event = 0;
        let code = call!(self.cuEventCreate(&mut event, EVENT_DISABLE_TIMING));
        let event = written(event, code)?;
        let code = call!(self.cuEventRecord(event, stream));
        if code != Code::SUCCESS {
            self.end_event(event);
        }
        written(event, code)
    }

    /// An event of the thread's context that notes the time when it passes.
    pub fn timed_event(&self) -> Result<Event, Code> {
        let mut event = 0;
        let code = call!(self.cuEventCreate(&mut event, 0));
        written(event, code)
    }

    /// Puts an event at the present end of a stream of the event's context.
    pub fn record_again(&self, event: Event, stream: Stream) -> Code {
        call!(self.cuEventRecord(event, stream))
    }

    /// The time from one event to another, both of which have passed and note the time.
    pub fn elapsed(&self, first: Event, second: Event) -> Option<Duration> {
        let mut milliseconds = 0.0;
        let code = call!(self.cuEventElapsedTime(&mut milliseconds, first, second));
        let seconds = (code == Code::SUCCESS).then_some(f64::from(milliseconds) / 1000.0)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Whether an event has passed: [`Code::SUCCESS`] if so, [`Code::NOT_READY`] if not.
    pub fn query_event(&self, event: Event) -> Code {
        call!(self.cuEventQuery(event))
    }

    /// Ends an event.
    pub fn end_event(&self, event: Event) -> Code {
        call!(self.cuEventDestroy_v2(event))
    }

    /// Whether a stream captures.
    pub fn is_capturing(&self, stream: Stream) -> bool {
        let mut status = 0;
        let code = call!(self.cuStreamIsCapturing(stream, &mut status));
        code != Code::SUCCESS || status != 0
    }
}
