//! What of a process is in flight on a GPU, by the time that it is expected to take: while a program that
//! others wait for is on the GPU, no more is launched than the GPU needs to go on without a pause. So what a
//! hold cannot reach any more is over soon.
//!
//! Launches are gathered in groups, with an event behind each. A group that is done was in flight until then;
//! the time between two events tells how long its kernels took. Where the GPU waits for launches a group may be
//! as long as the window: nothing is to be gained by a second one, and events cost the program time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::times::{KernelTimes, Measured};

/// The device time that may be in flight.
pub(super) const WINDOW: Duration = Duration::from_micros(200);
/// From so much on a group is closed: of two in flight one runs while the other waits.
const GROUP: Duration = Duration::from_micros(100);
/// Launches in a group, at most.
const MAX_GROUP: usize = 128;
/// How long a thread waits for what is in flight: it may itself wait for what comes later.
pub(super) const WINDOW_TIMEOUT: Duration = Duration::from_millis(20);

/// Launches with an event behind them.
struct Group<Event> {
    event: Event,
    stream: usize,
    keys: Vec<u64>,
    expected: Duration,
    /// The stream had work of this process before it all the time, as far as one knows.
    follows: bool,
}

/// What is known of an event.
pub(super) trait Events {
    /// The driver's handle of an event, or what stands for it.
    type Event: Copy;
    /// Puts one behind what the stream was given; `None`: that cannot be done.
    fn record(&mut self, stream: usize) -> Option<Self::Event>;
    /// Whether it has passed, or can tell nothing any more.
    fn has_passed(&mut self, event: Self::Event) -> bool;
    /// The time from one to another that have passed.
    fn between(&mut self, first: Self::Event, second: Self::Event) -> Option<Duration>;
    /// It is not needed any more.
    fn drop(&mut self, event: Self::Event);
}

/// What is in flight on one GPU.
pub(super) struct LaunchWindow<E: Events> {
    groups: VecDeque<Group<E::Event>>,
    /// Launches without an event behind them yet: their stream, and how long they take.
    open: Vec<u64>,
    open_stream: usize,
    open_time: Duration,
    times: KernelTimes,
    /// The last event that has passed, and its stream.
    last: Option<(E::Event, usize)>,
    /// Whether the last group that was closed was in flight as the next began.
    follows: bool,
    /// The GPU had done the last group before the next began.
    waits_for_launches: bool,
    /// Until then nothing is bounded: waiting has led to nothing.
    off_until: Option<Instant>,
}

impl<E: Events> LaunchWindow<E> {
    pub(super) fn new() -> LaunchWindow<E> {
        LaunchWindow {
            groups: VecDeque::new(),
            open: Vec::with_capacity(MAX_GROUP),
            open_stream: 0,
            open_time: Duration::ZERO,
            times: KernelTimes::new(),
            last: None,
            follows: false,
            waits_for_launches: false,
            off_until: None,
        }
    }

    /// Whether one more launch may go. If not, ask again a little later.
    pub(super) fn admits(&mut self, events: &mut E, now: Instant) -> bool {
        if self.off_until.is_some_and(|until| now < until) {
            return true;
        }
        // To ask an event takes as long as a tenth of a launch: only where that may change the answer.
        if !self.has_room() {
            self.collect(events);
        }
        self.has_room()
    }

    /// Whether one more launch may go, as far as is known.
    pub(super) fn has_room(&self) -> bool {
        let in_flight: Duration = self.groups.iter().map(|group| group.expected).sum();
        self.groups.is_empty() || in_flight + self.open_time < WINDOW
    }

    /// A thread has waited for as long as it may: what is in flight does not end, or not soon.
    pub(super) fn give_up(&mut self, events: &mut E, now: Instant) {
        self.drain(events);
        self.follows = false;
        self.off_until = Some(now + 5 * WINDOW_TIMEOUT);
    }

    /// Lets go of all events.
    pub(super) fn drain(&mut self, events: &mut E) {
        let all = self.groups.drain(..).map(|group| group.event);
        let last = self.last.take().map(|(event, _)| event);
        all.chain(last).for_each(|event| events.drop(event));
    }

    /// Something was launched in the stream.
    pub(super) fn launched(&mut self, events: &mut E, stream: usize, key: u64) {
        let expected = self.times.expected(key);
        // One that is new is measured by itself.
        if !self.open.is_empty() && (self.open_stream != stream || expected.is_none()) {
            self.close(events);
        }
        self.open_stream = stream;
        if self.open.is_empty() {
            let last = self.groups.back().filter(|group| group.stream == stream);
            let is_last_done = last.map(|group| events.has_passed(group.event));
            self.follows = is_last_done == Some(false);
            self.waits_for_launches = is_last_done == Some(true);
        }
        self.open.push(key);
        // Of new ones two may be in flight: the second is measured behind the first.
        self.open_time += expected.unwrap_or(GROUP);
        let most = if self.waits_for_launches { WINDOW } else { GROUP };
        if self.open_time >= most || self.open.len() == MAX_GROUP {
            self.close(events);
        }
    }

    fn close(&mut self, events: &mut E) {
        let keys = std::mem::replace(&mut self.open, Vec::with_capacity(MAX_GROUP));
        let expected = std::mem::take(&mut self.open_time);
        let Some(event) = events.record(self.open_stream) else {
            return;
        };
        self.groups.push_back(Group {
            event,
            stream: self.open_stream,
            keys,
            expected,
            follows: self.follows,
        });
    }

    /// Takes out what has passed, and learns from it.
    fn collect(&mut self, events: &mut E) {
        let mut at = 0;
        while at < self.groups.len() {
            if !events.has_passed(self.groups[at].event) {
                at += 1;
                continue;
            }
            let Some(group) = self.groups.remove(at) else {
                return;
            };
            let before = self.last.filter(|(_, stream)| *stream == group.stream);
            if let Some(took) = before.and_then(|(before, _)| events.between(before, group.event)) {
                let measured = if group.follows {
                    Measured::Time(took)
                } else {
                    Measured::AtMost(took)
                };
                self.times.learn(&group.keys, group.expected, measured);
            }
            if let Some((before, _)) = self.last.replace((group.event, group.stream)) {
                events.drop(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GPU with one queue, on which each kernel takes as many microseconds as its key says.
    #[derive(Default)]
    struct OneQueue {
        now: Duration,
        /// When what was launched so far is done.
        done: Duration,
        longest: Duration,
        events: u32,
    }

    impl OneQueue {
        fn launch(&mut self, key: u64) {
            self.done = self.done.max(self.now) + Duration::from_micros(key);
            self.longest = self.longest.max(self.done - self.now);
        }
    }

    impl Events for OneQueue {
        type Event = Duration;
        fn record(&mut self, _: usize) -> Option<Duration> {
            self.events += 1;
            Some(self.done.max(self.now))
        }
        fn has_passed(&mut self, event: Duration) -> bool {
            event <= self.now
        }
        fn between(&mut self, first: Duration, second: Duration) -> Option<Duration> {
            second.checked_sub(first)
        }
        fn drop(&mut self, _: Duration) {}
    }

    /// Launches these kernels by turns for a second; how much was in flight at most behind the first tenth,
    /// what part of the time the GPU had work, and how many launches there were for each event.
    fn run(keys: &[u64]) -> (Duration, f64, f64) {
        let (mut gpu, mut window) = (OneQueue::default(), LaunchWindow::<OneQueue>::new());
        let (mut work, mut launches, began) = (Duration::ZERO, 0.0, Instant::now());
        let end = Duration::from_secs(1);
        for &key in keys.iter().cycle() {
            while !window.admits(&mut gpu, began) {
                gpu.now += Duration::from_micros(2);
            }
            if gpu.now >= end {
                break;
            }
            if gpu.now < end / 10 {
                gpu.longest = Duration::ZERO;
            }
            gpu.launch(key);
            gpu.now += Duration::from_micros(2);
            window.launched(&mut gpu, 0, key);
            work += Duration::from_micros(key);
            launches += 1.0;
        }
        (
            gpu.longest,
            work.as_secs_f64() / gpu.now.as_secs_f64(),
            launches / f64::from(gpu.events),
        )
    }

    #[test]
    fn little_is_in_flight_and_the_gpu_has_work_all_the_time() {
        for keys in [&[5u64][..], &[20], &[90], &[150], &[3, 40, 7, 110]] {
            let (longest, part, _) = run(keys);
            let most = WINDOW + 2 * GROUP;
            assert!(longest <= most, "{keys:?}: {longest:?} in flight");
            assert!(part > 0.97, "{keys:?}: work for {part} of the time");
        }
    }

    #[test]
    fn where_the_gpu_waits_for_launches_events_are_few() {
        let (longest, _, launches) = run(&[1]);
        assert!(longest <= WINDOW, "{longest:?} in flight");
        assert!(launches > 80.0, "an event for {launches} launches");
    }

    #[test]
    fn of_long_kernels_one_is_in_flight() {
        let (longest, part, _) = run(&[1500]);
        assert_eq!(longest, Duration::from_micros(1500));
        assert!(part > 0.99, "{part}");
    }

    #[test]
    fn what_does_not_end_is_waited_for_once() {
        let (mut gpu, mut window) = (OneQueue::default(), LaunchWindow::<OneQueue>::new());
        let now = Instant::now();
        for _ in 0..2 {
            gpu.launch(1_000_000);
            window.launched(&mut gpu, 0, 1_000_000);
        }
        assert!(!window.admits(&mut gpu, now));
        window.give_up(&mut gpu, now);
        assert!(window.admits(&mut gpu, now + WINDOW_TIMEOUT));
    }
}
