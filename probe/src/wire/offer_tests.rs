//! Models of a lease: all orders in which a client and `mgbd` can take their steps.

use loom::sync::Arc;
use loom::thread;

use super::*;

#[derive(Default)]
struct Model {
    lease: AtomicU64,
    wanted: AtomicU64,
}

/// What the client knows of the grant at the end.
#[derive(Debug, PartialEq)]
enum GrantKnowledge {
    Offers,
    Has,
    Lost,
}

impl Model {
    fn offer(&self, task: u64) -> GrantKnowledge {
        if offer(&self.lease, &self.wanted, task) {
            GrantKnowledge::Offers
        } else {
            self.withdraw(task)
        }
    }

    fn withdraw(&self, task: u64) -> GrantKnowledge {
        if withdraw(&self.lease, task) {
            GrantKnowledge::Has
        } else {
            GrantKnowledge::Lost
        }
    }

    fn mgbd(&self) -> Option<u64> {
        want(&self.wanted, true);
        take(&self.lease)
    }
}

/// Plays what the client does against `mgbd` for whom somebody comes to wait.
fn play(client: fn(&Model) -> GrantKnowledge) {
    loom::model(move || {
        let model = Arc::new(Model::default());
        let mgbd = model.clone();
        let mgbd = thread::spawn(move || mgbd.mgbd());
        let client = client(&model);
        let taken = mgbd.join().unwrap();
        match client {
            GrantKnowledge::Lost => assert_eq!(taken, Some(7), "neither has the grant"),
            GrantKnowledge::Has => assert_eq!(taken, None, "both have the grant"),
            // It rests in nobody's hands while somebody waits, unless it was taken.
            GrantKnowledge::Offers => assert_eq!(taken, Some(7), "mgbd missed an offer"),
        }
    });
}

#[test]
fn what_is_offered_while_somebody_comes_to_wait_has_one_owner() {
    play(|model| model.offer(7));
}

#[test]
fn what_is_taken_up_again_has_one_owner() {
    play(|model| match model.offer(7) {
        GrantKnowledge::Offers => model.withdraw(7),
        other => other,
    });
}

/// The word is the same, the task is another.
#[test]
fn the_next_offer_is_not_taken_for_the_last() {
    loom::model(|| {
        let model = Arc::new(Model::default());
        let mgbd = model.clone();
        let mgbd = thread::spawn(move || [mgbd.mgbd(), take(&mgbd.lease)]);
        let first = match model.offer(1) {
            GrantKnowledge::Offers => model.withdraw(1),
            other => other,
        };
        let second = model.offer(2);
        let taken = mgbd.join().unwrap();
        assert_eq!(
            first == GrantKnowledge::Lost,
            taken.contains(&Some(1)),
            "{first:?} {taken:?}"
        );
        let left = model.lease.load(Ordering::SeqCst);
        let owners = [taken.contains(&Some(2)), second == GrantKnowledge::Has, left == 2];
        assert_eq!(
            owners.iter().filter(|&&owns| owns).count(),
            1,
            "{second:?} {taken:?} {left}"
        );
    });
}
