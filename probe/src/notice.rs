//! The one line a program prints when it runs without `mgbd`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::connect::ConnectError;
use crate::site::{self, WithoutMgbd};

/// What `MGB` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeMode {
    /// Use `mgbd` where there is one.
    Auto,
    /// Run natively, silently.
    Off,
    /// Do not run without.
    Require,
}

/// Reads `MGB`: `off` (also `0`, `no`), `require`, else automatic.
pub(crate) fn mode() -> NoticeMode {
    match std::env::var("MGB").as_deref() {
        Ok("off" | "0" | "no") => NoticeMode::Off,
        Ok("require") => NoticeMode::Require,
        _ => NoticeMode::Auto,
    }
}

static SAID: AtomicBool = AtomicBool::new(false);

/// Says once per program that it runs natively; ends the program if it insists
/// on MGB, or the node's administrator does.
pub(crate) fn native(mode: NoticeMode, error: &ConnectError) {
    if mode == NoticeMode::Require {
        mgb_stderr::say!("mgb: MGB=require is set, and {error}");
        std::process::exit(1);
    }
    match site::without_mgbd() {
        Ok(WithoutMgbd::Native) => {}
        Ok(WithoutMgbd::Refuse) => {
            mgb_stderr::say!(
                "mgb: {} has programs run under mgbd alone, and {error}",
                site::FILE
            );
            std::process::exit(1);
        }
        Err(mistake) => {
            mgb_stderr::say!("mgb: {error}; whether the program may run without is not known: {mistake}");
            std::process::exit(1);
        }
    }
    if !SAID.swap(true, Ordering::Relaxed) {
        mgb_stderr::say!("mgb: {error}; running natively (MGB=off silences this)");
    }
}
