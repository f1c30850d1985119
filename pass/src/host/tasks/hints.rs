//! Hints: what the source states about the tasks of a function with the macros of `mgb.h`.
//!
//! A hint is a call of `llvm.annotation` with one of the texts below. It is inlined with the ops around it,
//! and no code is generated for it, with or without MGB.
use mgb_catalogue::report::ReasonCode;

use crate::host::ir::Value;
use crate::host::ir::expr::{self, Expr};
use crate::host::reason::Why;

/// The annotation of `MGB_NEVER_MOVE`.
const NEVER_MOVE: &[u8] = b"mgb.never-move\0";
/// The annotation of `MGB_NEVER_SHARE`.
const NEVER_SHARE: &[u8] = b"mgb.never-share\0";

/// The annotation of `MGB_NEED`.
const NEED: &[u8] = b"mgb.need\0";

/// The annotation of `MGB_DEADLINE`.
const DEADLINE: &[u8] = b"mgb.deadline\0";

/// In how many milliseconds the source wants the results of the tasks of a prepared function.
pub fn deadline(function: Value) -> Option<Expr> {
    said_number(function, DEADLINE)
}

/// The bytes that the source states as the need of the tasks of a prepared function, for where the pass
/// cannot compute it.
pub fn need(function: Value) -> Option<Expr> {
    said_number(function, NEED)
}

/// What the first hint of a kind says, where that is a number.
fn said_number(function: Value, hint: &[u8]) -> Option<Expr> {
    let mut hints = function
        .instructions()
        .filter(|&call| text(call).as_deref() == Some(hint));
    let number = hints.next()?.arguments().next()?;
    Some(expr::zext(64, Expr::of(number)))
}

/// Why the tasks of a prepared function may not move: the hints for it, in program order.
pub fn never_move(function: Value) -> Vec<Why> {
    said(
        function,
        NEVER_MOVE,
        ReasonCode::Anchored,
        "the source says MGB_NEVER_MOVE",
    )
}

/// Why the tasks of a prepared function must not share a GPU: the hints for it, in program order.
pub fn never_share(function: Value) -> Vec<Why> {
    said(
        function,
        NEVER_SHARE,
        ReasonCode::Alone,
        "the source says MGB_NEVER_SHARE",
    )
}

fn said(function: Value, hint: &[u8], code: ReasonCode, words: &str) -> Vec<Why> {
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
