//! Spares: memory that freed objects left, still behind its addresses. A program that allocates and frees in a
//! loop gets the same memory again, without a call of the driver.

use super::physical::{Physical, Range};

/// Memory behind addresses in which there is no object.
#[derive(Debug)]
pub struct Spare<D> {
    /// The addresses that the memory is behind.
    pub range: Range,
    /// The device whose memory it is.
    pub device: D,
    /// The memory itself, which is still mapped.
    pub memory: Physical,
}

/// The memory that is kept.
#[derive(Debug)]
pub struct Spares<D>(Vec<Spare<D>>);

impl<D> Default for Spares<D> {
    fn default() -> Spares<D> {
        Spares(Vec::new())
    }
}

impl<D: Copy + Eq> Spares<D> {
    /// Keeps memory, if there are no more than `most` bytes with it, on all devices together: what a process keeps
    /// is charged on each. Else it comes back, to be released.
    pub fn keep(&mut self, spare: Spare<D>, most: u64) -> Option<Spare<D>> {
        let kept: u64 = self.0.iter().map(|spare| spare.range.bytes).sum();
        if kept.saturating_add(spare.range.bytes) > most {
            return Some(spare);
        }
        self.0.push(spare);
        None
    }

    /// Takes memory of so many bytes, the last that was kept, on a device that `is_meant`.
    pub fn take(&mut self, bytes: u64, is_meant: impl Fn(D) -> bool) -> Option<Spare<D>> {
        let fits = |spare: &Spare<D>| spare.range.bytes == bytes && is_meant(spare.device);
        let at = self.0.iter().rposition(fits)?;
        Some(self.0.remove(at))
    }

    /// Takes all of a device, or of every device.
    pub fn take_all(&mut self, device: Option<D>) -> Vec<Spare<D>> {
        let is_meant = |spare: &mut Spare<D>| device.is_none_or(|device| spare.device == device);
        self.0.extract_if(.., is_meant).collect()
    }

    /// The memory that is kept.
    pub fn iter(&self) -> impl Iterator<Item = &Spare<D>> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::memory::{back, made_up};

    /// Where the next memory is mapped: a case that has failed leaves its own behind.
    static NEXT_START: AtomicU64 = AtomicU64::new(7 << 40);

    fn spare(start: u64, bytes: u64, device: i32) -> Spare<i32> {
        let driver = made_up::driver();
        let range = Range::new(start, bytes);
        let memory = back(driver, range, device, || driver.create(device, bytes, 0, false));
        Spare {
            range,
            device,
            memory: memory.expect("the made-up driver has memory"),
        }
    }

    fn release(spare: Spare<i32>) {
        crate::memory::release(made_up::driver(), spare.range, spare.memory).expect("it was mapped");
    }

    proptest! {
        /// Never more than the limit is kept, nothing is lost or given out twice, and what is taken is what was
        /// asked for.
        #[test]
        fn no_more_than_the_limit_is_kept(
            steps in prop::collection::vec((any::<bool>(), 1u64..5, 0i32..3), 1..100)
        ) {
            const MOST: u64 = 8;
            let mut spares = Spares::default();
            let mut kept: Vec<(u64, u64, i32)> = Vec::new();
            for (gives, bytes, device) in steps {
                let sum: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
                if gives {
                    let start = NEXT_START.fetch_add(8, Ordering::Relaxed);
                    match spares.keep(spare(start, bytes, device), MOST) {
                        Some(back) => {
                            prop_assert!(sum + bytes > MOST);
                            release(back);
                        }
                        None => {
                            prop_assert!(sum + bytes <= MOST);
                            kept.push((start, bytes, device));
                        }
                    }
                } else {
                    let known = kept.iter().rposition(|(_, length, of)| (*length, *of) == (bytes, device));
                    let taken = spares.take(bytes, |of| of == device);
                    prop_assert_eq!(
                        taken.as_ref().map(|spare| (spare.range.start, spare.range.bytes, spare.device)),
                        known.map(|at| kept.remove(at))
                    );
                    taken.into_iter().for_each(release);
                }
            }
            let of_one = kept.iter().filter(|(_, _, device)| *device == 1).count();
            let taken = spares.take_all(Some(1));
            prop_assert_eq!(taken.len(), of_one);
            let rest = spares.take_all(None);
            prop_assert_eq!(rest.len(), kept.len() - of_one);
            taken.into_iter().chain(rest).for_each(release);
        }
    }
}
