//! Streams and events of lazyrt's own: handles that belong to no GPU.
//!
//! A program makes streams and events before it is known where its tasks will run, and one stream may
//! carry work of tasks on several GPUs. So a handle is a slot of lazyrt's, and the runtime's own object
//! is made on each GPU where the handle is used ([`stream`], [`event`]). Work that continues on another
//! GPU waits for what the stream was given before.
//!
//! In an open process handles are the runtime's own, for code that lazyrt does not see may get them.

mod across;
pub mod capture;
pub mod capture_wait;
pub mod default;
mod early;
pub mod event;
pub mod foreign;
mod slot;
pub mod stream;
mod translate;

pub use self::early::context_made;
pub use self::slot::{HandleKind, context_gone, forget, is_own, program_handle};
pub use self::stream::on;
pub use self::translate::translate;
