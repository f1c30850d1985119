//! A node whose driver may take its time: each GPU is asked by a thread of its own, and who asks waits no
//! longer than [`ANSWER_TIMEOUT`]. As long as a question is not answered the GPU's driver counts as silent,
//! and nobody waits for it at all.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgb_probe::Gpu;
use parking_lot::{Condvar, Mutex};

use super::health::HealthSource;
use super::{GpuMemory, NodeDriver, NodeError, Resident};

/// How long an answer may take. A list of processes takes up to 15 ms while they come and go (an H200).
pub const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// The same while another GPU's driver is silent: it is one driver.
const SECOND_TIMEOUT: Duration = Duration::from_millis(10);

/// A node that answers in time, or says that it does not.
pub struct Bounded {
    node: Arc<dyn NodeDriver>,
    lines: Vec<Arc<QuestionSlot>>,
    /// GPUs whose driver is silent.
    silent: Arc<AtomicUsize>,
}

enum Question {
    Memory,
    Residents,
    Utilisation,
    PausedWithin(Duration),
}

enum GpuAnswer {
    Memory(Result<GpuMemory, NodeError>),
    Residents(Result<Vec<Resident>, NodeError>),
    Utilisation(Result<u32, NodeError>),
    Paused(Result<bool, NodeError>),
}

/// To the thread that asks about a GPU.
#[derive(Default)]
struct QuestionSlot {
    state: Mutex<QuestionState>,
    asked: Condvar,
    answered: Condvar,
}

#[derive(Default)]
enum QuestionState {
    /// The driver is asked nothing now.
    #[default]
    Free,
    Asked(Question),
    /// The driver is asked; whether somebody still waits for that.
    UnderWay {
        is_awaited: bool,
    },
    Answered(GpuAnswer),
    /// The node is gone.
    Over,
}

impl Bounded {
    /// Starts a thread for each GPU.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn new(node: impl NodeDriver + 'static) -> std::io::Result<Bounded> {
        let (node, silent): (Arc<dyn NodeDriver>, _) = (Arc::new(node), Arc::<AtomicUsize>::default());
        let mut lines = Vec::new();
        for gpu in 0..node.gpus().len() {
            let line = Arc::<QuestionSlot>::default();
            lines.push(line.clone());
            let (node, silent) = (node.clone(), silent.clone());
            let thread = std::thread::Builder::new().name(format!("driver{gpu}"));
            thread.spawn(move || line.serve(gpu, node.as_ref(), &silent))?;
        }
        Ok(Bounded { node, lines, silent })
    }

    fn ask(&self, gpu: usize, question: Question) -> Result<GpuAnswer, NodeError> {
        let line = &self.lines[gpu];
        let mut state = line.state.lock();
        if !matches!(*state, QuestionState::Free) {
            return Err(silent());
        }
        *state = QuestionState::Asked(question);
        line.asked.notify_one();
        let is_silent = self.silent.load(Ordering::Relaxed) > 0;
        let limit = if is_silent { SECOND_TIMEOUT } else { ANSWER_TIMEOUT };
        let is_there = |state: &mut QuestionState| !matches!(state, QuestionState::Answered(_));
        line.answered.wait_while_for(&mut state, is_there, limit);
        match std::mem::take(&mut *state) {
            QuestionState::Answered(answer) => Ok(answer),
            QuestionState::UnderWay { .. } => {
                *state = QuestionState::UnderWay { is_awaited: false };
                self.silent.fetch_add(1, Ordering::Relaxed);
                Err(silent())
            }
            // The thread was not even run: it need not ask any more.
            QuestionState::Asked(_) | QuestionState::Free | QuestionState::Over => Err(silent()),
        }
    }
}

impl QuestionSlot {
    /// Asks the driver what is asked here, until the node is gone. Counts this GPU in `silent` no more once
    /// it has answered too late.
    fn serve(&self, gpu: usize, node: &dyn NodeDriver, silent: &AtomicUsize) {
        let mut state = self.state.lock();
        loop {
            self.asked.wait_while(&mut state, |state| {
                matches!(state, QuestionState::Free | QuestionState::Answered(_))
            });
            let question = match std::mem::replace(&mut *state, QuestionState::UnderWay { is_awaited: true })
            {
                QuestionState::Asked(question) => question,
                _ => return,
            };
            drop(state);
            let answer = match question {
                Question::Memory => GpuAnswer::Memory(node.memory(gpu)),
                Question::Residents => GpuAnswer::Residents(node.residents(gpu)),
                Question::Utilisation => GpuAnswer::Utilisation(node.utilisation(gpu)),
                Question::PausedWithin(ago) => GpuAnswer::Paused(node.paused_within(gpu, ago)),
            };
            state = self.state.lock();
            match *state {
                QuestionState::Over => return,
                QuestionState::UnderWay { is_awaited: false } => {
                    silent.fetch_sub(1, Ordering::Relaxed);
                    *state = QuestionState::Free;
                }
                _ => {
                    *state = QuestionState::Answered(answer);
                    self.answered.notify_one();
                }
            }
        }
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        for line in &self.lines {
            *line.state.lock() = QuestionState::Over;
            line.asked.notify_one();
        }
    }
}

fn silent() -> NodeError {
    NodeError {
        text: "it does not answer in time".to_owned(),
        is_lost: false,
    }
}

impl NodeDriver for Bounded {
    fn gpus(&self) -> &[Gpu] {
        self.node.gpus()
    }

    fn software(&self) -> bool {
        self.node.software()
    }

    fn memory(&self, gpu: usize) -> Result<GpuMemory, NodeError> {
        match self.ask(gpu, Question::Memory)? {
            GpuAnswer::Memory(memory) => memory,
            _ => Err(silent()),
        }
    }

    fn residents(&self, gpu: usize) -> Result<Vec<Resident>, NodeError> {
        match self.ask(gpu, Question::Residents)? {
            GpuAnswer::Residents(residents) => residents,
            _ => Err(silent()),
        }
    }

    fn utilisation(&self, gpu: usize) -> Result<u32, NodeError> {
        match self.ask(gpu, Question::Utilisation)? {
            GpuAnswer::Utilisation(percent) => percent,
            _ => Err(silent()),
        }
    }

    fn driver_files(&self) -> Vec<PathBuf> {
        self.node.driver_files()
    }

    fn health(&self) -> Option<Box<dyn HealthSource>> {
        self.node.health()
    }

    fn paused_within(&self, gpu: usize, ago: Duration) -> Result<bool, NodeError> {
        match self.ask(gpu, Question::PausedWithin(ago))? {
            GpuAnswer::Paused(paused) => paused,
            _ => Err(silent()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::test_gpu;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    /// Two GPUs, of which the first hangs as long as it is told to.
    struct Hangs {
        gpus: Vec<Gpu>,
        hangs: Arc<AtomicBool>,
    }

    impl NodeDriver for Hangs {
        fn gpus(&self) -> &[Gpu] {
            &self.gpus
        }

        fn software(&self) -> bool {
            true
        }

        fn memory(&self, gpu: usize) -> Result<GpuMemory, NodeError> {
            while gpu == 0 && self.hangs.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(GpuMemory { total: 9, free: 4 })
        }

        fn residents(&self, _gpu: usize) -> Result<Vec<Resident>, NodeError> {
            Ok(Vec::new())
        }

        fn utilisation(&self, _gpu: usize) -> Result<u32, NodeError> {
            Ok(0)
        }

        fn driver_files(&self) -> Vec<PathBuf> {
            Vec::new()
        }

        fn paused_within(&self, _gpu: usize, _ago: Duration) -> Result<bool, NodeError> {
            Ok(true)
        }
    }

    #[test]
    fn who_asks_waits_once_and_not_for_the_other_gpu() {
        let hangs = Arc::new(AtomicBool::new(true));
        let gpus = vec![test_gpu(0, 9, 0), test_gpu(1, 9, 0)];
        let node = Hangs {
            gpus,
            hangs: hangs.clone(),
        };
        let node = Bounded::new(node).unwrap();
        assert!(node.memory(0).is_err());
        // Nothing waits any more, however often it is asked.
        for _ in 0..10_000 {
            assert!(node.memory(0).is_err() && node.residents(0).is_err());
        }
        let answers = |gpu: usize| {
            let start = Instant::now();
            while node.memory(gpu) != Ok(GpuMemory { total: 9, free: 4 }) {
                assert!(start.elapsed() < Duration::from_secs(30), "GPU {gpu}");
            }
        };
        answers(1);
        hangs.store(false, Ordering::Relaxed);
        answers(0);
        assert_eq!(node.silent.load(Ordering::Relaxed), 0);
        assert_eq!(node.residents(0), Ok(Vec::new()));
    }
}
