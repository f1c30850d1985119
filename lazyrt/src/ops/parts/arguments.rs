//! The arguments of a launch, kept for its later parts.

use std::ffi::c_void;

/// What every parameter of a kernel may be aligned to, and more.
type Word = u128;

/// Copies of a launch's arguments.
pub struct KeptArguments {
    words: Vec<Word>,
    /// The first word of each.
    starts: Vec<usize>,
}

impl KeptArguments {
    /// Of parameters of so many bytes each.
    ///
    /// # Safety
    /// `addresses` has an element for each, which is the address of as many bytes.
    pub unsafe fn copy(addresses: *mut *mut c_void, sizes: &[u32]) -> KeptArguments {
        let mut starts = Vec::with_capacity(sizes.len() + 1);
        let mut words = 0;
        for &size in sizes {
            starts.push(words);
            words += (size as usize).div_ceil(size_of::<Word>()).max(1);
        }
        let mut words = vec![0; words];
        for (at, (&start, &size)) in starts.iter().zip(sizes).enumerate() {
            // SAFETY: contract of this function; the words from `start` on have room for the argument.
            unsafe {
                let from = addresses.add(at).read().cast::<u8>();
                from.copy_to_nonoverlapping(words[start..].as_mut_ptr().cast(), size as usize);
            }
        }
        KeptArguments { words, starts }
    }

    /// Their addresses, for a launch while this lives.
    pub fn addresses(&mut self) -> Vec<*mut c_void> {
        let words = self.words.as_mut_ptr();
        // SAFETY: each begins within the words.
        self.starts
            .iter()
            .map(|&start| unsafe { words.add(start).cast() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_outlive_the_launch() {
        let (mut byte, mut words, mut nothing) = (7_u8, [1_u64, 2, 3], ());
        let mut addresses = [
            (&raw mut byte).cast(),
            (&raw mut words).cast(),
            (&raw mut nothing).cast(),
        ];
        // SAFETY: an address for each size.
        let mut kept = unsafe { KeptArguments::copy(addresses.as_mut_ptr(), &[1, 24, 0]) };
        (byte, words) = (0, [0; 3]);
        assert_eq!((byte, words), (0, [0; 3]));
        let kept = kept.addresses();
        assert!(kept.len() == 3 && kept.iter().all(|address| address.addr() % size_of::<Word>() == 0));
        // SAFETY: copies of what was given above.
        unsafe {
            assert_eq!(kept[0].cast::<u8>().read(), 7);
            assert_eq!(kept[1].cast::<[u64; 3]>().read(), [1, 2, 3]);
        }
    }
}
