//! The operations of a task before it has a GPU: small copies and sets, kept in program order and
//! replayed when it is bound.
//!
//! Host bytes are copied at the call, since the caller may change them right after it. So a copy is recorded
//! only while nothing is under way that could still write them (`ops::copy::may_take`), and binds the task
//! otherwise. Large ones are never copied aside: such a copy binds the task, too.

/// Largest copy that is recorded, in bytes.
pub const MAX_OP_BYTES: usize = 64 << 10;
/// Host bytes kept for one task; a copy beyond that binds it.
const MAX_TASK_BYTES: usize = 16 << 20;
/// Records kept for one task.
const MAX_OPS: usize = 4096;

/// An operation that was called before its task had a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Host bytes to device memory.
    Copy {
        /// The device address that is written from.
        to: u64,
        /// The bytes, which are the record's own.
        bytes: Box<[u8]>,
    },
    /// Device memory set to a byte.
    Set {
        /// The first device address that is set.
        to: u64,
        /// The byte that each is set to.
        value: u8,
        /// How many bytes are set.
        bytes: u64,
    },
    /// Host bytes to a device variable.
    Symbol {
        /// Its host shadow.
        symbol: usize,
        /// Offset into it.
        offset: usize,
        /// The bytes, which are the record's own.
        bytes: Box<[u8]>,
    },
}

/// The records of one task.
#[derive(Debug, Default)]
pub struct Records {
    list: Vec<Record>,
    bytes: usize,
}

impl Records {
    /// Whether one more with `bytes` of host data may be kept.
    pub fn accepts(&self, bytes: usize) -> bool {
        bytes <= MAX_OP_BYTES && self.bytes + bytes <= MAX_TASK_BYTES && self.list.len() < MAX_OPS
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds an operation behind those that are recorded.
    pub fn push(&mut self, record: Record) {
        if let Record::Copy { bytes, .. } | Record::Symbol { bytes, .. } = &record {
            self.bytes += bytes.len();
        }
        self.list.push(record);
    }

    /// Forgets what was recorded for an object that is freed.
    pub fn forget(&mut self, object: u64, length: u64) {
        self.list.retain(|record| match record {
            Record::Copy { to, .. } | Record::Set { to, .. } => to.wrapping_sub(object) >= length,
            Record::Symbol { .. } => true,
        });
        self.bytes = self
            .list
            .iter()
            .map(|record| match record {
                Record::Copy { bytes, .. } | Record::Symbol { bytes, .. } => bytes.len(),
                Record::Set { .. } => 0,
            })
            .sum();
    }

    /// Takes all of them, in order.
    pub fn take(&mut self) -> Vec<Record> {
        self.bytes = 0;
        std::mem::take(&mut self.list)
    }

    /// Appends another task's.
    pub fn absorb(&mut self, mut other: Records) {
        self.bytes += other.bytes;
        self.list.append(&mut other.list);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Replaying gives the bytes that doing the ops at once would have given, whatever happens to the
        /// host buffer in between, and freed objects are never written.
        #[test]
        fn replays_what_was_meant(
            ops in prop::collection::vec((0u64..4, 0u64..64, 1u64..64, any::<u8>(), 0u8..8), 1..60)
        ) {
            const OBJECT: u64 = 128;
            let mut records = Records::default();
            let mut meant: Vec<Option<u8>> = vec![None; 4 * OBJECT as usize];
            for (object, at, length, value, op) in ops {
                let to = object * OBJECT + at;
                let range = to as usize..(to + length) as usize;
                match op {
                    0 => {
                        records.forget(object * OBJECT, OBJECT);
                        let start = (object * OBJECT) as usize;
                        meant[start..start + OBJECT as usize].fill(None);
                    }
                    1..4 => {
                        records.push(Record::Set { to, value, bytes: length });
                        meant[range].fill(Some(value));
                    }
                    _ => {
                        let mut host = vec![value; length as usize];
                        prop_assert!(records.accepts(host.len()));
                        records.push(Record::Copy { to, bytes: host.as_slice().into() });
                        host.fill(!value);
                        meant[range].fill(Some(value));
                    }
                }
            }
            let mut memory = vec![None; meant.len()];
            for record in records.take() {
                match record {
                    Record::Copy { to, bytes } => {
                        for (at, byte) in bytes.iter().enumerate() {
                            memory[to as usize + at] = Some(*byte);
                        }
                    }
                    Record::Set { to, value, bytes } => {
                        memory[to as usize..(to + bytes) as usize].fill(Some(value));
                    }
                    Record::Symbol { .. } => unreachable!(),
                }
            }
            prop_assert_eq!(memory, meant);
            prop_assert!(records.is_empty());
        }
    }

    #[test]
    fn large_and_many_are_not_kept() {
        let mut records = Records::default();
        assert!(records.accepts(MAX_OP_BYTES) && !records.accepts(MAX_OP_BYTES + 1));
        for _ in 0..MAX_TASK_BYTES / MAX_OP_BYTES {
            records.push(Record::Copy {
                to: 0,
                bytes: vec![0; MAX_OP_BYTES].into(),
            });
        }
        assert!(!records.accepts(1));
        records.forget(0, 1);
        assert!(records.accepts(MAX_OP_BYTES));
    }
}
