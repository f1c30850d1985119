//! Hints: what a programmer knows of a function's tasks, and says with the macros of `mgb.h`.
//!
//! A hint is a call of `llvm.annotation` with a text of ours. It is inlined with the ops around it, and code generation
//! makes nothing of it, with MGB or without.
use mgb_catalogue::report::Code;

use crate::host::ir::Value;
use crate::host::ir::expr::{self, Expr};
use crate::host::reason::Why;

/// What `MGB_NEVER_MOVE` leaves.
const NEVER_MOVE: &[u8] = b"mgb.never-move\0";
/// What `MGB_NEVER_SHARE` leaves.
const NEVER_SHARE: &[u8] = b"mgb.never-share\0";

/// What `MGB_NEED` leaves.
const NEED: &[u8] = b"mgb.need\0";

/// The bytes that the source says the tasks of a prepared function need, where the pass cannot tell.
pub fn need(function: Value) -> Option<Expr> {
    let mut hints = function
        .instructions()
        .filter(|&call| text(call).as_deref() == Some(NEED));
    let bytes = hints.next()?.arguments().next()?;
    Some(expr::zext(64, Expr::of(bytes)))
}

/// Why the tasks of a prepared function may not move: the hints in it that say so, in the order they stand.
pub fn never_move(function: Value) -> Vec<Why> {
    said(
        function,
        NEVER_MOVE,
        Code::Anchored,
        "the source says MGB_NEVER_MOVE",
    )
}

/// Why the tasks of a prepared function are to have a GPU for themselves, likewise.
pub fn never_share(function: Value) -> Vec<Why> {
    said(
        function,
        NEVER_SHARE,
        Code::Alone,
        "the source says MGB_NEVER_SHARE",
    )
}

fn said(function: Value, hint: &[u8], code: Code, words: &str) -> Vec<Why> {
    function
        .instructions()
        .filter(|&call| text(call).as_deref() == Some(hint))
        .map(|call| Why::new(code, words, call))
        .collect()
}

/// The text of an annotation, with its zero byte.
fn text(call: Value) -> Option<Vec<u8>> {
    let callee = call.callee()?;
    if !callee.name().starts_with("llvm.annotation.") {
        return None;
    }
    call.arguments().nth(1)?.text()
}
