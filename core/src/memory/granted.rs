//! Waiting for memory that mgbd has granted and that is not there: a process that mgbd does not know holds it.
//!
//! Bytes that were swapped out must come back: natively they would never have left. So their program waits for as
//! long as it takes, and says so, instead of being told that the GPU is full.

use mgb_abi::error::Code;

use crate::backoff::Backoff;

/// What `make` answers, once that is not that the device has no memory left. `say` is called at each try that
/// fails so.
///
/// # Errors
/// Any other failure.
pub fn wait_for<T>(mut make: impl FnMut() -> Result<T, Code>, say: fn()) -> Result<T, Code> {
    let mut backoff = Backoff::begin();
    loop {
        match make() {
            Err(Code::MEMORY_ALLOCATION) => {
                say();
                backoff.sleep();
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_device_is_waited_for() {
        let mut answers = [Err(Code::MEMORY_ALLOCATION), Err(Code::MEMORY_ALLOCATION), Ok(7)].into_iter();
        let next = || answers.next().expect("it stops at the success");
        assert_eq!(wait_for(next, || {}), Ok(7));
        let broken = || Err::<(), Code>(Code::ILLEGAL_ADDRESS);
        assert_eq!(
            wait_for(broken, || panic!("nothing to wait for")),
            Err(Code::ILLEGAL_ADDRESS)
        );
    }
}
