//! Placement of `task_begin`: the latest point that dominates every touching op, outside of every loop in
//! which the task cannot, or need not, begin again in each iteration.
use mgb_catalogue::report::ReasonCode;

use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Loop, Point};
use crate::host::ir::expr::Expr;
use crate::host::reason::Why;

/// The begin point of a task with these touching ops: the latest at which `is_current` says that the task's
/// device is, in the loops that `may_hold` allows alone, if they hold all of the ops. None without ops, or
/// without such a point.
pub fn begin(
    cfg: &Cfg,
    touching: &[Point],
    is_current: impl Fn(Point) -> bool,
    may_hold: impl Fn(&Loop) -> bool,
) -> Option<Point> {
    let mut block = cfg.common_dominator(touching.iter().map(|point| point.block))?;
    loop {
        let outermost = cfg
            .loops_around(block)
            .filter(|one| !may_hold(one) || touching.iter().any(|point| !one.body.contains(&point.block)))
            .max_by_key(|one| one.body.len());
        if let Some(outermost) = outermost {
            block = match outermost.body.contains(&outermost.header) {
                true => cfg.immediate_dominator(outermost.header)?,
                false => outermost.header,
            };
            continue;
        }
        let ops = touching.iter().filter(|point| point.block == block);
        let end = cfg.block(block).instructions().count().saturating_sub(1);
        let latest = ops.map(|point| point.at).min().unwrap_or(end);
        let head = first_instruction(cfg, block).unwrap_or(latest);
        let points = (head.min(latest)..=latest).rev().map(|at| Point { block, at });
        if let Some(point) = points.into_iter().find(|&point| is_current(point)) {
            return Some(point);
        }
        block = cfg.immediate_dominator(block)?;
    }
}

/// The number of the first instruction of a block in front of which others may stand.
fn first_instruction(cfg: &Cfg, block: usize) -> Option<usize> {
    let first = cfg.block(block).first_insertion_point()?;
    Some(cfg.point(first).at)
}

/// Whether everything an expression reads is defined at the point.
pub fn is_defined(cfg: &Cfg, expression: &Expr, point: Point) -> bool {
    let mut defined = true;
    expression.leaves(&mut |value| defined &= cfg.is_defined_at(value, point));
    defined
}

/// Why an allocation's size cannot be asked for at `begin`; none when it can.
pub fn why_undefined(cfg: &Cfg, size: &Expr, begin: Point, touching: &[Point], call: Value) -> Option<Why> {
    let mut missing = None;
    size.leaves(&mut |value| {
        if missing.is_none() && !cfg.is_defined_at(value, begin) {
            missing = Some(value);
        }
    });
    let defined_at = cfg.point(missing?);
    let after_an_op = touching.iter().any(|&op| cfg.reaches(op, defined_at));
    Some(if after_an_op {
        Why::new(
            ReasonCode::NeedUndefined,
            "this size is known only after the task has begun",
            call,
        )
    } else {
        let text = "this size is computed on some paths only, and not before all ops of the task";
        Why::new(ReasonCode::NoDominatingPoint, text, call)
    })
}
