//! The pump with a link that only seems to be one.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Where a copy goes, where it comes from, and its bytes.
type Begun = Option<(usize, usize, usize)>;

/// A GPU whose memory is the host's, and whose calls fail from one on. A copy is made when it is waited for.
struct Near {
    calls: AtomicU32,
    fails_at: u32,
    /// The copy that each slot has under way, and the most at once.
    begun: Mutex<([Begun; SLOTS], usize)>,
}

impl Near {
    fn call(&self) -> Result<(), u32> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call >= self.fails_at { Err(call) } else { Ok(()) }
    }

    fn begin(&self, slot: usize, to: usize, from: usize, bytes: usize) -> Result<(), u32> {
        self.call()?;
        let (begun, most) = &mut *self.begun.lock();
        assert!(begun[slot].replace((to, from, bytes)).is_none(), "slot {slot}");
        *most = (*most).max(begun.iter().flatten().count());
        Ok(())
    }

    fn most(&self) -> usize {
        self.begun.lock().1
    }

    fn is_at_rest(&self) -> bool {
        self.begun.lock().0.iter().all(Option::is_none)
    }
}

impl Link for Near {
    type Failure = u32;

    fn enter(&self) -> Result<(), u32> {
        Ok(())
    }

    fn begin_out(&self, slot: usize, to: *mut u8, from: u64, bytes: usize) -> Result<(), u32> {
        self.begin(slot, to as usize, from as usize, bytes)
    }

    fn begin_back(&self, slot: usize, to: u64, from: *const u8, bytes: usize) -> Result<(), u32> {
        self.begin(slot, to as usize, from as usize, bytes)
    }

    fn wait(&self, slot: usize) -> Result<(), u32> {
        if let Some((to, from, bytes)) = self.begun.lock().0[slot].take() {
            // SAFETY: the test's memory.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        }
        self.call()
    }
}

fn pump(fails_at: u32) -> Pump<Near> {
    let memory = Box::leak(vec![0u8; SLOTS * SLOT].into_boxed_slice());
    // SAFETY: leaked.
    let ring = unsafe { Ring::new(memory.as_mut_ptr()) };
    let near = Near {
        calls: AtomicU32::new(0),
        fails_at,
        begun: Mutex::default(),
    };
    Pump::new(near, ring)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| ((at * 31) >> 7) as u8 ^ at as u8).collect()
}

/// Memory in pieces of these sizes, one after another.
struct Cut<'a> {
    device: u64,
    host: *mut u8,
    sizes: &'a [usize],
    next: usize,
    done: Vec<bool>,
}

// SAFETY: the test's memory, which nobody else uses meanwhile.
unsafe impl Pieces for Cut<'_> {
    fn next(&mut self) -> Option<Piece> {
        let &bytes = self.sizes.get(self.next)?;
        let before: usize = self.sizes[..self.next].iter().sum();
        self.next += 1;
        self.done.push(false);
        Some(Piece {
            device: self.device + before as u64,
            host: self.host.wrapping_add(before),
            bytes,
        })
    }

    fn done(&mut self, index: usize) {
        assert!(
            !std::mem::replace(&mut self.done[index], true),
            "{index} is done twice"
        );
    }
}

fn cut<'a>(device: &[u8], host: &mut [u8], sizes: &'a [usize]) -> Cut<'a> {
    assert_eq!(
        (device.len(), host.len()),
        (sizes.iter().sum(), sizes.iter().sum())
    );
    Cut {
        device: device.as_ptr() as u64,
        host: host.as_mut_ptr(),
        sizes,
        next: 0,
        done: Vec::new(),
    }
}

#[test]
fn all_bytes_arrive() {
    let pump = pump(u32::MAX);
    let many = [3 << 20; 40];
    let odd = [0, 5, SLOT, 0, 2 * SLOT + 1, 7, (SLOTS + 3) * SLOT + 5, 0];
    let mut shapes: Vec<&[usize]> = vec![&[], &many, &odd];
    let single = [0, 1, SLOT - 1, SLOT, SLOT + 1, 3 * SLOT, (SLOTS + 3) * SLOT + 5];
    shapes.extend(single.iter().map(std::slice::from_ref));
    for sizes in shapes {
        let count = sizes.iter().sum();
        let gpu = bytes(count);
        let mut host = vec![0; count];
        let mut pieces = cut(&gpu, &mut host, sizes);
        assert_eq!(pump.out(&mut pieces), Ok(()));
        assert_eq!(pieces.done, vec![true; sizes.len()], "{sizes:?}");
        assert!(host == gpu, "{sizes:?} out");
        let back = vec![0u8; count];
        let mut pieces = cut(&back, &mut host, sizes);
        assert_eq!(pump.back(&mut pieces), Ok(()));
        assert_eq!(pieces.done, vec![true; sizes.len()], "{sizes:?}");
        assert!(back == gpu, "{sizes:?} back");
    }
}

/// Pieces that are smaller than the ring do not wait for each other.
#[test]
fn many_small_pieces_fill_the_ring() {
    let sizes = [1 << 16; 8 * SLOTS];
    let gpu = bytes(sizes.iter().sum());
    let mut host = vec![0; gpu.len()];
    let out = pump(u32::MAX);
    assert_eq!(out.out(&mut cut(&gpu, &mut host, &sizes)), Ok(()));
    assert!(out.link.most() > 1, "{}", out.link.most());
    let back = pump(u32::MAX);
    assert_eq!(back.back(&mut cut(&gpu, &mut host, &sizes)), Ok(()));
    assert!(back.link.most() > 1, "{}", back.link.most());
}

#[test]
fn a_failure_ends_it_with_nothing_under_way() {
    let chunks = SLOTS as u32 + 2;
    let sizes = [SLOT, 2 * SLOT, (SLOTS - 1) * SLOT];
    let gpu = bytes(sizes.iter().sum());
    for fails_at in 1..=2 * chunks {
        let mut host = vec![0; gpu.len()];
        let out = pump(fails_at);
        let mut pieces = cut(&gpu, &mut host, &sizes);
        assert!(out.out(&mut pieces).is_err(), "{fails_at}");
        assert!(pieces.done.iter().any(|done| !done), "{fails_at}");
        assert!(out.link.is_at_rest(), "{fails_at}");
        let device = vec![0u8; gpu.len()];
        let back = pump(fails_at);
        let mut pieces = cut(&device, &mut host, &sizes);
        assert!(back.back(&mut pieces).is_err(), "{fails_at}");
        assert!(pieces.done.iter().any(|done| !done), "{fails_at}");
        assert!(back.link.is_at_rest(), "{fails_at}");
    }
    let mut host = vec![0; gpu.len()];
    assert_eq!(
        pump(2 * chunks + 1).out(&mut cut(&gpu, &mut host, &sizes)),
        Ok(())
    );
}
