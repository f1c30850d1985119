//! The arrangements in which a source is played.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mgb_tests::node::Node;
use mgb_tests::process::{Ended, Running};

use crate::sources::Built;

/// How long a source may run on a busy machine; beyond that it hangs.
const RUN_PATIENCE: Duration = Duration::from_secs(300);

/// Processes that press for memory at once.
const CROWD: usize = 6;

/// How a source is played.
struct Arrangement {
    name: &'static str,
    node: usize,
    mode: &'static str,
    /// Milliseconds between two evictions on average; 0: there are none.
    evict_every: u32,
    /// Microseconds of idle time at each step, in which memory can leave.
    pause: u32,
    at_once: usize,
}

const fn under_mgb(name: &'static str, node: usize) -> Arrangement {
    Arrangement {
        name,
        node,
        mode: "require",
        evict_every: 0,
        pause: 0,
        at_once: 1,
    }
}

const ARRANGEMENTS: [Arrangement; 7] = [
    Arrangement {
        mode: "off",
        ..under_mgb("natively", 0)
    },
    under_mgb("on one GPU", 0),
    under_mgb("on two GPUs", 1),
    Arrangement {
        evict_every: 5,
        pause: 1500,
        ..under_mgb("evicted from one GPU", 0)
    },
    Arrangement {
        evict_every: 5,
        pause: 1500,
        ..under_mgb("evicted from two GPUs", 1)
    },
    Arrangement {
        evict_every: 9,
        pause: 1000,
        ..under_mgb("moved between two GPUs", 2)
    },
    Arrangement {
        pause: 1000,
        at_once: CROWD,
        ..under_mgb("six at once on a small GPU", 3)
    },
];

/// A source that was not right.
pub struct Wrong {
    /// The arrangement's name.
    pub arrangement: &'static str,
    /// What it said.
    pub why: String,
}

/// The nodes that all sources of a test share.
pub struct Nodes {
    nodes: [Node; 4],
    crowd: Mutex<()>,
}

impl Nodes {
    pub fn start() -> Nodes {
        // Kernels of microseconds would end before anything moves.
        let mut moving = Node::without_mgbd("2x128MiB:slow=10");
        moving.start_mgbd_with("mgb", &["--move-every", "1"]);
        let nodes = [
            Node::start("1x512MiB", "mgb"),
            Node::start("2x256MiB", "mgb"),
            moving,
            Node::start("1x48MiB", "mgb"),
        ];
        Nodes {
            nodes,
            crowd: Mutex::new(()),
        }
    }

    /// A folder for sources.
    pub fn folder(&self) -> &std::path::Path {
        self.nodes[0].folder()
    }

    /// Plays a source in all arrangements.
    ///
    /// # Errors
    ///
    /// In which it was not right, and what it said.
    pub fn play(&self, built: &Built) -> Result<(), Wrong> {
        let natively = &ARRANGEMENTS[0];
        let wrong = |arrangement: &Arrangement, why| Wrong {
            arrangement: arrangement.name,
            why,
        };
        let expected = self
            .run(built, natively, None)
            .map_err(|why| wrong(natively, why))?;
        for arrangement in &ARRANGEMENTS[1..] {
            if let Err(why) = self.run(built, arrangement, Some(&expected)) {
                let why = format!("{why}{}", self.which(built, arrangement));
                return Err(wrong(arrangement, why));
            }
        }
        Ok(())
    }

    /// Whether a source is right in the arrangement of this name.
    pub fn is_right_in(&self, built: &Built, name: &str) -> bool {
        let arrangement = ARRANGEMENTS.iter().find(|one| one.name == name);
        let arrangement = arrangement.expect("an arrangement has this name");
        self.run(built, arrangement, None).is_ok()
    }

    /// Which of the source's programs fail in an arrangement by themselves.
    fn which(&self, built: &Built, arrangement: &Arrangement) -> String {
        let mut text = String::new();
        for (number, features) in built.source.features.iter().enumerate() {
            // What nobody evicts or moves does the same each time.
            for round in 1..=if arrangement.evict_every > 0 { 2 } else { 1 } {
                let running = self.launch(built, arrangement, Some(number));
                if !running
                    .try_end_within(RUN_PATIENCE)
                    .is_ok_and(|ended| ended.status.success())
                {
                    text += &format!("\nalone p{number} fails as well (round {round}): {features}");
                    break;
                }
            }
        }
        text
    }

    fn launch(&self, built: &Built, arrangement: &Arrangement, only: Option<usize>) -> Running {
        let node = &self.nodes[arrangement.node];
        let mut command = node.command(&built.program, &["--pause", &arrangement.pause.to_string()]);
        command.env("MGB", arrangement.mode);
        if let Some(number) = only {
            command.arg(number.to_string());
        }
        if arrangement.node < 2 {
            command.env("SOFTGPU_TIME", "off");
        }
        if arrangement.evict_every > 0 {
            command.env("MGB_EVICT_EVERY", arrangement.evict_every.to_string());
        }
        Running::start(&mut command)
    }

    fn run(
        &self,
        built: &Built,
        arrangement: &Arrangement,
        expected: Option<&str>,
    ) -> Result<String, String> {
        let alone =
            (arrangement.at_once > 1).then(|| self.crowd.lock().unwrap_or_else(PoisonError::into_inner));
        let all: Vec<Running> = (0..arrangement.at_once)
            .map(|_| self.launch(built, arrangement, None))
            .collect();
        let ends: Vec<_> = all
            .into_iter()
            .map(|one| one.try_end_within(RUN_PATIENCE))
            .collect();
        drop(alone);
        let mut output = String::new();
        for end in ends {
            let said = |ended: Ended| format!("exit code {}: {}{}", ended.code(), ended.stdout, ended.stderr);
            let ended = match end {
                Ok(ended) if ended.status.success() => ended,
                Ok(ended) => return Err(format!("{}: {}", arrangement.name, said(ended))),
                Err(ended) => return Err(format!("{}: hangs: {}", arrangement.name, said(ended))),
            };
            if expected.is_some_and(|expected| expected != ended.stdout) {
                return Err(format!(
                    "{}: it is right by its own model, but answers other than natively: {}",
                    arrangement.name, ended.stdout
                ));
            }
            output = ended.stdout;
        }
        Ok(output)
    }

    /// Checks that nothing is charged any more, and that tasks moved; how often they did, and how often memory
    /// left the small GPU.
    pub fn end(self) -> (u64, u64) {
        for node in &self.nodes {
            node.wait_until_empty();
        }
        let counts = [2, 3].map(|node: usize| self.nodes[node].view().counts);
        assert!(counts[0].moved > 0, "{counts:?}");
        (counts[0].moved, counts[1].evicted)
    }
}
