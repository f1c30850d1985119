//! When a kernel runs on its device, among the kernels that are booked.
//!
//! Under MPS, and among kernels of one process, kernels overlap while the warps that they occupy fit into the
//! device together; one that does not fit starts when enough others have ended. Without MPS the device is one
//! process's at a time: kernels of different processes never overlap. Where others have used the device of
//! late, a kernel is cut into slices, with room for a slice of each other process between them, and fills the
//! room that others leave. What is booked stays, so a kernel that began alone is not cut when another process
//! comes: that one waits for it.

use std::collections::BTreeSet;

/// Nanoseconds of a slice, as NVIDIA's default is about.
const SLICE: u64 = 2_000_000;

/// Most slices of a kernel: the slices of a long one are longer.
pub const SLICES: u64 = 16;

/// Nanoseconds after which a process that launches nothing counts as no user of the device.
const LATELY: u64 = 100_000_000;

/// The device time that a kernel is booked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booked {
    /// When it starts.
    pub start: u64,
    /// When it ends.
    pub end: u64,
    /// Warps it occupies.
    pub warps: u64,
    /// The process that booked the time.
    pub process: u64,
    /// Its process is no client of MPS: it does not overlap with other processes' kernels.
    pub alone: bool,
}

/// A kernel that is to be booked.
#[derive(Clone, Copy, Debug)]
pub struct KernelBooking {
    /// When it could begin.
    pub ready: u64,
    /// How long it takes.
    pub length: u64,
    /// Warps it occupies.
    pub warps: u64,
    /// The process that requests the time.
    pub process: u64,
    /// As for what is booked.
    pub alone: bool,
    /// Warps that its process may occupy in all.
    pub most: u64,
}

impl KernelBooking {
    /// Its pieces: starts and ends, in order; one, unless it is cut into slices.
    pub fn pieces(&self, booked: &[Booked], capacity: u64) -> Vec<(u64, u64)> {
        let others: BTreeSet<u64> = booked
            .iter()
            .filter(|other| other.process != self.process && other.end + LATELY > self.ready)
            .map(|other| other.process)
            .collect();
        if !self.alone || others.is_empty() || self.length <= SLICE {
            let start = self.earliest(booked, capacity, self.ready, self.length);
            return vec![(start, start + self.length)];
        }
        let slice = SLICE.max(self.length.div_ceil(SLICES));
        let (mut pieces, mut from, mut left) = (Vec::new(), self.ready, self.length);
        while left > 0 {
            let length = slice.min(left);
            let start = self.earliest(booked, capacity, from, length);
            pieces.push((start, start + length));
            left -= length;
            from = start + length + slice * others.len() as u64;
        }
        pieces
    }

    /// The earliest start, not before `ready`, at which it fits for `length`.
    pub fn earliest(&self, booked: &[Booked], capacity: u64, ready: u64, length: u64) -> u64 {
        let mut starts: Vec<u64> = booked
            .iter()
            .map(|other| other.end)
            .filter(|&end| end > ready)
            .collect();
        starts.push(ready);
        starts.sort_unstable();
        let fits = |&start: &u64| self.fits(booked, capacity, start, start + length);
        starts.into_iter().find(fits).unwrap_or(ready)
    }

    fn fits(&self, booked: &[Booked], capacity: u64, from: u64, until: u64) -> bool {
        let beside: Vec<&Booked> = booked
            .iter()
            .filter(|other| other.start < until && other.end > from)
            .collect();
        let apart = |other: &Booked| other.process != self.process && (self.alone || other.alone);
        if beside.iter().any(|other| apart(other)) {
            return false;
        }
        // Use only grows where a kernel starts, so those moments are enough to look at.
        let mut moments = beside.iter().map(|other| other.start.max(from)).chain([from]);
        moments.all(|moment| {
            let there = beside
                .iter()
                .filter(|other| other.start <= moment && other.end > moment);
            let (mut all, mut own) = (self.warps, self.warps);
            for other in there {
                all += other.warps;
                own += if other.process == self.process {
                    other.warps
                } else {
                    0
                };
            }
            all <= capacity && own <= self.most
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: u64 = 100;

    fn span(start: u64, end: u64, warps: u64) -> Booked {
        Booked {
            start,
            end,
            warps,
            process: 0,
            alone: false,
        }
    }

    fn request(warps: u64, ready: u64, length: u64) -> KernelBooking {
        KernelBooking {
            ready,
            length,
            warps,
            process: 1,
            alone: false,
            most: CAPACITY,
        }
    }

    fn start(booked: &[Booked], request: KernelBooking) -> u64 {
        request.pieces(booked, CAPACITY)[0].0
    }

    /// Books requests one after the other; what each got.
    fn book(requests: &[KernelBooking]) -> Vec<Vec<Booked>> {
        let mut all: Vec<Booked> = Vec::new();
        let mut got = Vec::new();
        for request in requests {
            let pieces = request.pieces(&all, CAPACITY);
            let own: Vec<Booked> = pieces
                .into_iter()
                .map(|(start, end)| Booked {
                    start,
                    end,
                    warps: request.warps,
                    process: request.process,
                    alone: request.alone,
                })
                .collect();
            all.extend(&own);
            got.push(own);
        }
        got
    }

    #[test]
    fn kernels_overlap_while_they_fit() {
        let booked = [span(0, 100, 60)];
        assert_eq!(start(&booked, request(40, 10, 50)), 10);
        assert_eq!(start(&booked, request(41, 10, 50)), 100);
    }

    #[test]
    fn a_kernel_does_not_push_into_one_booked_for_later() {
        let booked = [span(0, 100, 60), span(100, 200, 100)];
        assert_eq!(start(&booked, request(40, 10, 50)), 10);
        assert_eq!(start(&booked, request(40, 60, 50)), 200);
    }

    #[test]
    fn three_of_half_a_device_take_two_rounds() {
        let all = book(&[request(50, 0, 10); 3]);
        let starts: Vec<u64> = all.iter().map(|pieces| pieces[0].start).collect();
        assert_eq!(starts, [0, 0, 10]);
    }

    #[test]
    fn a_process_keeps_to_its_part_of_the_device() {
        let bounded = |process| KernelBooking {
            process,
            most: 50,
            ..request(30, 0, 10)
        };
        let all = book(&[bounded(1), bounded(1), bounded(2), request(40, 0, 10)]);
        let starts: Vec<u64> = all.iter().map(|pieces| pieces[0].start).collect();
        // The second is of the first one's process, whose bound it is; the last one has no bound.
        assert_eq!(starts, [0, 10, 0, 0]);
    }

    #[test]
    fn without_mps_processes_take_turns() {
        let of = |process| KernelBooking {
            process,
            alone: true,
            ..request(1, 0, 1_000_000)
        };
        let all = book(&[of(1), of(2), of(1)]);
        let starts: Vec<u64> = all.iter().map(|pieces| pieces[0].start / 1_000_000).collect();
        // The third is of the first one's process, and fits beside it.
        assert_eq!(starts, [0, 1, 0]);
    }

    #[test]
    fn two_long_kernels_share_the_device_by_slices() {
        let of = |process, ready, length| KernelBooking {
            process,
            alone: true,
            ..request(1, ready, length)
        };
        // Process 2 is known by a short kernel, so that the first long one leaves room.
        let all = book(&[
            of(2, 0, 1_000_000),
            of(1, 1_000_000, 10_000_000),
            of(2, 1_000_000, 10_000_000),
        ]);
        let ends: Vec<u64> = all[1..]
            .iter()
            .map(|pieces| pieces.last().unwrap().end / 1_000_000)
            .collect();
        assert_eq!((all[1].len(), all[2].len()), (5, 5));
        assert_eq!(ends, [19, 21]);
    }

    prop_compose! {
        fn any_request()(
            ready in 0..50_000_000u64, length in 1..40_000_000u64, warps in 1..=CAPACITY, process in 0..3u64,
            alone: bool,
        ) -> KernelBooking {
            KernelBooking { ready, length, warps, process, alone, most: CAPACITY }
        }
    }

    proptest! {
        #[test]
        fn the_device_is_never_overbooked_and_nothing_is_lost(
            requests in prop::collection::vec(any_request(), 1..20),
        ) {
            let got = book(&requests);
            for (request, pieces) in requests.iter().zip(&got) {
                prop_assert!(pieces[0].start >= request.ready);
                prop_assert!(pieces.windows(2).all(|pair| pair[0].end <= pair[1].start));
                let booked: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
                prop_assert_eq!(booked, request.length);
                prop_assert!(pieces.len() as u64 <= SLICES);
            }
            let all: Vec<Booked> = got.into_iter().flatten().collect();
            for one in &all {
                let there: Vec<&Booked> =
                    all.iter().filter(|other| other.start <= one.start && other.end > one.start).collect();
                prop_assert!(there.iter().map(|other| other.warps).sum::<u64>() <= CAPACITY);
                let apart = |other: &&Booked| other.process != one.process && (other.alone || one.alone);
                prop_assert!(!there.iter().any(apart));
            }
        }

        #[test]
        fn the_same_requests_get_the_same_pieces(requests in prop::collection::vec(any_request(), 1..20)) {
            prop_assert_eq!(book(&requests), book(&requests));
        }
    }
}
