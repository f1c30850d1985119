//! Needs: what a static task asks for, as expressions over the values at its begin point.
pub mod bounds;
mod calls;
mod conditions;
mod lifetimes;
mod locations;
pub mod reads;
mod together;
mod trips;
mod writes;

use mgb_catalogue::report::ReasonCode;

use crate::host::collect::resources::Taken;
use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::expr::{self, BinaryOp as Arithmetic, Expr};
use crate::host::needs::bounds::{possible, round_up, times};
use crate::host::needs::conditions::Condition;
use crate::host::needs::lifetimes::Lifetimes;
use crate::host::needs::reads::Reads;
use crate::host::needs::together::Together;
use crate::host::objects::Objects;
use crate::host::objects::launches::{Configuration, KernelLaunch};
use crate::host::objects::ops::{OpKind, Size};
use crate::host::reason::Why;
use crate::host::tasks::placement;

/// `cudaMallocPitch` pads rows to this many bytes.
const PITCH: u64 = 512;
/// CUDA's bound for a grid's y and z. With it, the product of all three fits 64 bits.
const GRID_YZ: u64 = 65535;

/// What a static task asks for.
pub struct StaticNeed {
    /// The size of every object, by op number.
    pub sizes: Vec<(usize, Expr)>,
    /// The largest sum of sizes of objects that are alive together.
    pub peak: Expr,
    /// The same, each size rounded up to whole granules.
    pub mapped: Expr,
    /// Blocks of the largest launch.
    pub grid: Largest,
    /// Threads per block of the largest block.
    pub block: Largest,
    /// The most shared memory per block, static and dynamic.
    pub shared: Largest,
    /// The most registers per thread; none where they are not known of every kernel.
    pub registers: Option<u32>,
}

impl StaticNeed {
    /// Whether it knows as much of the launches of the task as another.
    pub fn knows_as_much_as(&self, other: &StaticNeed) -> bool {
        let complete = |need: &StaticNeed| [need.grid.complete, need.block.complete, need.shared.complete];
        let (own, others) = (complete(self), complete(other));
        own.iter().zip(others).all(|(&own, other)| own || !other)
    }
}

/// The largest of some figure over the launches of a task.
pub struct Largest {
    /// Over the launches for which it is known at the begin; none if that is none of them.
    pub known: Option<Expr>,
    /// Whether that is all launches; else it is a lower bound.
    pub complete: bool,
}

/// The size of every object of a task, by op number.
pub fn sizes(objects: &Objects, ops: &[usize]) -> Vec<(usize, Expr)> {
    ops.iter()
        .filter_map(|&number| match &objects.ops[number].kind {
            OpKind::Allocate(Size::Bytes(bytes)) => Some((number, expr::zext(64, Expr::of(*bytes)))),
            OpKind::Allocate(Size::Rows(width, height)) => {
                let row = round_up(expr::zext(64, Expr::of(*width)), PITCH);
                Some((
                    number,
                    expr::binary(Arithmetic::Mul, row, expr::zext(64, Expr::of(*height))),
                ))
            }
            _ => None,
        })
        .collect()
}

/// The need of a task at its begin point, or why it cannot be computed there. `hint` is the need that the
/// source states, used where the pass cannot compute it.
pub fn need(
    cfg: &Cfg,
    objects: &Objects,
    launches: &[KernelLaunch],
    ops: &[usize],
    reads: &Reads,
    hint: Option<&Expr>,
) -> Result<StaticNeed, Vec<Why>> {
    let begin = reads.begin;
    let all = || ops.iter().map(|&number| &objects.ops[number]);
    let touching: Vec<Point> = all()
        .filter(|op| op.is_touching())
        .map(|op| cfg.point(op.call))
        .collect();
    let mut sizes = sizes(objects, ops);
    // An object that is allocated in each iteration counts with its largest size.
    let at_largest = |size: &mut Expr| {
        let is_known = |value| cfg.is_defined_at(value, begin);
        *size = trips::at_largest(cfg, size, is_known);
    };
    reads.at_begin(sizes.iter_mut().map(|(_, size)| size));
    sizes.iter_mut().for_each(|(_, size)| at_largest(size));
    reads.at_begin(sizes.iter_mut().map(|(_, size)| size));
    let mut obstacles: Vec<Why> = sizes
        .iter()
        .filter_map(|(op, size)| placement::why_undefined(cfg, size, begin, &touching, objects.ops[*op].call))
        .collect();
    for (op, size) in &mut sizes {
        let asked = possible(size.clone());
        *size = where_allocated(cfg, reads, objects.ops[*op].call, asked);
    }
    let lifetimes = Lifetimes::new(cfg, objects, ops, begin);
    let mut counts: Vec<Option<Expr>> = vec![None; sizes.len()];
    let mut together = Together::of(sizes.len());
    for (object, (op, _)) in sizes.iter().enumerate() {
        let (beside, repeats) = lifetimes.beside(object);
        if repeats {
            let call = objects.ops[*op].call;
            let count = lifetimes
                .is_counted(object)
                .then(|| count(cfg, reads, call))
                .flatten();
            if count.is_none() {
                let text = "allocated again while it may still be alive: the number of objects is not known";
                obstacles.push(Why::new(ReasonCode::AllocatedInLoop, text, call));
            }
            counts[object] = count;
        }
        for other in beside.into_iter().filter(|&other| other != object) {
            together.add(object, other);
        }
    }
    let unknown = all().filter(|op| matches!(op.kind, OpKind::Allocate(Size::Unknown)));
    obstacles.extend(unknown.flat_map(|op| op.obstacles.iter().cloned()));
    let mut said = hint.filter(|_| !obstacles.is_empty()).cloned();
    reads.at_begin(said.iter_mut());
    let said = said.filter(|bytes| placement::is_defined(cfg, bytes, begin));
    if said.is_none() && !obstacles.is_empty() {
        return Err(obstacles);
    }
    let moments = together.moments();
    let peak = |sum: fn(&mut dyn Iterator<Item = (Expr, Option<Expr>)>) -> Expr| {
        let of_moment = |moment: &Vec<usize>| {
            let mut all = moment
                .iter()
                .map(|&object| (sizes[object].1.clone(), counts[object].clone()));
            sum(&mut all)
        };
        largest(moments.iter().map(of_moment)).unwrap_or(Expr::number(0))
    };
    let launched: Vec<&KernelLaunch> = all()
        .filter_map(|op| match op.kind {
            OpKind::Launch(number) => Some(&launches[number]),
            _ => None,
        })
        .collect();
    let over = |part: fn(&Configuration, Taken) -> Expr| {
        let configured = launched
            .iter()
            .filter_map(|one| Some((one.configuration?, one.taken)));
        let mut parts: Vec<Expr> = configured
            .map(|(configuration, taken)| part(&configuration, taken.unwrap_or_default()))
            .collect();
        reads.at_begin(parts.iter_mut());
        parts.iter_mut().for_each(at_largest);
        reads.at_begin(parts.iter_mut());
        let known: Vec<Expr> = parts
            .into_iter()
            .filter(|part| placement::is_defined(cfg, part, begin))
            .collect();
        Largest {
            complete: known.len() == launched.len(),
            known: largest(known),
        }
    };
    let (peak, mapped) = match said {
        // What is mapped for it is derived from it.
        Some(bytes) => (possible(bytes), Expr::number(0)),
        None => (peak(asked), peak(|all| bounds::mapped(all))),
    };
    for ((_, size), count) in sizes.iter_mut().zip(&counts) {
        *size = times(size.clone(), count);
    }
    Ok(StaticNeed {
        peak,
        mapped,
        grid: over(grid),
        block: over(block),
        shared: over(shared),
        registers: registers(&launched),
        sizes,
    })
}

/// The most registers of the kernels, if those of all are known.
fn registers(launched: &[&KernelLaunch]) -> Option<u32> {
    let all: Option<Vec<u32>> = launched.iter().map(|one| Some(one.taken?.registers)).collect();
    all?.into_iter().max()
}

/// How many objects a place allocates in all from the task's begin on, at most: the runs of the loops around
/// it.
fn count(cfg: &Cfg, reads: &Reads, call: Value) -> Option<Expr> {
    let begin = reads.begin.block;
    let around = cfg.loops_around(cfg.point(call).block);
    let mut runs: Vec<Expr> = around
        .filter(|one| !one.body.contains(&begin))
        .map(|one| trips::most(cfg, one))
        .collect::<Option<_>>()?;
    reads.at_begin(runs.iter_mut());
    let known = runs
        .iter()
        .all(|one| placement::is_defined(cfg, one, reads.begin));
    let all = runs
        .into_iter()
        .reduce(|a, b| expr::binary(Arithmetic::Mul, a, b))?;
    known.then_some(all)
}

/// The bytes of an allocation, where all that must hold for it holds that is known at the begin.
fn where_allocated(cfg: &Cfg, reads: &Reads, call: Value, size: Expr) -> Expr {
    let mut conditions = conditions::of(cfg, call, reads.begin);
    reads.at_begin(
        conditions
            .iter_mut()
            .flat_map(|one| [&mut one.left, &mut one.right]),
    );
    let is_known = |one: &Condition| {
        [&one.left, &one.right]
            .into_iter()
            .all(|side| placement::is_defined(cfg, side, reads.begin))
    };
    let known = conditions.into_iter().filter(is_known);
    known.fold(size, |size, one| one.of(size))
}

/// The bytes that are asked for at once.
fn asked(all: &mut dyn Iterator<Item = (Expr, Option<Expr>)>) -> Expr {
    // What a loop allocates cannot be more than all addresses either.
    all.map(|(size, count)| match count {
        Some(_) => possible(times(size, &count)),
        None => size,
    })
    .reduce(|a, b| expr::binary(Arithmetic::AddSat, a, b))
    .unwrap_or(Expr::number(0))
}

fn largest(expressions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    let mut different: Vec<Expr> = Vec::new();
    for expression in expressions {
        if !different.contains(&expression) {
            different.push(expression);
        }
    }
    different
        .into_iter()
        .reduce(|a, b| expr::binary(Arithmetic::UMax, a, b))
}

fn grid(configuration: &Configuration, _: Taken) -> Expr {
    let (x, y) = halves(Expr::of(configuration.grid_xy));
    let z = expr::zext(64, Expr::of(configuration.grid_z));
    let bounded = |part| expr::binary(Arithmetic::UMin, part, Expr::number(GRID_YZ));
    product([x, bounded(y), bounded(z)])
}

fn block(configuration: &Configuration, _: Taken) -> Expr {
    let (x, y) = halves(Expr::of(configuration.block_xy));
    product([x, y, expr::zext(64, Expr::of(configuration.block_z))])
}

fn shared(configuration: &Configuration, taken: Taken) -> Expr {
    let dynamic = expr::zext(64, Expr::of(configuration.shared));
    expr::binary(Arithmetic::AddSat, Expr::number(taken.shared), dynamic)
}

fn product(parts: [Expr; 3]) -> Expr {
    let [x, y, z] = parts;
    expr::binary(Arithmetic::Mul, expr::binary(Arithmetic::Mul, x, y), z)
}

/// The two 32-bit halves of a word, low first, each as 64 bits.
fn halves(word: Expr) -> (Expr, Expr) {
    let low = expr::zext(64, expr::trunc(32, word.clone()));
    let high = expr::binary(Arithmetic::LShr, word, Expr::Constant(64, 32));
    (low, high)
}
