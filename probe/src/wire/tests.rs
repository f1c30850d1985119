//! Messages through cells, and any bits at all.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::cell::{REPLY_WORDS, REQUEST_WORDS};
use super::*;
use crate::need::Need;
use proptest::prelude::*;

fn cell() -> Cell {
    Cell {
        state: AtomicU32::new(0),
        reserved: AtomicU32::new(0),
        seq: AtomicU64::new(0),
        request: [const { AtomicU64::new(0) }; REQUEST_WORDS],
        reply: [const { AtomicU64::new(0) }; REPLY_WORDS],
    }
}

#[test]
fn a_request_comes_back_whole() {
    let request = Request {
        op: Op::Begin,
        flags: WHOLE_PROCESS,
        task: 7,
        thread: 8,
        site: 9,
        gpus: u64::MAX,
        bytes: 10,
        need: Need {
            peak_bytes: 11,
            mapped_bytes: 12,
            grid_blocks: 13,
            block_threads: 14,
            registers: 15,
            shared_bytes: 16,
            heap_bytes: 17,
            flags: 18,
            priority: 19,
            deadline_ns: 20,
        },
        first: 21,
        label: Text::new("va.cu:main"),
    };
    let cell = cell();
    request.encode(&cell);
    assert_eq!(Request::decode(&cell), Some(request));
    assert_eq!(Request::decode(&cell).unwrap().label.to_text(), "va.cu:main");
}

#[test]
fn replies_come_back_whole() {
    for reply in [
        Reply::Granted {
            gpu: 3,
            reserved: u64::MAX,
        },
        Reply::SwapOut { gpu: 1 },
        Reply::SwapOthers { gpu: 63 },
        Reply::Ordered { from: 2, to: 63 },
        Reply::Placed { gpus: 1 << 63 | 1 },
        Reply::First {
            gpu: 63,
            reserved: u64::MAX,
            numbering: crate::Numbering::exchanging(0, 63),
        },
        Reply::Numbered(crate::Numbering::exchanging(8, 7)),
        Reply::Expected {
            waits_ns: 1,
            lasts_ns: u64::MAX,
        },
        Reply::Done,
        Reply::NeverFits {
            wanted: 2,
            largest: 1,
        },
        Reply::OverQuota {
            what: crate::limited::Limited::Gpus,
            wanted: 2,
            limit: 1,
        },
        Reply::NoGpu,
        Reply::Deadlock,
        Reply::Bad(Text::new("task 4 is not known")),
        Reply::Unknown,
        Reply::Unchanged,
    ] {
        let cell = cell();
        reply.encode(&cell);
        assert_eq!(Reply::decode(&cell), Some(reply));
    }
}

/// A refusal must not be lost for a word that an older client does not know.
#[test]
fn a_refusal_for_what_a_newer_mgbd_limits_is_one() {
    let cell = cell();
    let (wanted, limit) = (2, 1);
    let what = crate::limited::Limited::Unknown;
    Reply::OverQuota { what, wanted, limit }.encode(&cell);
    assert_eq!(
        Reply::decode(&cell),
        Some(Reply::OverQuota { what, wanted, limit })
    );
}

#[test]
fn openings_of_other_versions_are_read() {
    let mut opening = Opening::new(CAP_OBSERVER, u64::MAX - 1);
    opening.version = 99;
    assert_eq!(Opening::decode(&opening.encode()), Some(opening));
    assert_eq!(opening.common(), Some(VERSION));
    (opening.version, opening.oldest) = (99, VERSION + 1);
    assert_eq!(opening.common(), None);
    // They spoke one version.
    (opening.version, opening.oldest) = (OLDEST, OLDEST);
    assert_eq!(opening.common(), Some(OLDEST));
    assert_eq!(Opening::decode(&opening.encode()[..32]), Some(opening));
    (opening.version, opening.oldest, opening.job) = (7, 7, 0);
    let before_jobs = Opening::decode(&opening.encode()[..24]);
    assert_eq!(before_jobs, Some(opening));
    assert_eq!(opening.common(), None);
    assert_eq!(Opening::decode(&[0; 24]), None);
    assert_eq!(Opening::decode(&opening.encode()[..23]), None);
}

#[test]
fn texts_are_cut_between_characters() {
    let text = Text::new(&"ä".repeat(40));
    assert_eq!(text.to_text(), "ä".repeat(32));
    let text = Text::new(&format!("x{}", "ä".repeat(40)));
    assert_eq!(text.to_text(), format!("x{}", "ä".repeat(31)));
    assert_eq!(Text::new("a\nb").to_text(), "a?b");
}

proptest! {
    #[test]
    fn any_bits_decode_without_panic(words in proptest::collection::vec(any::<u64>(), REQUEST_WORDS)) {
        let cell = cell();
        for (to, word) in cell.request.iter().zip(&words) {
            to.store(*word, Ordering::Relaxed);
        }
        for (to, word) in cell.reply.iter().zip(&words) {
            to.store(*word, Ordering::Relaxed);
        }
        if let Some(request) = Request::decode(&cell) {
            let _ = request.label.to_text();
        }
        let _ = Reply::decode(&cell);
    }
}
