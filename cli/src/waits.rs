//! Waiting for room with a word on standard error, once it takes long.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use mgb_command::watch::MgbdWatch;
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::NodeView;

use crate::status;

/// After this long people are told what is waited for.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it looks what is waited for.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Does what may wait at the mgbd of this socket, as the process of this number there. What it waits for is
/// said once it takes long, and again when that is something else.
pub fn told<T>(socket: &Path, pid: u32, what: impl FnOnce() -> T) -> T {
    let (is_done, done) = channel::<()>();
    let socket = socket.to_owned();
    // Nobody waits for it: a program that takes this one's place ends it. Without it the wait is silent.
    let teller = std::thread::Builder::new().name("waits".to_owned());
    let _ = teller.spawn(move || tell(&socket, pid, &done));
    let result = what();
    drop(is_done);
    result
}

fn tell(socket: &Path, pid: u32, done: &Receiver<()>) {
    let (mut watch, mut told, mut patience) = (None, String::new(), NOTICE_TIMEOUT);
    while done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
        patience = CHECK_INTERVAL;
        if watch.is_none() {
            watch = MgbdWatch::begin(socket).ok();
        }
        let view = watch.as_mut().and_then(|watch| watch.status().ok());
        let say = sentence(view.as_ref(), pid);
        let is_over = done.recv_timeout(Duration::ZERO) != Err(RecvTimeoutError::Timeout);
        if !is_over && say != told {
            mgb_command::tell!("mgb: {say}");
            told = say;
        }
    }
}

/// What this process waits for.
fn sentence(view: Option<&NodeView>, pid: u32) -> String {
    let Some(view) = view else {
        return "waits for mgbd, which does not answer".to_owned();
    };
    let Some(wait) = view.queue.iter().find(|wait| wait.pid == pid) else {
        return "waits for mgbd: `mgb status`".to_owned();
    };
    let why = status::reason(wait).map_or(String::new(), |why| format!(" ({why})"));
    format!(
        "waits for {} of GPU memory{why}: `mgb status` says who has it",
        Bytes(wait.bytes)
    )
}
