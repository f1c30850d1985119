//! Placement of `task_begin`: the latest point that dominates every touching op, outside of every loop in
//! which the task cannot, or need not, begin again in each iteration.
use mgb_catalogue::report::Code;

use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Loop, Point};
use crate::host::ir::expr::Expr;
use crate::host::reason::Why;

/// The begin point of a task with these touching ops, which may begin inside the loops that `may_hold`
/// allows, if they hold all of the ops. None only without ops.
pub fn begin(cfg: &Cfg, touching: &[Point], may_hold: impl Fn(&Loop) -> bool) -> Option<Point> {
    let mut block = cfg.common_dominator(touching.iter().map(|point| point.block))?;
    loop {
        let outermost = cfg
            .loops_around(block)
            .filter(|one| !may_hold(one) || touching.iter().any(|point| !one.body.contains(&point.block)))
            .max_by_key(|one| one.body.len());
        let Some(outermost) = outermost else { break };
        block = match outermost.body.contains(&outermost.header) {
            true => cfg.immediate_dominator(outermost.header)?,
            false => outermost.header,
        };
    }
    let first = touching
        .iter()
        .filter(|point| point.block == block)
        .map(|point| point.at)
        .min();
    let last = cfg.block(block).instructions().count().saturating_sub(1);
    Some(Point {
        block,
        at: first.unwrap_or(last),
    })
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
            Code::NeedUndefined,
            "this size is known only after the task has begun",
            call,
        )
    } else {
        let text = "this size is computed on some paths only, and not before all ops of the task";
        Why::new(Code::NoDominatingPoint, text, call)
    })
}
