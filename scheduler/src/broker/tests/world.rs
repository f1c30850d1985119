//! Whole lives of processes under the runtime's rules, simulated.

use mgb_probe::Need;
use mgb_probe::wire::Text;

use super::*;
use crate::broker::accounts::amount_of_client;
use crate::node::test_gpu;
use crate::quota::{Account, Amount, Limits, Owner};

/// What a process does next, one step at a time.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Begins task n with these bytes, anywhere (0) or in this set of GPUs.
    Begin(u64, u64, u64),
    /// The same, on a GPU for itself.
    Alone(u64, u64, u64),
    /// Grows task n.
    Grow(u64, u64),
    /// Works for some ticks, launches in flight.
    Work(u32),
    /// A short operation of task n.
    Use(u64),
    /// Ends task n; keeps these bytes.
    End(u64, u64),
    /// Loads a library, which takes these bytes where the first of its tasks is, if the driver has them.
    Load(u64),
}

/// A single-threaded process under the runtime's rules: it swaps when told, and
/// a task that was swapped grows back before it is used.
pub(super) struct SimulatedProcess {
    pub(super) client: ClientId,
    acts: Vec<Act>,
    waiting: Option<Request>,
    busy: u32,
    /// Tasks that have their GPUs for themselves.
    alone: BTreeSet<u64>,
    /// Per task: GPU, bytes it wants, bytes on the GPU.
    tasks: BTreeMap<u64, (u32, u64, u64)>,
    /// What its libraries have, by GPU.
    libraries: BTreeMap<usize, u64>,
    dead: bool,
    pub(super) swaps: u32,
}

pub(super) struct SimulatedWorld {
    pub(super) broker: Broker,
    lives: Vec<Vec<Act>>,
    pub(super) processes: Vec<SimulatedProcess>,
    /// What a foreign program has of each GPU until then, which only the driver knows.
    pub(super) foreign: (u64, Duration),
    now: Duration,
    capacity: Vec<u64>,
    /// What holds for users, by number: the processes are theirs in turn.
    users: Vec<Account>,
}

pub(super) fn request(op: Op, task: u64, bytes: u64, thread: u32) -> Request {
    Request {
        op,
        flags: 0,
        task,
        thread,
        site: 0,
        gpus: u64::MAX,
        bytes,
        need: Need {
            mapped_bytes: bytes,
            // Some as large as a GPU of 16 multiprocessors, and more.
            grid_blocks: 1 + bytes % 7 * 9,
            block_threads: 1024,
            priority: u32::from(bytes.is_multiple_of(3)),
            ..Need::default()
        },
        first: 0,
        label: Text::default(),
    }
}

impl SimulatedWorld {
    pub(super) fn new(capacity: &[u64], context: u64, lives: Vec<Vec<Act>>) -> SimulatedWorld {
        SimulatedWorld::of_users(capacity, context, lives, Vec::new())
    }

    pub(super) fn of_users(
        capacity: &[u64],
        context: u64,
        lives: Vec<Vec<Act>>,
        users: Vec<Account>,
    ) -> SimulatedWorld {
        let gpus = capacity
            .iter()
            .enumerate()
            .map(|(index, &bytes)| test_gpu(index as u32, bytes, context))
            .collect();
        let mut world = SimulatedWorld {
            broker: Broker::new(gpus, ServingRules::new(Policy::Mgb)),
            lives,
            processes: Vec::new(),
            foreign: (0, Duration::ZERO),
            now: Duration::ZERO,
            capacity: capacity.to_vec(),
            users,
        };
        world.arrive(&[]);
        world
    }

    /// As many processes more, with the same lives; the ones named run these programs.
    pub(super) fn arrive(&mut self, programs: &[Option<u64>]) {
        for (at, acts) in self.lives.clone().into_iter().enumerate() {
            let client = self.processes.len() as u64 + 1;
            self.broker.arrive(client, client as u32);
            if let Some(uid) = (client - 1).checked_rem(self.users.len() as u64) {
                self.broker.belongs_to(client, uid as u32);
                self.broker
                    .has_account(uid as u32, self.users[uid as usize].clone());
            }
            self.processes.push(SimulatedProcess {
                client,
                acts,
                waiting: None,
                busy: 0,
                alone: BTreeSet::new(),
                tasks: BTreeMap::new(),
                libraries: BTreeMap::new(),
                dead: false,
                swaps: 0,
            });
            if let Some(Some(program)) = programs.get(at) {
                self.broker.identify(client, ProgramId::new(*program));
            }
        }
    }

    fn ask(&mut self, at: usize, request: Request) {
        let process = &mut self.processes[at];
        process.waiting = Some(request);
        let client = process.client;
        if let Some(reply) = self.broker.request(client, 0, request, self.now) {
            self.answer(at, reply);
        }
    }

    fn tell(&mut self, at: usize, op: Op, task: u64, bytes: u64) {
        let client = self.processes[at].client;
        let reply = self
            .broker
            .request(client, 1, request(op, task, bytes, client as u32), self.now);
        assert_eq!(reply, Some(Reply::Done));
    }

    fn swap_out(&mut self, at: usize, task: u64) {
        let resident = self.processes[at].tasks[&task].2;
        self.processes[at].tasks.get_mut(&task).unwrap().2 = 0;
        self.tell(at, Op::Swapped, task, resident);
        self.processes[at].swaps += 1;
    }

    fn answer(&mut self, at: usize, reply: Reply) {
        let asked = self.processes[at]
            .waiting
            .take()
            .expect("an answer to a question");
        let client = self.processes[at].client as u32;
        if let Reply::Granted { gpu, .. } = reply {
            self.check_company(at, gpu, asked.need.flags & ALONE != 0);
        }
        match (asked.op, reply) {
            (Op::Begin, Reply::Granted { gpu, reserved }) => {
                assert_eq!(reserved, asked.bytes, "it is told what it asked for");
                if asked.need.flags & ALONE != 0 {
                    self.processes[at].alone.insert(asked.task);
                }
                self.processes[at]
                    .tasks
                    .insert(asked.task, (gpu, reserved, reserved));
            }
            (Op::Grow, Reply::Granted { reserved, .. }) => {
                let task = self.processes[at].tasks.get_mut(&asked.task).unwrap();
                task.2 = reserved;
                task.1 = task.1.max(reserved);
            }
            (Op::Grow, Reply::SwapOut { .. }) => {
                let whole = self.processes[at].tasks[&asked.task].2 + asked.bytes;
                self.swap_out(at, asked.task);
                self.ask(at, request(Op::Grow, asked.task, whole, client));
            }
            (_, Reply::SwapOthers { gpu }) => {
                let others: Vec<u64> = self.processes[at]
                    .tasks
                    .iter()
                    .filter(|(task, on_gpu)| **task != asked.task && on_gpu.0 == gpu && on_gpu.2 > 0)
                    .map(|(task, _)| *task)
                    .collect();
                assert!(!others.is_empty(), "told to swap what it does not have");
                for task in others {
                    self.swap_out(at, task);
                }
                self.ask(at, asked);
            }
            // Two may each fit alone and never beside the other's context.
            (_, Reply::NeverFits { .. } | Reply::OverQuota { .. } | Reply::NoGpu | Reply::Deadlock) => {
                self.processes[at].acts.clear();
            }
            (_, reply) => panic!("{reply:?} to {asked:?}"),
        }
    }

    /// Whether one that is granted something on the GPU, perhaps to be alone there, may have it: others that
    /// are at work must not share their GPU.
    fn check_company(&self, at: usize, gpu: u32, alone: bool) {
        let others = self.processes.iter().enumerate();
        for (_, other) in others.filter(|(other, process)| *other != at && !process.dead) {
            let is_on = |on_gpu: &(u32, u64, u64)| on_gpu.0 == gpu && (alone && on_gpu.2 > 0);
            let mut tasks = other.tasks.iter();
            let disturbs =
                tasks.any(|(task, on_gpu)| is_on(on_gpu) || on_gpu.0 == gpu && other.alone.contains(task));
            assert!(!disturbs || other.waiting.is_some(), "GPU {gpu} is shared");
        }
    }

    fn step(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let client = process.client as u32;
        if process.dead || process.waiting.is_some() {
            return;
        }
        if process.busy > 0 {
            process.busy -= 1;
            return;
        }
        if process.acts.is_empty() {
            process.dead = true;
            let lost = self.broker.die(client.into(), self.now);
            for entry in lost {
                self.broker.freed(entry.id);
            }
            return;
        }
        // A task on the host comes back before it is used.
        let used = match process.acts[0] {
            Act::Grow(task, _) | Act::Use(task) => Some(task),
            Act::Work(_) => process.tasks.keys().next().copied(),
            _ => None,
        };
        if let Some((task, (_, whole, 0))) = used.and_then(|t| Some((t, *process.tasks.get(&t)?)))
            && whole > 0
        {
            self.ask(at, request(Op::Grow, task, whole, client));
            return;
        }
        match process.acts.remove(0) {
            act @ (Act::Begin(task, bytes, gpus) | Act::Alone(task, bytes, gpus)) => {
                let mut begin = request(Op::Begin, task, bytes, client);
                begin.gpus = if gpus == 0 { u64::MAX } else { gpus };
                if matches!(act, Act::Alone(..)) {
                    begin.need.flags = ALONE;
                }
                self.ask(at, begin);
            }
            Act::Grow(task, bytes) if process.tasks.contains_key(&task) => {
                self.ask(at, request(Op::Grow, task, bytes, client));
            }
            Act::Work(ticks) => process.busy = ticks,
            Act::Load(bytes) => self.load(at, bytes),
            Act::End(task, kept) if process.tasks.contains_key(&task) => {
                let on_gpu = process.tasks.get_mut(&task).unwrap();
                on_gpu.2 = on_gpu.2.min(kept);
                let kept = on_gpu.2;
                process.alone.remove(&task);
                if kept == 0 {
                    process.tasks.remove(&task);
                }
                self.tell(at, Op::End, task, kept);
            }
            _ => {}
        }
    }

    fn load(&mut self, at: usize, bytes: u64) {
        let Some(gpu) = self.processes[at]
            .tasks
            .values()
            .next()
            .map(|on_gpu| on_gpu.0 as usize)
        else {
            return;
        };
        if self.covered()[gpu].is_some_and(|free| bytes <= free) {
            let process = &mut self.processes[at];
            let has = process.libraries.entry(gpu).or_default();
            *has += bytes;
            let has = *has;
            self.broker.has_overhead(process.client, gpu, has);
        }
    }

    /// What libraries have on the GPU.
    fn libraries(&self, gpu: usize) -> u64 {
        let living = self.processes.iter().filter(|process| !process.dead);
        living.filter_map(|process| process.libraries.get(&gpu)).sum()
    }

    /// What the driver shows free beyond what has been granted.
    fn covered(&self) -> Vec<Option<u64>> {
        let (foreign, until) = self.foreign;
        let foreign = if self.now < until { foreign } else { 0 };
        let ledger = self.broker.ledger();
        let free = |gpu| ledger.room(gpu) + ledger.charges(gpu).kept() - self.libraries(gpu);
        let covered = (0..self.capacity.len()).map(|gpu| Some(free(gpu).saturating_sub(foreign)));
        covered.collect()
    }

    /// Nobody goes beyond a limit by more than one program that all others wait for, and nobody has more GPUs
    /// than he may.
    fn check_quotas(&self) {
        let mut has: BTreeMap<Owner, (Amount, Limits)> = BTreeMap::new();
        for process in self.processes.iter().filter(|process| !process.dead) {
            let uid = (process.client - 1).checked_rem(self.users.len() as u64);
            let account = uid.map(|uid| &self.users[uid as usize]);
            for (owner, limits) in account.into_iter().flat_map(|account| &account.limits) {
                let sum = has.entry(*owner).or_insert((Amount::default(), *limits));
                // What libraries take counts, but nobody can keep them from it.
                let libraries: u64 = process.libraries.values().sum();
                let mut amount = amount_of_client(&self.broker.books, process.client);
                amount.bytes = amount.bytes.saturating_sub(libraries);
                sum.0 = sum.0.and(amount);
            }
        }
        for (owner, (amount, limits)) in has {
            assert_eq!(limits.doubled().beyond(amount), None, "{owner:?} has {amount:?}");
        }
    }

    /// Runs until all are dead; panics when that takes suspiciously long.
    pub(super) fn run(&mut self) -> u32 {
        for tick in 0..5_000 {
            if self.processes.iter().all(|process| process.dead) {
                return tick;
            }
            self.now += Duration::from_millis(50);
            for at in 0..self.processes.len() {
                self.step(at);
            }
            let busy = self
                .processes
                .iter()
                .filter(|process| process.busy > 0)
                .flat_map(|process| {
                    let on = process.tasks.values().map(|on_gpu| on_gpu.0 as usize);
                    on.map(|gpu| (process.client, gpu))
                })
                .collect();
            let mut snapshot = Snapshot {
                busy,
                covered: self.covered(),
                ..Snapshot::default()
            };
            for answer in self.broker.serve(&mut snapshot, self.now) {
                let at = answer.client as usize - 1;
                if answer.cell == 0 {
                    self.answer(at, answer.reply);
                }
            }
            self.check_quotas();
            for (gpu, &capacity) in self.capacity.iter().enumerate() {
                let mapped: u64 = self
                    .processes
                    .iter()
                    .filter(|process| !process.dead)
                    .flat_map(|process| process.tasks.values())
                    .filter(|on_gpu| on_gpu.0 as usize == gpu)
                    .map(|on_gpu| on_gpu.2)
                    .sum();
                let all = mapped + self.libraries(gpu);
                assert!(all <= capacity, "GPU {gpu} holds {all} of {capacity}");
            }
        }
        panic!("it hangs: {:#?}", self.broker);
    }
}
