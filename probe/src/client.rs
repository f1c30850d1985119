//! A connection to `mgbd`, and its calls.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::begin_request::{BeginRequest, priority};
use crate::binder::binder;
use crate::cells::{Cells, Gone, Wish};
use crate::class::Class;
use crate::connect::{self, ConnectError};
use crate::deadline::Deadline;
use crate::devices::ProcessGpus;
use crate::hello::Hello;
use crate::job::has_several_gpus;
use crate::need::Need;
use crate::numbering::Numbering;
use crate::published::Published;
use crate::signals;
use crate::task::{ExpectedRun, First, Grant, Grown, Refusal, TaskId};
use crate::view::{self, NodeView, ViewError};
use crate::wire::{self, EndsFor, Op, Order, Reply, Request, Text};

/// Counts forks: a client made before the last one belongs to the parent.
pub(crate) static FORKS: AtomicU32 = AtomicU32::new(0);

/// A connection to `mgbd`. All calls may come from any thread.
pub struct Client {
    cells: Cells,
    hello: Hello,
    /// What `CUDA_VISIBLE_DEVICES` leaves this process.
    devices: ProcessGpus,
    /// The same as a set, in the job's order where that is known.
    visible: AtomicU64,
    /// Of tasks that have none of their own.
    priority: u32,
    /// When its work is to be done, for tasks that have no deadline of their own.
    deadline: Option<Deadline>,
    next_task: AtomicU64,
    lease_slots: AtomicU32,
    forks: u32,
    /// Whether it has become a latency program since it connected.
    pub(crate) became_latency: AtomicBool,
    /// Whether the process has begun to initialise its driver, which tells MPS what it is.
    pub(crate) starts_driver: AtomicBool,
}

/// Why a program whose user has not the right to others' time is a batch program.
pub(crate) const NO_RIGHT: &str = "the user may run no latency programs on this node, so this one is a batch \
                                   program: an administrator can allow it, by `latency` in the quotas";

/// Why a program that others wait for is a batch program all the same.
fn not_latency(hello: &Hello) -> &'static str {
    match hello.class {
        Some(_) => NO_RIGHT,
        None => {
            "mgbd knows no latency programs yet, so this one is a batch program: it is older than the program"
        }
    }
}

impl Client {
    /// Connects to the `mgbd` that listens at `path`, as one more client of it.
    pub fn connect(path: &Path) -> Result<Client, ConnectError> {
        Client::connect_as(path, Class::of_process())
    }

    /// As [`Client::connect`], as a program of this class.
    pub fn connect_as(path: &Path, class: Class) -> Result<Client, ConnectError> {
        Client::open(path, 0, class, connect::HELLO_TIMEOUT)
    }

    /// Connects only to look: [`Client::hello`] and [`Client::status`].
    pub fn observe(path: &Path) -> Result<Client, ConnectError> {
        Client::observe_within(path, connect::HELLO_TIMEOUT)
    }

    /// As [`Client::observe`], for who may wait so long alone.
    pub fn observe_within(path: &Path, within: Duration) -> Result<Client, ConnectError> {
        Client::open(path, wire::CAP_OBSERVER, Class::Batch, within)
    }

    fn open(path: &Path, caps: u64, class: Class, within: Duration) -> Result<Client, ConnectError> {
        let (cells, hello) = connect::open(path, caps, class, within)?;
        let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let devices = ProcessGpus::of(list.as_deref(), &hello);
        if class == Class::Latency && hello.class != Some(class) {
            mgb_stderr::say!("mgb: {}", not_latency(&hello));
        }
        Ok(Client {
            visible: AtomicU64::new(devices.mask()),
            devices,
            priority: priority(),
            deadline: Deadline::of_process(),
            cells,
            hello,
            next_task: AtomicU64::new(1),
            lease_slots: AtomicU32::new(0),
            forks: FORKS.load(Ordering::Acquire),
            became_latency: AtomicBool::new(false),
            starts_driver: AtomicBool::new(false),
        })
    }

    /// What `mgbd` said about itself and the node.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The process id by which the node view shows what this client has.
    pub fn pid(&self) -> u32 {
        self.hello().client_pid.unwrap_or_else(std::process::id)
    }

    /// The GPUs that this process may use, by index, one bit each.
    pub fn visible(&self) -> u64 {
        self.visible.load(Ordering::Relaxed)
    }

    /// The UUIDs of the shared GPUs that this value of `CUDA_VISIBLE_DEVICES` names, in its order.
    pub fn uuids_of(&self, list: &str) -> Vec<&str> {
        let order = ProcessGpus::of(Some(list), &self.hello).order().to_vec();
        let gpus = order
            .into_iter()
            .filter_map(|at| self.hello.gpus.get(at as usize));
        gpus.map(|gpu| gpu.uuid.as_str()).collect()
    }

    /// The numbers that stood for another GPU in this process's job when it connected, each with that GPU's
    /// own number on the node.
    pub(crate) fn renumbered(&self) -> Vec<(u32, u32)> {
        self.devices.renumbered(&self.hello)
    }

    /// Whether `mgbd` is still there, and this is still the process that
    /// connected.
    pub fn is_connected(&self) -> bool {
        !self.forked() && !self.cells.gone()
    }

    fn forked(&self) -> bool {
        FORKS.load(Ordering::Acquire) != self.forks
    }

    /// A task identity that was not used yet.
    pub(crate) fn new_task(&self) -> TaskId {
        TaskId(self.next_task.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks for a GPU and room for a new task. Blocks until it is granted or
    /// refused. May call [`crate::Binder::swap_out`] while it waits, so the
    /// caller holds no lock which that needs.
    pub fn begin(&self, request: &BeginRequest<'_>) -> Result<Grant, Refusal> {
        self.begin_beside(request, &mut by_binder)
    }

    /// As [`Client::begin`]; where room is to be made on a GPU with what the process has there, `swap_out`
    /// does so instead of the [`crate::Binder`].
    pub fn begin_beside(
        &self,
        request: &BeginRequest<'_>,
        swap_out: &mut dyn FnMut(u32),
    ) -> Result<Grant, Refusal> {
        let start = Instant::now();
        let message = self.beginning(request);
        match self.ask_while(message, &|| true, swap_out)? {
            Reply::Granted { gpu, reserved } => self.grant(message.task, gpu, reserved, start),
            reply => Err(Refusal::from(reply)),
        }
    }

    /// As [`Client::begin`] without a GPU of the caller's choice, for a process's first task, on the device
    /// that it counts first. If another process of its job has begun before, nothing is granted: the
    /// order of the devices is the job's, and a task is begun on each as it is used.
    pub fn begin_first(&self, request: &BeginRequest<'_>) -> Result<First, Refusal> {
        let start = Instant::now();
        let first = *self.devices.order().first().ok_or(Refusal::NoGpu)?;
        let mut message = self.beginning(request);
        message.flags |= wire::FIRST | wire::NUMBERED;
        message.first = first;
        if has_several_gpus() {
            // Its devices have their order already.
            message.gpus &= 1 << first;
        }
        let grant = |gpu, reserved| self.grant(message.task, gpu, reserved, start).map(Some);
        let (numbering, grant) = match self.ask(message)? {
            Reply::First {
                gpu,
                reserved,
                numbering,
            } => (numbering, grant(gpu, reserved)?),
            Reply::Numbered(numbering) => (numbering, None),
            // An mgbd that knows no numberings.
            Reply::Granted { gpu, reserved } => (Numbering::exchanging(first, gpu), grant(gpu, reserved)?),
            Reply::Ordered { from, to } => (Numbering::exchanging(from, to), None),
            reply => return Err(Refusal::from(reply)),
        };
        let known = |number: u32| (number as usize) < self.hello.gpus.len();
        if !numbering.moved().all(known) {
            return Err(Refusal::Protocol("a numbering of unknown GPUs".to_owned()));
        }
        let devices = self.devices.numbered(&numbering);
        self.visible.store(devices.mask(), Ordering::Relaxed);
        Ok(First {
            order: devices.order().to_vec(),
            grant,
        })
    }

    /// Chooses GPUs for a job that uses `count` of them, among those that are visible; their indices, in the
    /// order in which all such jobs are to count theirs. It answers at once, and the same for the same job.
    pub fn place(&self, job: u64, count: u32) -> Result<Vec<u32>, Refusal> {
        match self.ask(self.plain(Op::Place, TaskId(job), count.into()))? {
            Reply::Placed { gpus } => {
                let known = |gpu: &u32| (*gpu as usize) < self.hello.gpus.len();
                Ok((0..u64::BITS)
                    .filter(|gpu| gpus >> gpu & 1 == 1)
                    .filter(known)
                    .collect())
            }
            reply => Err(Refusal::from(reply)),
        }
    }

    /// How long a program would wait for room that is started now, and how long it takes after that, where
    /// that is known. `run` numbers it with its arguments, `job` is what its processes are to know it by, and
    /// `need` what is known of the room that it wants. `starts`: it is started, as this process. `None`: an
    /// older mgbd, which does not tell.
    pub fn expect(
        &self,
        job: u64,
        run: u64,
        need: Need,
        starts: bool,
    ) -> Result<Option<ExpectedRun>, Refusal> {
        if self.hello.version < wire::EXPECTS {
            return Ok(None);
        }
        let request = Request {
            flags: if starts { wire::STARTS } else { 0 },
            need,
            ..self.plain(Op::Expect, TaskId(job), run)
        };
        match self.ask(request)? {
            Reply::Expected { waits_ns, lasts_ns } => Ok(Some(ExpectedRun {
                waits: Duration::from_nanos(waits_ns),
                lasts: (lasts_ns != u64::MAX).then(|| Duration::from_nanos(lasts_ns)),
            })),
            reply => Err(Refusal::from(reply)),
        }
    }

    fn grant(&self, task: u64, gpu: u32, reserved_bytes: u64, start: Instant) -> Result<Grant, Refusal> {
        if gpu as usize >= self.hello.gpus.len() {
            return Err(Refusal::Protocol(format!("an unknown GPU, {gpu}")));
        }
        Ok(Grant {
            task: TaskId(task),
            gpu,
            reserved_bytes,
            waited: start.elapsed(),
        })
    }

    fn beginning(&self, request: &BeginRequest<'_>) -> Request {
        let plain = self.plain(Op::Begin, self.new_task(), 0);
        request.message(plain, self.priority, self.deadline)
    }

    /// Asks for `more_bytes` on top of the task's reservation. Blocks; see
    /// [`Client::begin`] for what it may call.
    pub fn grow(&self, task: TaskId, more_bytes: u64) -> Result<Grown, Refusal> {
        self.grow_by(self.plain(Op::Grow, task, more_bytes), &|| true, &mut by_binder)
    }

    /// As [`Client::grow`], as long as `lasts` says that the room is still needed, which is asked some times
    /// a second: [`Refusal::Withdrawn`] if it is not. An older mgbd than [`wire::WITHDRAWS`] cannot be told.
    /// For `swap_out` see [`Client::begin_beside`].
    pub fn grow_while(
        &self,
        task: TaskId,
        more_bytes: u64,
        lasts: &dyn Fn() -> bool,
        swap_out: &mut dyn FnMut(u32),
    ) -> Result<Grown, Refusal> {
        self.grow_by(self.plain(Op::Grow, task, more_bytes), lasts, swap_out)
    }

    /// The same for a task that has nothing on its GPU and may go on, on another one: [`Grown::Granted`] says
    /// where it is from then on.
    pub fn grow_anywhere(&self, task: TaskId, more_bytes: u64) -> Result<Grown, Refusal> {
        let request = Request {
            flags: wire::ELSEWHERE,
            ..self.plain(Op::Grow, task, more_bytes)
        };
        self.grow_by(request, &|| true, &mut by_binder)
    }

    fn grow_by(
        &self,
        request: Request,
        lasts: &dyn Fn() -> bool,
        swap_out: &mut dyn FnMut(u32),
    ) -> Result<Grown, Refusal> {
        match self.ask_while(request, lasts, swap_out)? {
            Reply::Granted { gpu, reserved } if (gpu as usize) < self.hello.gpus.len() => {
                Ok(Grown::Granted {
                    reserved_bytes: reserved,
                    gpu,
                })
            }
            Reply::SwapOut { .. } => Ok(Grown::SwapOut),
            reply => Err(Refusal::from(reply)),
        }
    }

    /// The task's memory was copied to the host and freed on the GPU: `freed`
    /// bytes of its reservation are given back.
    pub fn swapped(&self, task: TaskId, freed: u64) {
        let _ = self.ask(self.plain(Op::Swapped, task, freed));
    }

    /// The task is on the GPU that an order of `mgbd`'s named, with all its memory. False: `mgbd` knows
    /// nothing of that, or is gone.
    pub fn moved(&self, task: TaskId) -> bool {
        matches!(self.ask(self.plain(Op::Moved, task, 0)), Ok(Reply::Done))
    }

    /// `bytes` of the task's reservation are not needed any more. They must be
    /// unmapped already. Does not wait until `mgbd` has read it.
    pub fn give_back(&self, task: TaskId, bytes: u64) {
        self.tell(self.plain(Op::GiveBack, task, bytes));
    }

    /// The task is over: its warps and the reservation beyond `kept_bytes` go
    /// back. What is kept is still mapped, and may be given back later with
    /// [`Client::give_back`] or [`Client::swapped`]. Memory beyond it must be unmapped
    /// already. Does not wait until `mgbd` has read it.
    pub fn end(&self, task: TaskId, kept_bytes: u64) {
        self.tell(self.plain(Op::End, task, kept_bytes));
    }

    /// Waits for this process's turn at the driver: to initialise it, or with `makes_context` to make a
    /// context. The driver makes one process after another ready, on the whole node; where many ask it at
    /// once, all are ready at the end only. Without `mgbd` it is everybody's turn.
    pub fn turn(&self, makes_context: bool) -> Turn<'_> {
        self.starts_driver.store(true, Ordering::Release);
        let _ = self.ask(Request {
            flags: if makes_context { wire::MAKES_CONTEXT } else { 0 },
            ..self.plain(Op::Turn, TaskId(0), 0)
        });
        Turn(self)
    }

    /// Says that a thread of this process waits for orders in [`Client::next_order`], or does so no longer.
    pub fn listens(&self, listens: bool) {
        self.cells.channel().order.listen(listens);
    }

    /// Whether anybody on the node waits.
    pub fn others_wait(&self) -> bool {
        self.cells.channel().wanted.load(Ordering::Relaxed) != 0
    }

    /// The order of `mgbd` after the last one, with its number; waits for it, `patience` at most. `None`:
    /// none came. For one thread of the process, which keeps `last` (0 at first).
    pub fn next_order(&self, last: &mut u32, patience: Duration) -> Option<(u32, Order)> {
        if self.forked() {
            return None;
        }
        self.cells.channel().order.next(last, patience)
    }

    /// Why `mgbd` is about to end this process; `None`: it is not.
    pub fn ends_for(&self) -> Option<EndsFor> {
        self.cells.channel().order.ends_for()
    }

    /// The order was carried out as far as it could be: so many bytes of a GPU are free that were not. Tasks
    /// that gave up room have said so before ([`Client::swapped`]).
    pub fn obeyed(&self, number: u32, freed: u64) {
        self.tell(self.plain(Op::Obeyed, TaskId(u64::from(number)), freed));
    }

    /// Asks `mgbd` to keep these files (at most [`wire::MOST_KEPT`]) open until what this process gave its
    /// GPUs is done, whether the process is still there then or not. They replace what it has kept so far.
    /// Waits for no answer.
    pub fn keep(&self, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        if self.forked() {
            return Err(Errno::NOTCONN);
        }
        self.cells.send(wire::KEEP, files)
    }

    /// Where leases lie.
    pub(crate) fn channel(&self) -> &wire::Channel {
        self.cells.channel()
    }

    /// Which lease slots are taken.
    pub(crate) fn lease_slots(&self) -> &AtomicU32 {
        &self.lease_slots
    }

    fn tell(&self, request: Request) {
        if !self.forked() {
            self.cells.tell(&request);
        }
    }

    /// Where the process says what it maps and launches.
    pub fn published(&self) -> &Published {
        Published::new(&self.cells.channel().published)
    }

    /// What `mgbd` says of this client's launches.
    pub fn pace(&self) -> &wire::PaceWords {
        &self.cells.channel().pace
    }

    /// Where a latency program counts how long its bursts take.
    pub fn bursts(&self) -> &wire::BurstWords {
        &self.cells.channel().bursts
    }

    /// Says whether the process, which others wait for, has work on the GPU, and rings `mgbd`, if it has said
    /// otherwise before.
    pub fn set_urgent(&self, gpu: u32, is_urgent: bool) {
        let bit = 1u64.checked_shl(gpu).unwrap_or(0);
        let urgent = &self.cells.channel().published.urgent;
        let before = if is_urgent {
            urgent.fetch_or(bit, Ordering::AcqRel)
        } else {
            urgent.fetch_and(!bit, Ordering::AcqRel)
        };
        if (before & bit != 0) != is_urgent {
            self.cells.ring();
        }
    }

    /// The node as `mgbd` sees it now.
    pub fn status(&self) -> Result<NodeView, ViewError> {
        let name = self.hello.view.as_deref().unwrap_or("");
        view::read(name)
    }

    /// Gives `mgbd` an order of a person's about `subject`.
    pub(crate) fn order(&self, op: Op, flags: u32, subject: u64, bytes: u64) -> Result<Reply, Refusal> {
        self.ask(Request {
            flags,
            ..self.plain(op, TaskId(subject), bytes)
        })
    }

    pub(crate) fn plain(&self, op: Op, task: TaskId, bytes: u64) -> Request {
        Request {
            op,
            flags: 0,
            task: task.raw(),
            thread: thread(),
            site: 0,
            gpus: self.visible.load(Ordering::Relaxed),
            bytes,
            need: Need::default(),
            first: 0,
            label: Text::default(),
        }
    }

    /// Calls until there is an answer for the caller: a request to swap other
    /// tasks out is carried out here, and the call repeated.
    pub(crate) fn ask(&self, request: Request) -> Result<Reply, Refusal> {
        self.ask_while(request, &|| true, &mut by_binder)
    }

    /// As [`Client::ask`]; a request for room is withdrawn once `lasts` says no, and where the program gets a
    /// signal that ends its wait.
    fn ask_while(
        &self,
        request: Request,
        lasts: &dyn Fn() -> bool,
        swap_out: &mut dyn FnMut(u32),
    ) -> Result<Reply, Refusal> {
        let can_be_withdrawn = request.asks_for_room() && self.hello.version >= wire::WITHDRAWS;
        let wish = can_be_withdrawn.then(|| Wish {
            lasts,
            withdrawal: self.plain(Op::Withdraw, TaskId(request.task), 0),
        });
        loop {
            if self.forked() {
                return Err(Refusal::Disconnected);
            }
            match self.cells.call_while(&request, wish.as_ref()) {
                Ok(Some(Reply::Unchanged)) if can_be_withdrawn => {
                    return Err(signals::last().map_or(Refusal::Withdrawn, Refusal::Interrupted));
                }
                Ok(Some(Reply::SwapOthers { gpu })) => {
                    // Whether it worked, mgbd sees by what was reported.
                    swap_out(gpu);
                }
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => return Err(Refusal::Protocol("unknown answer".to_owned())),
                Err(Gone) => return Err(Refusal::Disconnected),
            }
        }
    }
}

/// A process's turn at the driver; over when dropped. `mgbd` waits for that only for a while.
#[must_use]
pub struct Turn<'a>(&'a Client);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.tell(self.0.plain(Op::TurnOver, TaskId(0), 0));
    }
}

/// Has the process's runtime make room.
fn by_binder(gpu: u32) {
    if let Some(binder) = binder() {
        binder.swap_out(gpu);
    }
}

fn thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}
