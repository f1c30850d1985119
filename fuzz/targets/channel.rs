//! Clients that write any words anywhere in their channels, under the code of `mgbd` that takes requests out
//! of a channel and the broker that serves them. Whatever they do, no sum overflows, no GPU is charged more
//! than it has (the ledger checks both), and after their end nothing is charged.
#![no_main]

mod gpu;

use std::time::Duration;

use gpu::{MIB, gpu};
use libfuzzer_sys::fuzz_target;
use mgb_interface::{Policy, Queue};
use mgb_probe::wire::CHANNEL_BYTES;
use mgb_scheduler::broker::{Answer, Broker, ServingRules, Snapshot};
use mgb_scheduler::daemon::fuzzing::Taker;

const CLIENTS: u64 = 3;

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    /// Bytes that mean something more often than any do.
    fn bytes(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX - MIB,
            3 => self.word()?,
            some => u64::from(some) * MIB / 2,
        })
    }
}

struct FuzzWorld {
    broker: Broker,
    takers: Vec<Taker>,
    now: Duration,
}

impl FuzzWorld {
    fn deliver(&mut self, answers: Vec<Answer>) {
        for Answer { client, cell, reply } in answers {
            self.takers[client as usize - 1].answer(cell, &reply);
        }
    }

    fn take(&mut self, at: usize) {
        let client = at as u64 + 1;
        let Some(requests) = self.takers[at].take() else {
            // As mgbd cuts it off; it comes again as if it were another.
            self.broker.hang_up(client);
            self.takers[at] = Taker::new(client);
            return;
        };
        for (cell, request) in requests {
            if let Some(reply) = self.broker.request(client, cell, request, self.now) {
                self.takers[at].answer(cell, &reply);
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (step, which) = (input.byte()?, input.byte()?);
        let at = which as usize % self.takers.len();
        let client = at as u64 + 1;
        match step % 12 {
            0 => {
                let place = input.word()? as usize % (CHANNEL_BYTES / 8);
                self.takers[at].write(place, input.word()?);
            }
            1..=4 => {
                let (cell, op, task) = (input.byte()?, input.byte()?, input.byte()?);
                let bytes = input.bytes()?;
                self.takers[at].post(cell.into(), op.into(), u64::from(task % 4), bytes, which);
            }
            5 | 6 => self.take(at),
            7 | 8 => {
                let mut snapshot = Snapshot::default();
                snapshot.covered = vec![Some(input.bytes()?), None];
                let answers = if step % 2 == 0 {
                    self.broker.serve(&mut snapshot, self.now)
                } else {
                    self.broker.serve_newcomers(&mut snapshot, self.now)
                };
                self.deliver(answers);
                self.broker.take_orders();
            }
            9 => self.now += Duration::from_millis(u64::from(input.byte()?) * 400),
            10 => {
                let answers = self.broker.take_turns(self.now);
                self.deliver(answers);
            }
            _ if which >= 128 => {
                let lost = self.broker.exec(client, self.now);
                lost.iter().for_each(|lost| drop(self.broker.freed(lost.id)));
                self.takers[at] = Taker::new(client);
            }
            _ => {
                self.broker.task_views(|_, _| 0, self.now);
                self.broker.wait_views(self.now);
                let (changes, _) = self.broker.take_changes();
                serde_json::to_vec(&changes).expect("changes are JSON");
            }
        }
        Some(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let Some(choice) = input.byte() else { return };
    let queue = Queue::ALL[usize::from(choice >> 4) % Queue::ALL.len()];
    let rules = ServingRules {
        queue,
        ..ServingRules::new(Policy::ALL[usize::from(choice) % Policy::ALL.len()])
    };
    let mut world = FuzzWorld {
        broker: Broker::new(vec![gpu(0), gpu(1)], rules),
        takers: (1..=CLIENTS).map(Taker::new).collect(),
        now: Duration::from_secs(1000),
    };
    for client in 1..=CLIENTS {
        world.broker.arrive(client, client as u32);
        world.broker.join(client, u64::from(choice & 8 != 0));
        if client == CLIENTS && choice & 4 != 0 {
            world.broker.only_looks(client, choice & 2 != 0);
        }
    }
    while world.step(&mut input).is_some() {}
    for client in 1..=CLIENTS {
        for lost in world.broker.die(client, world.now) {
            world.broker.freed(lost.id);
        }
    }
    assert!((0..2).all(|gpu| world.broker.ledger().charges(gpu).bytes() == 0));
});
