//! The arrangements in which a source is played.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mgb_tests::generate::attack::Feature;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{Ended, RunningProgram};

use crate::sources::Built;

/// How long a source may run on a busy machine; beyond that it hangs.
const RUN_PATIENCE: Duration = Duration::from_secs(300);

/// Processes that press for memory at once.
const CROWD: usize = 6;

/// What the small GPU leaves one of so many beside the contexts and code of all.
const LEFT_BY_CROWD: &str = "1x32MiB";

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
    nodes: [PrivateNode; 4],
    crowd: Mutex<()>,
    /// Held by sources that allocate until nothing is left: several would leave no room for their contexts.
    greedy: Mutex<()>,
}

impl Nodes {
    pub fn start() -> Nodes {
        // Kernels of microseconds would end before anything moves.
        let mut moving = PrivateNode::without_mgbd("2x128MiB:slow=10");
        moving.start_mgbd_with("mgb", &["--move-every", "1"]);
        let nodes = [
            PrivateNode::start("1x512MiB", "mgb"),
            PrivateNode::start("2x256MiB", "mgb"),
            moving,
            PrivateNode::start("1x48MiB", "mgb"),
        ];
        Nodes {
            nodes,
            crowd: Mutex::new(()),
            greedy: Mutex::new(()),
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
                let running = self.launch(built, arrangement, &[number]);
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

    /// The programs of a source that a crowd has room for at all on the small GPU, each by itself: those that
    /// run natively with what it leaves, and do not take all there is.
    fn modest(&self, built: &Built) -> Vec<usize> {
        let features = built.source.features.iter().enumerate();
        let modest = features.filter(|(_, own)| !own.has(Feature::Probing));
        let runs = |number: &usize| {
            let mut command = self.command(built, &ARRANGEMENTS[0], &[*number]);
            command.env("SOFTGPU_DEVICES", LEFT_BY_CROWD);
            command.env("SOFTGPU_STATE", built.program.with_extension("small"));
            let ended = RunningProgram::start(&mut command).try_end_within(RUN_PATIENCE);
            ended.is_ok_and(|ended| ended.status.success())
        };
        modest.map(|(number, _)| number).filter(runs).collect()
    }

    fn launch(&self, built: &Built, arrangement: &Arrangement, only: &[usize]) -> RunningProgram {
        RunningProgram::start(&mut self.command(built, arrangement, only))
    }

    /// What plays these programs of a source; none: all of them.
    fn command(&self, built: &Built, arrangement: &Arrangement, only: &[usize]) -> Command {
        let node = &self.nodes[arrangement.node];
        let mut command = node.command(&built.program, &["--pause", &arrangement.pause.to_string()]);
        command.env("MGB", arrangement.mode);
        command.args(only.iter().map(usize::to_string));
        if arrangement.node < 2 {
            command.env("SOFTGPU_TIME", "off");
        }
        if arrangement.mode == "off" {
            // Natively nobody waits for memory that another source has, which may be all there is.
            command.env("SOFTGPU_STATE", built.program.with_extension("softgpu"));
        }
        if arrangement.evict_every > 0 {
            command.env("MGB_EVICT_EVERY", arrangement.evict_every.to_string());
        }
        command
    }

    fn run(
        &self,
        built: &Built,
        arrangement: &Arrangement,
        expected: Option<&str>,
    ) -> Result<String, String> {
        let is_crowd = arrangement.at_once > 1;
        let only = if is_crowd { self.modest(built) } else { Vec::new() };
        if is_crowd && only.is_empty() {
            return Ok(String::new());
        }
        let expected = expected.map(|expected| of_programs(expected, &only));
        let is_greedy = built.source.features.iter().any(|own| own.has(Feature::Probing));
        let alone = if is_crowd {
            Some(&self.crowd)
        } else {
            Some(&self.greedy).filter(|_| is_greedy && arrangement.mode != "off")
        };
        let alone = alone.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        let all: Vec<RunningProgram> = (0..arrangement.at_once)
            .map(|_| self.launch(built, arrangement, &only))
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
            if expected
                .as_ref()
                .is_some_and(|expected| *expected != ended.stdout)
            {
                return Err(format!(
                    "{}: it is right by its own model, but answers other than natively: {}",
                    arrangement.name, ended.stdout
                ));
            }
            output = ended.stdout;
        }
        Ok(output)
    }

    /// Checks that nothing is charged any more, and where many sources were played that tasks moved; how
    /// often they did, and how often memory left the small GPU.
    pub fn end(self, many: bool) -> (u64, u64) {
        for node in &self.nodes {
            node.wait_until_empty();
        }
        let counts = [2, 3].map(|node: usize| self.nodes[node].view().counts);
        assert!(!many || counts[0].moved > 0, "{counts:?}");
        (counts[0].moved, counts[1].evicted)
    }
}

/// The lines of these programs' answers; none: all lines.
fn of_programs(answers: &str, only: &[usize]) -> String {
    let is_meant = |line: &&str| {
        let number = line.split(' ').next().and_then(|name| name.strip_prefix('p'));
        only.is_empty() || number.is_some_and(|number| only.iter().any(|one| one.to_string() == number))
    };
    answers
        .lines()
        .filter(is_meant)
        .map(|line| format!("{line}\n"))
        .collect()
}
