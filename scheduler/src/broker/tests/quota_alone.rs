//! GPUs for oneself under quotas.

use super::quota::{arrive, begin, broker, granted, limits, over_quota};
use super::*;
use crate::quota::{Account, Limits};

fn begin_alone(broker: &mut Broker, client: ClientId, mib: u64, now: Duration) -> Option<Reply> {
    let mut asked = request(Op::Begin, 1, mib * MIB, client as u32);
    asked.need.flags = ALONE;
    broker.request(client, 1, asked, now)
}

/// A GPU that nobody else can use is used up, however little memory the task asks for.
#[test]
fn a_gpu_for_oneself_is_charged_whole() {
    let quota = limits(Some(150 * MIB), None, None);
    let mut broker = broker(
        &[100 * MIB; 4],
        &[(7, quota), (8, limits(Some(50 * MIB), None, None))],
    );
    arrive(&mut broker, 7, [1, 2, 3]);
    arrive(&mut broker, 8, [4]);
    let over = begin_alone(&mut broker, 4, 1, seconds(0));
    assert!(
        matches!(over, Some(Reply::OverQuota { wanted, .. }) if wanted == 100 * MIB),
        "{over:?}"
    );
    for client in [1, 2] {
        assert_eq!(begin_alone(&mut broker, client, 1, seconds(0)), None);
    }
    assert_eq!(granted(&mut broker, seconds(0)).len(), 1);
    assert_eq!(
        over_quota(&broker, seconds(0)).len(),
        1,
        "two whole GPUs are more than 150 MiB"
    );
    let has = |broker: &Broker| {
        broker
            .owner_views()
            .into_iter()
            .find(|view| view.id == 7)
            .map(|view| view.bytes)
    };
    assert_eq!(has(&broker), Some(100 * MIB));
    // What it takes on its GPU is part of that.
    let first = broker.ledger().tasks().next().map(|(key, _)| key.client).unwrap();
    let more = request(Op::Grow, 1, 60 * MIB, first as u32);
    assert_eq!(broker.request(first, 2, more, seconds(0)), None);
    assert_eq!(granted(&mut broker, seconds(0)), [first]);
    assert_eq!(has(&broker), Some(100 * MIB));
    // What is left of the quota is for tasks that share.
    assert_eq!(begin(&mut broker, 3, 1, 45, 15, seconds(0)), None);
    assert_eq!(granted(&mut broker, seconds(0)), [3]);
}

#[test]
fn who_may_have_no_gpu_for_himself_shares_one() {
    let mut broker = broker(&[100 * MIB], &[]);
    let account = Account {
        may_be_alone: false,
        ..Account::default()
    };
    broker.has_account(7, account);
    arrive(&mut broker, 7, [1]);
    arrive(&mut broker, 8, [2]);
    assert_eq!(begin_alone(&mut broker, 1, 10, seconds(0)), None);
    begin(&mut broker, 2, 1, 10, 1, seconds(0));
    assert_eq!(granted(&mut broker, seconds(0)), [1, 2]);
}

/// The share of who has a GPU for himself is the whole GPU.
#[test]
fn who_has_a_gpu_for_himself_goes_after_others() {
    let mut broker = broker(&[100 * MIB; 2], &[(7, Limits::default()), (8, Limits::default())]);
    arrive(&mut broker, 7, [1, 3]);
    arrive(&mut broker, 8, [2, 4]);
    assert_eq!(begin_alone(&mut broker, 1, 1, seconds(0)), None);
    assert_eq!(granted(&mut broker, seconds(0)), [1]);
    begin(&mut broker, 2, 1, 40, 3, seconds(0));
    assert_eq!(granted(&mut broker, seconds(0)), [2]);
    // One of them fits.
    begin(&mut broker, 3, 1, 40, 3, seconds(1));
    begin(&mut broker, 4, 1, 40, 3, seconds(1));
    assert_eq!(granted(&mut broker, seconds(1)), [4]);
}
