//! The bytes of a device's task: what is charged, and what of that mgbd has reserved.

use mgb_probe::need::GRANULE;

/// The bytes of one device's task: what is charged to it, and what mgbd has reserved for it.
#[derive(Default)]
pub(super) struct Account {
    pub(super) reserved: u64,
    /// What a thread is asking mgbd for beyond that; 0: none asks.
    pub(super) asked: u64,
    /// In allocations of a granule or more, each in whole granules.
    large: u64,
    /// In smaller ones, which share granules.
    small: u64,
    /// What the program has said that it will have, whether it has it yet or not.
    declared: u64,
}

/// What came of an attempt to charge bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charged {
    Now,
    /// mgbd is to reserve them first.
    NotYet,
    /// They would be more than this limit of the program's.
    Beyond(u64),
}

impl Account {
    /// Of a task that has so much and nothing charged.
    pub(super) fn of(reserved: u64) -> Account {
        Account {
            reserved,
            ..Account::default()
        }
    }

    pub(super) fn held(&self) -> u64 {
        self.large + to_granules(self.small)
    }

    /// What is to be reserved: what is charged, or what the program has declared.
    pub(super) fn wanted(&self) -> u64 {
        self.held().max(self.declared)
    }

    /// The program says that it will have so many bytes more than it has said.
    pub(super) fn declare(&mut self, bytes: u64) {
        self.declared = self.declared.saturating_add(to_granules(bytes));
    }

    /// The opposite of [`Account::declare`].
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.declared = self.declared.saturating_sub(to_granules(bytes));
    }

    pub(super) fn add(&mut self, bytes: u64) {
        *self.part(bytes) += rounded(bytes);
    }

    /// Charges so many more where they are reserved already, and the program may have so much.
    pub(super) fn add_reserved(&mut self, bytes: u64, limit: Option<u64>) -> Charged {
        self.add(bytes);
        let held = self.held();
        let beyond = limit.filter(|limit| held > *limit);
        if beyond.is_none() && held <= self.reserved {
            return Charged::Now;
        }
        self.remove(bytes);
        beyond.map_or(Charged::NotYet, Charged::Beyond)
    }

    pub(super) fn remove(&mut self, bytes: u64) {
        let part = self.part(bytes);
        *part = part.saturating_sub(rounded(bytes));
    }

    /// Extents of so many bytes in all are not there any more.
    pub(super) fn remove_large(&mut self, bytes: u64) {
        self.large = self.large.saturating_sub(bytes);
    }

    /// Bytes that are charged or declared, and not reserved.
    pub(super) fn lacking(&self) -> u64 {
        self.wanted().saturating_sub(self.reserved)
    }

    /// As [`Account::lacking`], if so many more were charged.
    pub(super) fn lacking_with(&self, bytes: u64) -> u64 {
        let more = self.held().saturating_add(rounded(bytes));
        more.max(self.declared).saturating_sub(self.reserved)
    }

    /// Bytes of the reservation that are not needed, also once what is asked for has come.
    pub(super) fn surplus(&self) -> u64 {
        let all = self.reserved.saturating_add(self.asked);
        all.saturating_sub(self.wanted()).min(self.reserved)
    }

    fn part(&mut self, bytes: u64) -> &mut u64 {
        if bytes < GRANULE {
            &mut self.small
        } else {
            &mut self.large
        }
    }
}

/// What an allocation of so many bytes is charged.
pub(super) fn rounded(bytes: u64) -> u64 {
    if bytes < GRANULE {
        bytes.next_multiple_of(512)
    } else {
        to_granules(bytes)
    }
}

fn to_granules(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_allocations_share_granules() {
        let mut account = Account::default();
        for _ in 0..4096 {
            account.add(1);
        }
        assert_eq!(account.held(), GRANULE);
        account.add(1);
        account.add(GRANULE + 1);
        assert_eq!(account.held(), 4 * GRANULE);
        for _ in 0..4097 {
            account.remove(1);
        }
        account.remove(GRANULE + 1);
        assert_eq!(account.held(), 0);
    }

    #[test]
    fn nothing_is_charged_that_is_not_reserved_or_beyond_the_limit() {
        let mut account = Account::of(4 * GRANULE);
        let limit = Some(6 * GRANULE);
        assert_eq!(account.add_reserved(3 * GRANULE, limit), Charged::Now);
        assert_eq!(account.add_reserved(3 * GRANULE, limit), Charged::NotYet);
        assert_eq!(
            account.add_reserved(4 * GRANULE, limit),
            Charged::Beyond(6 * GRANULE)
        );
        assert_eq!(account.held(), 3 * GRANULE);
    }

    #[test]
    fn what_is_declared_stays_reserved_until_it_is_taken_back() {
        let mut account = Account::of(0);
        account.declare(4 * GRANULE - 1);
        assert_eq!(account.lacking(), 4 * GRANULE);
        account.reserved = 4 * GRANULE;
        account.add(3 * GRANULE);
        assert_eq!((account.lacking(), account.surplus()), (0, 0));
        assert_eq!(account.lacking_with(2 * GRANULE), GRANULE, "beyond what it said");
        account.remove(2 * GRANULE);
        assert_eq!(account.surplus(), 0, "it said that it will have it again");
        account.take_back(4 * GRANULE - 1);
        assert_eq!(account.surplus(), 3 * GRANULE);
        account.declare(u64::MAX);
        account.declare(u64::MAX);
        account.take_back(u64::MAX);
        assert!(account.lacking() > 0, "sums do not wrap");
    }

    #[test]
    fn what_is_freed_while_a_thread_asks_for_more_is_given_back_at_once() {
        let mut account = Account::of(5 * GRANULE);
        account.add(5 * GRANULE);
        account.add(6 * GRANULE);
        account.asked = account.lacking();
        assert_eq!((account.asked, account.surplus()), (6 * GRANULE, 0));
        account.remove(5 * GRANULE);
        assert_eq!(account.surplus(), 5 * GRANULE, "it waits for what it has itself");
        account.remove(6 * GRANULE);
        assert_eq!(
            account.surplus(),
            5 * GRANULE,
            "what is asked for is not there yet"
        );
    }
}
