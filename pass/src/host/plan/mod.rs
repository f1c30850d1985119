//! The plan of one function: everything that will be inserted, decided before anything is.
mod begin;
mod entry;
mod formula;

use mgb_catalogue::report::{self, ReasonCode};

use crate::host::collect::Collected;
use crate::host::collect::resources::Resources;
use crate::host::collect::variables::Variables;
use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::expr::Expr;
use crate::host::ir::helpers;
use crate::host::ir::names::ValueNames;
use crate::host::needs::StaticNeed;
use crate::host::needs::reads::Reads;
use crate::host::objects::launches::{self, KernelLaunch};
use crate::host::objects::ops::OpKind;
use crate::host::objects::{self, Objects};
use crate::host::plan::formula::Writer;
use crate::host::reason::Why;
use crate::host::tasks::devices::{Choosers, DeviceFlow};
use crate::host::tasks::ends::{self, End};
use crate::host::tasks::hints;
use crate::host::tasks::placement;
use crate::host::tasks::{self, Candidate};

/// Why a task is lazy that has no begin with its own device current.
const BEFORE_ITS_DEVICE: &str = "the task would have to begin before cudaSetDevice chooses its device";

/// What will be inserted for a static task.
pub struct Static {
    /// Where `task_begin` goes: in front of this instruction.
    pub begin: Value,
    /// What it asks for.
    pub need: StaticNeed,
    /// The ops, each with a `task_use` in front of it, and whether they allocate.
    pub ops: Vec<(Value, bool)>,
    /// Where `task_end` goes.
    pub ends: Vec<End>,
    /// Whether it touches device variables.
    pub variables: bool,
    /// Whether it is to have a GPU for itself.
    pub alone: bool,
    /// Whether it may go on, on another GPU.
    pub movable: bool,
    /// In how many milliseconds from its begin its result is wanted, if the source says so.
    pub deadline: Option<Expr>,
}

/// One task: its entry in the report, and what to insert if it is static.
pub struct PlannedTask {
    /// For the report; its number is given later.
    pub entry: report::TaskReport,
    /// None for lazy tasks.
    pub insertion: Option<Static>,
    /// Why it is lazy, with the instructions that show it.
    pub obstacles: Vec<Why>,
}

impl PlannedTask {
    /// Emits LLVM remarks: where the task begins and what it needs, or why it is lazy.
    pub fn remark(&self) {
        if let (Some(insertion), Some(need)) = (&self.insertion, &self.entry.need) {
            let text = format!(
                "GPU task begins here, bound before it runs: needs {} bytes, launches at most {} blocks of {} threads",
                need.peak, need.grid, need.block
            );
            helpers::remark(insertion.begin, false, "static", &text);
        }
        for why in &self.obstacles {
            if let Some(at) = why.at {
                let code = why.code.to_string();
                let text = format!("GPU task is bound lazily: {} [{code}]", why.text);
                helpers::remark(at, true, &code, &text);
            }
        }
    }
}

/// Works out the tasks of one prepared function.
pub fn plan(
    collected: &Collected,
    variables: &Variables,
    resources: &Resources,
    choosers: &Choosers,
    names: &ValueNames,
    function: Value,
) -> Vec<PlannedTask> {
    let cfg = Cfg::new(function);
    let devices = DeviceFlow::new(collected, choosers, &cfg);
    let launches = launches::find(collected, variables, resources, &cfg);
    let objects = objects::find(collected, variables, &cfg, &launches);
    let writer = Writer::new(names);
    let planner = Planner {
        collected,
        variables,
        cfg: &cfg,
        devices: &devices,
        launches: &launches,
        objects: &objects,
        writer,
        never_move: hints::never_move(function),
        never_share: hints::never_share(function),
        need_hint: hints::need(function),
        deadline_hint: hints::deadline(function),
    };
    let mut tasks: Vec<(usize, PlannedTask)> = Vec::new();
    // All lazy ops of a process are in its one lazy task: those of a function have one entry.
    let mut lazy = Candidate {
        ops: Vec::new(),
        obstacles: planner.lost_launches(collected),
        variables: Vec::new(),
    };
    for candidate in tasks::merge(collected, function, &launches, &objects) {
        let whole = planner.insertion(&candidate);
        let parts = match &whole {
            Err(_) => tasks::part(collected, function, &launches, &objects, &candidate),
            Ok(_) => None,
        };
        let planned = match parts {
            Some(parts) => parts
                .into_iter()
                .map(|part| (planner.insertion(&part), part))
                .collect(),
            None => vec![(whole, candidate)],
        };
        for (insertion, candidate) in planned {
            match insertion {
                Ok(insertion) => tasks.push((candidate.ops[0], planner.static_task(&candidate, insertion))),
                Err(obstacles) => {
                    lazy.ops.extend(candidate.ops);
                    lazy.obstacles.extend(obstacles);
                }
            }
        }
    }
    lazy.ops.sort_unstable();
    if !lazy.ops.is_empty() || !lazy.obstacles.is_empty() {
        tasks.push((
            lazy.ops.first().copied().unwrap_or(usize::MAX),
            planner.lazy_task(&lazy),
        ));
    }
    tasks.sort_by_key(|(first, _)| *first);
    tasks.into_iter().map(|(_, task)| task).collect()
}

struct Planner<'a> {
    collected: &'a Collected,
    variables: &'a Variables,
    cfg: &'a Cfg,
    devices: &'a DeviceFlow,
    launches: &'a [KernelLaunch],
    objects: &'a Objects,
    writer: Writer<'a>,
    never_move: Vec<Why>,
    never_share: Vec<Why>,
    need_hint: Option<Expr>,
    deadline_hint: Option<Expr>,
}

impl Planner<'_> {
    /// What to insert for a task, or why it is lazy.
    fn insertion(&self, candidate: &Candidate) -> Result<Static, Vec<Why>> {
        let (cfg, all) = (self.cfg, &self.objects.ops);
        let ops = || candidate.ops.iter().map(|&number| &all[number]);
        let device = self.devices.of_all(cfg, ops());
        // An unknown size is no obstacle if the source states the sum.
        let is_obstacle = |why: &&Why| why.code != ReasonCode::NeedUndefined || self.need_hint.is_none();
        let mut obstacles = candidate.obstacles.clone();
        obstacles.extend(device.as_ref().err().cloned());
        if obstacles.iter().any(|why| is_obstacle(&why)) {
            return Err(obstacles);
        }
        let mut touching: Vec<Point> = Vec::new();
        for op in ops().filter(|op| op.is_touching()) {
            touching.push(cfg.point(op.call));
            if let OpKind::Launch(number) = op.kind {
                touching.extend(self.launches[number].push.map(|push| cfg.point(push)));
            }
        }
        let lazy = |code, text| Err(vec![Why::new(code, text, all[candidate.ops[0]].call)]);
        if touching.is_empty() {
            return lazy(ReasonCode::NoDominatingPoint, "nothing in this task needs a GPU");
        }
        let device = device.ok().flatten();
        let Some((begin, need)) = self.begin(candidate, &touching, device)? else {
            return lazy(ReasonCode::SeveralDevices, BEFORE_ITS_DEVICE);
        };
        let calls: Vec<(Value, bool)> = ops()
            .map(|op| (op.call, matches!(op.kind, OpKind::Allocate(_))))
            .collect();
        let begin_at = cfg
            .block(begin.block)
            .instructions()
            .nth(begin.at)
            .expect("a point is at an instruction");
        Ok(Static {
            begin: begin_at,
            need,
            ends: ends::ends(cfg, begin, &calls),
            ops: calls,
            variables: !candidate.variables.is_empty(),
            alone: !self.never_share.is_empty(),
            movable: false,
            deadline: self.deadline(begin),
        })
    }

    /// What the source says of the deadline of a task that begins there, where that is known there.
    fn deadline(&self, begin: Point) -> Option<Expr> {
        let mut said = self.deadline_hint.clone();
        Reads::new(self.collected, self.cfg, begin).at_begin(said.iter_mut());
        said.filter(|said| placement::is_defined(self.cfg, said, begin))
    }

    /// Launches whose stub is not known here: a configuration is pushed, then a pointer called.
    fn lost_launches(&self, collected: &Collected) -> Vec<Why> {
        let pushes = self.cfg.function.instructions().filter(|&call| {
            collected
                .entry(call)
                .is_some_and(|entry| entry.name == "__cudaPushCallConfiguration")
        });
        let lost = pushes.filter(|&push| !self.launches.iter().any(|launch| launch.push == Some(push)));
        lost.map(|push| {
            Why::new(
                ReasonCode::UnknownKernel,
                "a kernel is launched through a pointer",
                push,
            )
        })
        .collect()
    }
}
