//! Activations: which call of a function an allocation and a begin belong to.
//!
//! A function may be active several times at once: it recurses, by way of others or of callbacks, or it is a
//! coroutine, or runs on several fibers of a thread. So neither its task's site nor the thread says which
//! objects are a task's. Each activation has a word of its own, a local variable that is 0 when the function is
//! entered, and in a coroutine a part of its frame. The first call that is given the word writes a number there
//! that no other activation of the process has.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the activation whose word this is; 0 if there is no word.
///
/// # Safety
/// `word` is null or points to a word that this thread may read and write.
pub unsafe fn number(word: *mut u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // SAFETY: `word` is null or readable and writable: contract of this function.
    let Some(word) = (unsafe { word.as_mut() }) else {
        return 0;
    };
    if *word == 0 {
        *word = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    *word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activation_keeps_its_number_and_shares_it_with_no_other() {
        let (mut one, mut other) = (0, 0);
        // SAFETY: words of this function.
        let numbers = unsafe { [number(&mut one), number(&mut other), number(&mut one)] };
        assert_ne!(numbers[0], 0);
        assert_ne!(numbers[0], numbers[1]);
        assert_eq!(numbers[0], numbers[2]);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { number(std::ptr::null_mut()) }, 0);
    }
}
