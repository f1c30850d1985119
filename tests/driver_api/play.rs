//! Plays seeds: threads that each make steps, one after another or all at once, and the accounts compared
//! between.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mgb_tests::generate::draw::Draw;

use crate::books::{Books, BytesByGpu};
use crate::driver::{SUCCESS, driver};
use crate::memory::{self, MemoryKind};
use crate::peer::Peer;
use crate::world::{GRANULE, SeedShared, ThreadWorld};
use crate::{asks, forks, graphs, mapped, peer, plain, pools, streams};

/// Most threads of a seed.
const THREADS: usize = 4;
/// How long the accounts may take to become equal.
const BOOKS_TIMEOUT: Duration = Duration::from_secs(10);

type ThreadJob = Box<dyn FnOnce() + Send>;

/// Threads, and what they share over all seeds.
pub struct Player {
    threads: Vec<(Sender<ThreadJob>, Receiver<()>)>,
    shared: Arc<SeedShared>,
    devices: usize,
    books: Books,
    /// Steps of a seed at most.
    pub most: usize,
}

impl Player {
    /// Threads, and the driver.
    ///
    /// # Panics
    /// Where there is no driver or no device.
    pub fn start() -> Player {
        let mut count = 0;
        assert_eq!(driver().cuInit(0), SUCCESS);
        assert_eq!(driver().cuDeviceGetCount(&mut count), SUCCESS);
        let thread = |_| {
            let (give, take) = channel::<ThreadJob>();
            let (done, wait) = channel();
            std::thread::spawn(move || {
                for job in take {
                    job();
                    let _ = done.send(());
                }
            });
            (give, wait)
        };
        let threads = (0..THREADS).map(thread).collect();
        let shared = Arc::<SeedShared>::default();
        *shared.peer.lock().expect("no thread panics") = (count == 1).then(Peer::start);
        // What a context takes is seen in one that has nothing yet.
        let mut context = 0;
        assert_eq!(driver().cuDevicePrimaryCtxRetain(&mut context, 0), SUCCESS);
        let bytes = Books::open(0)
            .held()
            .into_values()
            .max()
            .expect("it has a context");
        assert_eq!(driver().cuDevicePrimaryCtxRelease_v2(0), SUCCESS);
        let devices = count as usize;
        Player {
            threads,
            shared,
            devices,
            books: Books::open(bytes),
            most: usize::MAX,
        }
    }

    /// Has threads do jobs at the same time, and waits for them.
    fn at_once(&self, jobs: Vec<(usize, ThreadJob)>) {
        let threads: Vec<usize> = jobs.iter().map(|(thread, _)| *thread).collect();
        for (thread, job) in jobs {
            self.threads[thread].0.send(job).expect("the thread is there");
        }
        for thread in threads {
            self.threads[thread].1.recv().expect("the thread is there");
        }
    }

    /// Has a thread do something with a world.
    fn on(
        &self,
        thread: usize,
        world: &Arc<Mutex<ThreadWorld>>,
        job: impl FnOnce(&mut ThreadWorld) + Send + 'static,
    ) {
        self.at_once(vec![(thread, with(thread, world, job))]);
    }

    /// Plays a seed; its lines, and how many faults they have.
    pub fn play(&self, seed: u64) -> (Vec<String>, usize) {
        let mut draw = Draw::new(seed);
        let count = 1 + draw.below(THREADS);
        let world = |owner| {
            Arc::new(Mutex::new(ThreadWorld::new(
                seed,
                owner,
                self.devices,
                self.shared.clone(),
            )))
        };
        let worlds: Vec<_> = (0..count).map(world).collect();
        let mut seed = Seed {
            player: self,
            worlds,
            draw,
            step: 0,
            retained: vec![0; self.devices],
        };
        seed.begin();
        seed.steps();
        seed.end()
    }
}

fn with(
    thread: usize,
    world: &Arc<Mutex<ThreadWorld>>,
    job: impl FnOnce(&mut ThreadWorld) + Send + 'static,
) -> ThreadJob {
    let world = world.clone();
    Box::new(move || {
        let mut world = world.lock().expect("no thread panics");
        world.thread = thread;
        job(&mut world);
    })
}

struct Seed<'a> {
    player: &'a Player,
    worlds: Vec<Arc<Mutex<ThreadWorld>>>,
    draw: Draw,
    step: usize,
    /// How often each device's context is retained.
    retained: Vec<usize>,
}

impl Seed<'_> {
    fn begin(&mut self) {
        let mut contexts = Vec::new();
        for device in 0..self.player.devices {
            contexts.push(self.retain(device));
        }
        *self.player.shared.contexts.lock().expect("no thread panics") = contexts;
        for thread in 0..self.worlds.len() {
            self.player.on(thread, &self.worlds[thread], |world| {
                ThreadWorld::forget_current();
                world.on(0);
            });
        }
    }

    fn retain(&mut self, device: usize) -> usize {
        let mut context = 0;
        let code = driver().cuDevicePrimaryCtxRetain(&mut context, device as i32);
        self.first(move |world| {
            world.expect(&format!("cuDevicePrimaryCtxRetain d{device}"), code, SUCCESS);
        });
        self.retained[device] += 1;
        context
    }

    /// Notes something in the first thread's lines.
    fn first(&self, job: impl FnOnce(&mut ThreadWorld) + Send + 'static) {
        let step = self.step;
        self.player.on(0, &self.worlds[0], move |world| {
            world.step = step;
            job(world);
        });
    }

    /// What all threads do from here on is one step.
    fn next_step(&mut self) {
        self.step += 1;
        for world in &self.worlds {
            world.lock().expect("no thread panics").step = self.step;
        }
    }

    fn steps(&mut self) {
        let rounds = 20 + self.draw.below(40);
        for _ in 0..rounds {
            if self.step >= self.player.most {
                return;
            }
            match self.draw.below(16) {
                0 => self.beside(),
                1 if self.draw.one_in(4) => self.reset(),
                _ => self.one(),
            }
        }
    }

    /// A step of one thread, with what it or another one has.
    fn one(&mut self) {
        self.step += 1;
        let (step, count) = (self.step, self.worlds.len());
        let thread = self.draw.below(count);
        let owner = if self.draw.one_in(4) {
            self.draw.below(count)
        } else {
            thread
        };
        self.player.on(thread, &self.worlds[owner], move |world| {
            world.step = step;
            world.is_beside = false;
            // Most of what is drawn cannot be done at the moment.
            let before = world.lines.len();
            for _ in 0..8 {
                make(world);
                if world.lines.len() > before {
                    return;
                }
            }
        });
        self.compare(false);
    }

    /// Steps of all threads at once, each with its own.
    fn beside(&mut self) {
        self.end_captures();
        self.step += 1;
        let step = self.step;
        let jobs = self.worlds.iter().enumerate().map(|(thread, world)| {
            let job = move |world: &mut ThreadWorld| {
                world.step = step;
                world.is_beside = true;
                for _ in 0..8 {
                    make(world);
                }
                world.is_beside = false;
                streams::end_all(world);
            };
            (thread, with(thread, world, job))
        });
        self.player.at_once(jobs.collect());
        self.compare(true);
    }

    fn end_captures(&self) {
        for thread in 0..self.worlds.len() {
            for world in &self.worlds {
                self.player.on(thread, world, streams::end_all);
            }
        }
    }

    /// Ends what does not go with the context.
    fn end_lasting(&self) {
        self.end_captures();
        for (thread, world) in self.worlds.iter().enumerate() {
            self.player.on(thread, world, |world| {
                graphs::clear(world);
                mapped::clear(world);
                for (address, _) in std::mem::take(&mut world.hosts) {
                    world.on(0);
                    let code = driver().cuMemFreeHost(address as *mut _);
                    world.expect("cuMemFreeHost", code, SUCCESS);
                }
                // Memory of the host's pools is no context's.
                while let Some(at) = world
                    .memory
                    .iter()
                    .position(|memory| memory.kind == MemoryKind::HostPool)
                {
                    pools::free(world, at, 0);
                }
                pools::clear_host(world);
            });
        }
    }

    /// Ends contexts with all that is in them.
    fn reset(&mut self) {
        self.next_step();
        self.end_lasting();
        for device in 0..self.player.devices {
            let code = driver().cuDevicePrimaryCtxReset_v2(device as i32);
            self.first(move |world| {
                world.expect(&format!("cuDevicePrimaryCtxReset d{device}"), code, SUCCESS);
            });
        }
        self.forget();
        for device in 0..self.player.devices {
            self.retain(device);
        }
        self.compare(true);
    }

    /// All that was in contexts is gone.
    fn forget(&self) {
        for world in &self.worlds {
            let mut world = world.lock().expect("no thread panics");
            world.memory.clear();
            world.pools.clear();
            world.streams.clear();
            world.events.clear();
            world.arrays.clear();
        }
    }

    fn end(mut self) -> (Vec<String>, usize) {
        self.next_step();
        self.end_lasting();
        if self.draw.one_in(2) {
            for (thread, world) in self.worlds.iter().enumerate() {
                self.player.on(thread, world, |world| {
                    asks::clear(world);
                    while !world.memory.is_empty() {
                        memory::verify(world, 0);
                        plain::free(world, 0);
                    }
                    pools::clear(world);
                    streams::clear(world);
                });
            }
            self.first(|world| {
                world.on(0);
                let code = driver().cuCtxSynchronize();
                world.expect("cuCtxSynchronize", code, SUCCESS);
            });
            self.compare(true);
        }
        for device in 0..self.player.devices {
            for _ in 0..self.retained[device] {
                let code = driver().cuDevicePrimaryCtxRelease_v2(device as i32);
                self.first(move |world| {
                    world.expect(&format!("cuDevicePrimaryCtxRelease d{device}"), code, SUCCESS);
                });
            }
        }
        self.forget();
        self.is_nothing_left();
        let mut all: (Vec<(usize, String)>, usize) = (Vec::new(), 0);
        for world in &self.worlds {
            let mut world = world.lock().expect("no thread panics");
            all.0.append(&mut world.lines);
            all.1 += world.faults;
        }
        // In the order of the steps; what several threads did at once stands thread by thread.
        all.0.sort_by_key(|(step, _)| *step);
        (all.0.into_iter().map(|(_, line)| line).collect(), all.1)
    }

    /// How far the accounts may be apart: the driver places its own allocations in steps that it alone knows.
    /// Memory of `cuMemAlloc`, `cuMemCreate` and of graphs is charged to the byte.
    fn tolerance(&self) -> u64 {
        let mut own = 0;
        for world in &self.worlds {
            let world = world.lock().expect("no thread panics");
            let is_own = |kind: MemoryKind| match kind {
                MemoryKind::Plain => self.player.devices > 1,
                MemoryKind::Managed | MemoryKind::Pool(_) => true,
                _ => false,
            };
            let count = world.memory.iter().filter(|memory| is_own(memory.kind)).count();
            own += count + world.arrays.len() + world.pools.len();
        }
        if own == 0 { 0 } else { GRANULE * (own as u64 + 1) }
    }

    /// Compares the accounts. `settles`: what is freed meanwhile is waited for.
    fn compare(&mut self, settles: bool) {
        let books = &self.player.books;
        if !books.are_two() {
            return;
        }
        let tolerance = self.tolerance();
        let is_wrong = |held: &BytesByGpu, charged: &BytesByGpu| {
            let names = held.keys().chain(charged.keys());
            let value = |of: &BytesByGpu, name: &String| of.get(name).copied().unwrap_or(0);
            names.clone().any(|name| {
                let (held, charged) = (value(held, name), value(charged, name));
                held > charged + tolerance || settles && charged > held + tolerance
            })
        };
        let until = Instant::now() + BOOKS_TIMEOUT;
        let mut asks = false;
        loop {
            let (held, charged) = (books.held(), books.charged(asks));
            if !is_wrong(&held, &charged) {
                return;
            }
            if Instant::now() > until {
                let seen = format!("{charged:?}: {}", books.described());
                self.first(move |world| {
                    let bound = format!("{held:?} within {tolerance}");
                    world.fault("what is charged", &bound, &seen);
                });
                return;
            }
            if asks {
                std::thread::sleep(Duration::from_millis(2));
            }
            asks = true;
        }
    }

    /// With the contexts all charges are gone.
    fn is_nothing_left(&mut self) {
        let until = Instant::now() + BOOKS_TIMEOUT;
        while self.player.books.charged(true).values().any(|bytes| *bytes > 0) {
            if Instant::now() > until {
                let seen = self.player.books.described();
                self.first(move |world| world.fault("what is charged at the end", "nothing", &seen));
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// One step with what a world has.
fn make(world: &mut ThreadWorld) {
    match world.draw.below(40) {
        0..8 => plain::step(world),
        8..12 => touch(world),
        12..19 => pools::step(world),
        19..24 => mapped::step(world),
        24..31 => streams::step(world),
        31..36 => graphs::step(world),
        36 => forks::step(world),
        37 => peer::step(world),
        _ => asks::step(world),
    }
}

/// Reads or writes what is there.
fn touch(world: &mut ThreadWorld) {
    let Some(at) = memory::any(world) else { return };
    match world.draw.below(4) {
        0 => memory::fill(world, at),
        1 => {
            if let Some(to) = memory::any(world) {
                memory::copy(world, at, to);
            }
        }
        _ => memory::verify(world, at),
    }
}
