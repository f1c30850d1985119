//! Processes of one job: the first is placed, the others get its order.

use mgb_probe::Numbering;
use mgb_probe::wire::{FIRST, NUMBERED};

use super::*;
use crate::journal::Image;

/// A broker over two GPUs, and what it has answered.
struct TwoGpuBroker {
    broker: Broker,
    answers: Vec<(ClientId, Reply)>,
}

impl TwoGpuBroker {
    fn new() -> TwoGpuBroker {
        TwoGpuBroker::of(2)
    }

    fn of(gpus: usize) -> TwoGpuBroker {
        let gpus = (0..gpus as u32).map(|at| test_gpu(at, 100, 10));
        TwoGpuBroker {
            broker: Broker::new(gpus.collect(), ServingRules::new(Policy::Mgb)),
            answers: Vec::new(),
        }
    }

    fn arrive(&mut self, client: ClientId, job: u64) {
        self.broker.arrive(client, client as u32);
        self.broker.join(client, job);
    }

    /// The process begins its first task, of so many bytes.
    fn first(&mut self, client: ClientId, bytes: u64) {
        let request = Request {
            flags: FIRST,
            ..request(Op::Begin, 1, bytes, 1)
        };
        self.ask(client, request);
    }

    fn ask(&mut self, client: ClientId, request: Request) {
        if let Some(reply) = self.broker.request(client, 0, request, Duration::ZERO) {
            self.answers.push((client, reply));
        }
        self.serve();
    }

    fn serve(&mut self) {
        while self.broker.waiting() {
            let answers = self.broker.serve(&mut Snapshot::default(), Duration::ZERO);
            if answers.is_empty() {
                return;
            }
            let said = answers.into_iter().map(|answer| (answer.client, answer.reply));
            self.answers.extend(said);
        }
    }

    fn said(&mut self) -> Vec<(ClientId, Reply)> {
        std::mem::take(&mut self.answers)
    }
}

fn granted(gpu: u32, reserved: u64) -> Reply {
    Reply::Granted { gpu, reserved }
}

const ORDERED: Reply = Reply::Ordered { from: 0, to: 1 };

#[test]
fn those_that_follow_have_the_order_of_the_first() {
    let mut node = TwoGpuBroker::new();
    node.arrive(1, 0);
    node.first(1, 50);
    for client in 2..=4 {
        node.arrive(client, 7);
        node.first(client, 0);
    }
    let order = [
        (1, granted(0, 50)),
        (2, granted(1, 0)),
        (3, ORDERED),
        (4, ORDERED),
    ];
    assert_eq!(node.said(), order);
    // What they ask for otherwise is placed as ever.
    node.ask(3, request(Op::Begin, 2, 60, 1));
    assert_eq!(node.said(), [(3, granted(1, 60))]);
    // Another job, and a process of none.
    for (client, job) in [(5, 8), (6, 0)] {
        node.arrive(client, job);
        node.first(client, 0);
    }
    assert!(
        node.said()
            .iter()
            .all(|(_, reply)| matches!(reply, Reply::Granted { .. }))
    );
}

#[test]
fn they_wait_while_the_first_does() {
    let mut node = TwoGpuBroker::new();
    for client in [1, 2] {
        node.arrive(client, 0);
        node.ask(client, request(Op::Begin, 1, 60, 1));
    }
    for client in 3..=5 {
        node.arrive(client, 7);
        node.first(client, 50);
    }
    assert_eq!(node.said().len(), 2);
    assert_eq!(node.broker.wait_views(Duration::ZERO).len(), 3);
    // The first is gone, and with it the only one of its kind; one of the others goes first now.
    node.broker.die(3, Duration::ZERO);
    node.serve();
    assert_eq!(node.said(), []);
    node.broker.hang_up(5);
    node.ask(2, request(Op::End, 1, 0, 1));
    assert_eq!(node.said(), [(2, Reply::Done), (4, granted(1, 50))]);
    assert!(!node.broker.waiting(), "the last one hung up");
}

#[test]
fn a_first_process_that_can_never_be_placed_leads_none() {
    let mut node = TwoGpuBroker::new();
    for (client, bytes) in [(1, 200), (2, 0)] {
        node.arrive(client, 7);
        node.first(client, bytes);
    }
    let said = node.said();
    assert!(matches!(said[0], (1, Reply::NeverFits { .. })), "{said:?}");
    assert_eq!(said[1], (2, granted(0, 0)));
    let strange = Request {
        flags: FIRST,
        first: 2,
        ..request(Op::Begin, 1, 0, 1)
    };
    node.arrive(3, 7);
    node.ask(3, strange);
    assert!(matches!(node.said()[..], [(3, Reply::Bad(_))]));
}

#[test]
fn an_order_ends_with_the_last_that_has_it() {
    let mut node = TwoGpuBroker::new();
    node.arrive(1, 0);
    node.ask(1, request(Op::Begin, 1, 50, 1));
    for client in [2, 3] {
        node.arrive(client, 7);
        node.first(client, 0);
    }
    assert_eq!(node.said()[1..], [(2, granted(1, 0)), (3, ORDERED)]);
    node.ask(1, request(Op::End, 1, 0, 1));
    node.broker.die(1, Duration::ZERO);
    node.broker.die(2, Duration::ZERO);
    node.said();
    node.arrive(4, 7);
    node.first(4, 0);
    assert_eq!(node.said(), [(4, ORDERED)], "one is left");
    // Another program now, in the same process.
    node.broker.exec(3, Duration::ZERO);
    node.broker.die(4, Duration::ZERO);
    node.arrive(5, 0);
    node.ask(5, request(Op::Begin, 1, 50, 1));
    node.said();
    node.arrive(6, 7);
    node.first(6, 50);
    assert!(
        matches!(node.said()[..], [(6, Reply::Granted { .. })]),
        "they choose anew"
    );
}

/// The process begins its first task, and knows numberings.
fn numbered(gpus: u64) -> Request {
    Request {
        flags: FIRST | NUMBERED,
        gpus,
        first: gpus.trailing_zeros(),
        ..request(Op::Begin, 1, 0, 0)
    }
}

/// The GPUs that the process was told, in the order of its numbers; `None`: it was granted none itself.
fn devices(reply: Reply, count: usize) -> (Option<u32>, Vec<u32>) {
    match reply {
        Reply::First { gpu, numbering, .. } => (Some(gpu), numbering.first(count)),
        Reply::Numbered(numbering) => (None, numbering.first(count)),
        other => panic!("{other:?}"),
    }
}

/// Jobs that come at the same time have different first and second devices, as long as there are as many.
#[test]
fn further_devices_are_others_than_those_of_other_jobs() {
    for at_once in [false, true] {
        let mut node = TwoGpuBroker::of(8);
        for client in 1..=4 {
            node.arrive(client, client);
            let request = numbered(0xff);
            if at_once {
                assert_eq!(node.broker.request(client, 0, request, Duration::ZERO), None);
            } else {
                node.ask(client, request);
            }
        }
        node.serve();
        let mut pairs = BTreeSet::new();
        for (_, reply) in node.said() {
            let (first, order) = devices(reply, 8);
            assert_eq!(first, Some(order[0]));
            assert_eq!(BTreeSet::from_iter(order.clone()).len(), 8, "{order:?}");
            pairs.extend([order[0], order[1]]);
        }
        assert_eq!(pairs.len(), 8, "at once: {at_once}");
    }
}

/// Two jobs of half the node each have no GPU in common either.
#[test]
fn jobs_of_many_devices_spread_as_well() {
    let mut node = TwoGpuBroker::of(8);
    let mut all = BTreeSet::new();
    for client in 1..=2 {
        node.arrive(client, client);
        node.ask(client, numbered(0xff));
        let (_, order) = devices(node.said()[0].1, 8);
        all.extend(order[..4].to_vec());
    }
    assert_eq!(all.len(), 8);
}

/// A rank has its job's numbering, whatever it sees; one that knows none has as much of it as it can
/// understand.
#[test]
fn ranks_have_the_numbering_of_their_job() {
    let mut node = TwoGpuBroker::of(4);
    node.arrive(1, 0);
    node.ask(
        1,
        Request {
            gpus: 0b1,
            ..request(Op::Begin, 1, 50, 1)
        },
    );
    node.arrive(2, 7);
    node.ask(2, numbered(0b1111));
    let said = node.said();
    let (first, order) = devices(said[1].1, 4);
    assert_eq!(
        (first, order[3]),
        (Some(order[0]), 0),
        "the one in use comes last: {order:?}"
    );
    for (client, gpus) in [(3, 0b1111), (4, 0b0010)] {
        node.arrive(client, 7);
        node.ask(client, numbered(gpus));
        assert_eq!(devices(node.said()[0].1, 4), (None, order.clone()));
    }
    assert_eq!(node.broker.numbering((0, 7)), order);
    node.arrive(5, 7);
    node.first(5, 0);
    let (from, to) = (0, order[0]);
    assert_eq!(node.said(), [(5, Reply::Ordered { from, to })]);
    assert_eq!(node.broker.exchanged((0, 7)), Some([from, to]));
}

/// A process that sees some GPUs has those numbered among themselves; drained ones come last.
#[test]
fn what_a_process_does_not_see_keeps_its_number() {
    let mut node = TwoGpuBroker::of(6);
    node.broker.books.control.drain(2, true);
    node.arrive(1, 7);
    node.ask(1, numbered(0b101110));
    let (first, order) = devices(node.said()[0].1, 6);
    let first = first.unwrap();
    assert_eq!((order[0], order[4]), (0, 4));
    assert_eq!((order[1], order[5]), (first, 2), "{order:?}");
    // A mask that lacks the first one is nonsense, and harms nobody.
    node.arrive(2, 8);
    node.ask(
        2,
        Request {
            first: 0,
            ..numbered(0b1000)
        },
    );
    assert_eq!(
        devices(node.said()[0].1, 6),
        (Some(3), Numbering::exchanging(0, 3).first(6))
    );
}

/// Another mgbd goes on with what jobs were told.
#[test]
fn numberings_and_places_last() {
    let mut node = TwoGpuBroker::of(4);
    node.arrive(1, 7);
    node.ask(1, numbered(0b1111));
    node.broker.take_changes();
    node.arrive(2, 0);
    let place = |job, count| Request {
        gpus: 0b1111,
        ..request(Op::Place, job, count, 0)
    };
    node.ask(2, place(8, 2));
    let said = node.said();
    assert!(matches!(said[1].1, Reply::Placed { gpus } if gpus.count_ones() == 2));
    let (_, standing) = node.broker.take_changes();
    let image = Image {
        standing: standing.expect("it has changed"),
        ..Image::default()
    };
    let mut next = TwoGpuBroker::of(4);
    for (client, job) in [(1, 7), (2, 0), (3, 8)] {
        next.arrive(client, job);
    }
    next.broker.bring_in(&image, &BTreeMap::new(), Duration::ZERO);
    assert_eq!(next.broker.numbering((0, 7)), node.broker.numbering((0, 7)));
    next.ask(2, place(8, 2));
    assert_eq!(next.said(), [said[1]], "the same as before");
    assert_eq!(node.broker.take_changes().1, None);
}

/// What a program took before is expected of all its processes. Two of one job may wait for each other.
#[test]
fn expectations_keep_no_process_of_a_job_out() {
    let mut node = TwoGpuBroker::new();
    let arrive = |node: &mut TwoGpuBroker, client, job| {
        node.arrive(client, job);
        node.broker.identify(client, ProgramId::new(1));
    };
    arrive(&mut node, 1, 0);
    node.first(1, 0);
    node.ask(1, request(Op::Grow, 1, 80, 1));
    node.broker.die(1, Duration::ZERO);
    assert!(node.broker.freed(1).is_some());
    assert_eq!(node.said(), [(1, granted(0, 0)), (1, granted(0, 80))]);
    // One on each GPU, for each of which 80 bytes are kept.
    for (client, job) in [(2, 7), (3, 8), (4, 9)] {
        arrive(&mut node, client, job);
        node.first(client, 0);
    }
    assert_eq!(
        node.said(),
        [(2, granted(0, 0)), (3, granted(1, 0))],
        "the third job waits"
    );
    arrive(&mut node, 5, 7);
    node.first(5, 0);
    for gpu in [0, 1] {
        let begin = Request {
            gpus: 1 << gpu,
            ..request(Op::Begin, 2 + gpu, 0, 1)
        };
        node.ask(5, begin);
    }
    let order = Reply::Ordered { from: 0, to: 0 };
    let both = [(5, order), (5, granted(0, 0)), (5, granted(1, 0))];
    assert_eq!(
        node.said(),
        both,
        "where its job has something, and where it has not"
    );
    assert_eq!(node.broker.wait_views(Duration::ZERO).len(), 1);
}

/// Requests that are not wanted any more are answered so, wherever they wait; others of the job go on.
#[test]
fn what_is_withdrawn_is_answered() {
    let unchanged = |client| (client, Reply::Unchanged);
    let withdraw = |task| request(Op::Withdraw, task, 0, 0);
    let done = |client| (client, Reply::Done);
    let mut node = TwoGpuBroker::new();
    (1..=4).for_each(|client| node.arrive(client, u64::from(client > 1)));
    // All of both GPUs.
    for (task, gpu) in [(1, 1), (2, 2)] {
        node.ask(1, request(Op::Begin, task, 90, gpu));
    }
    assert_eq!(node.said(), [(1, granted(0, 90)), (1, granted(1, 90))]);
    // A job's first process waits for room, and the others for its order.
    node.first(2, 50);
    node.first(3, 50);
    node.first(4, 50);
    assert_eq!(node.said(), []);
    node.ask(3, withdraw(1));
    assert_eq!(node.said(), [done(3), unchanged(3)]);
    // The one that was to be first leaves that to the last.
    node.ask(2, withdraw(1));
    assert_eq!(node.said(), [done(2), unchanged(2)]);
    node.ask(1, request(Op::End, 1, 0, 0));
    assert_eq!(node.said(), [(1, Reply::Done), (4, granted(0, 50))]);
    node.ask(4, withdraw(7));
    assert_eq!(node.said(), [done(4)], "it waits with nothing");
}

#[test]
fn a_job_of_another_user_is_another_one() {
    let mut node = TwoGpuBroker::new();
    let arrive = |node: &mut TwoGpuBroker, client, uid| {
        node.broker.arrive(client, client as u32);
        node.broker.belongs_to(client, uid);
        node.broker.join(client, 7);
    };
    arrive(&mut node, 1, 1001);
    node.first(1, 50);
    assert_eq!(node.said(), [(1, granted(0, 50))]);
    // The first of its user's is placed as any other, and may wait: nobody else waits with it.
    arrive(&mut node, 2, 1002);
    node.first(2, 85);
    assert_eq!(node.said(), [(2, granted(1, 85))]);
    arrive(&mut node, 3, 1003);
    node.first(3, 85);
    assert_eq!(node.said(), []);
    arrive(&mut node, 4, 1001);
    node.first(4, 0);
    assert_eq!(node.said(), [(4, Reply::Ordered { from: 0, to: 0 })]);
    assert_eq!(node.broker.exchanged((1002, 7)), Some([0, 1]));
    assert_eq!(node.broker.exchanged((1003, 7)), None);
    // So it stays under the next mgbd, also where the one before knew no users of jobs.
    let (_, standing) = node.broker.take_changes();
    let mut standing = standing.expect("orders were given");
    for round in 0..2 {
        let image = Image {
            standing: standing.clone(),
            ..Image::default()
        };
        let mut next = TwoGpuBroker::new();
        for (client, uid) in [(1, 1001), (2, 1002), (3, 1003), (4, 1001)] {
            arrive(&mut next, client, uid);
        }
        next.broker.bring_in(&image, &BTreeMap::new(), Duration::ZERO);
        assert!(next.broker.exchanged((1001, 7)).is_some());
        assert_eq!(next.broker.exchanged((1003, 7)).is_some(), round == 1);
        for numbered in &mut standing.numbered {
            numbered.uid = None;
        }
    }
}
