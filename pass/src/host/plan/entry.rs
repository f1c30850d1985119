//! The entry of a task in the report.
use std::collections::HashSet;

use mgb_catalogue::report;

use super::{PlannedTask, Planner, Static};
use crate::host::collect::variables::DeviceVariable;
use crate::host::ir::Value;
use crate::host::ir::expr::Expr;
use crate::host::ir::helpers;
use crate::host::ir::names;
use crate::host::needs::{self, Largest, StaticNeed};
use crate::host::objects::PointerStore;
use crate::host::objects::ops::{GpuOp, OpKind};
use crate::host::reason::{self, Why};
use crate::host::tasks::Candidate;
use crate::host::tasks::ends::End;

impl Planner<'_> {
    pub(super) fn static_task(&self, candidate: &Candidate, mut insertion: Static) -> PlannedTask {
        let mut entry = self.entry(candidate, &insertion.need.sizes);
        entry.kind = report::TaskKind::Static;
        let launched = candidate
            .ops
            .iter()
            .filter_map(|&number| match self.objects.ops[number].kind {
                OpKind::Launch(number) => Some(&self.launches[number]),
                _ => None,
            });
        let ties: Option<Vec<&[Why]>> = launched.map(|one| one.variables.ties.as_deref()).collect();
        if let Some(ties) = ties.map(|all| all.concat()) {
            let anchored = entry.movable.get_or_insert(report::Movable {
                movable: ties.is_empty(),
                reasons: Vec::new(),
            });
            anchored.movable &= ties.is_empty();
            anchored.reasons.extend(reasons(&ties));
        }
        insertion.movable = entry.movable.as_ref().is_some_and(|proof| proof.movable);
        entry.need = Some(self.need(&insertion.need));
        entry.deadline = insertion.deadline.as_ref().map(|ms| self.writer.write(ms));
        entry.begin = Some(self.place(insertion.begin));
        entry.ends = insertion.ends.iter().map(|end| self.place_of_end(end)).collect();
        entry.ends.sort_by_key(|place| place.line);
        PlannedTask {
            entry,
            insertion: Some(insertion),
            obstacles: Vec::new(),
        }
    }

    pub(super) fn lazy_task(&self, candidate: &Candidate) -> PlannedTask {
        let mut entry = self.entry(candidate, &needs::sizes(self.objects, &candidate.ops));
        entry.reasons = reasons(&candidate.obstacles);
        PlannedTask {
            entry,
            insertion: None,
            obstacles: candidate.obstacles.clone(),
        }
    }

    fn entry(&self, candidate: &Candidate, sizes: &[(usize, Expr)]) -> report::TaskReport {
        let all = &self.objects.ops;
        let mut entry = report::TaskReport {
            function: self.function(),
            ..Default::default()
        };
        let mut allocated: Vec<(usize, u32)> = Vec::new();
        for &number in &candidate.ops {
            if let OpKind::Allocate(_) = all[number].kind {
                let id = allocated.len() as u32 + 1;
                allocated.push((number, id));
                let size = sizes.iter().find(|(op, _)| *op == number);
                let bytes = size.map_or("unknown".to_owned(), |(_, size)| self.writer.write(size));
                entry.objects.push(report::ObjectReport {
                    id,
                    name: self.name_of(number),
                    bytes,
                    variable: false,
                });
            }
        }
        let mut variables: Vec<(&DeviceVariable, u32)> = Vec::new();
        for variable in candidate.ops.iter().flat_map(|&number| &all[number].variables) {
            if variables.iter().any(|(one, _)| *one == variable) {
                continue;
            }
            let id = entry.objects.len() as u32 + 1;
            variables.push((variable, id));
            let bytes = self.variables.bytes(variable);
            entry.objects.push(report::ObjectReport {
                id,
                name: variable.name(),
                bytes: bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string()),
                variable: true,
            });
        }
        let mut ordered: Vec<&GpuOp> = candidate.ops.iter().map(|&number| &all[number]).collect();
        // Blocks need not stand in the order of the source; what was inlined stands where its call was.
        if ordered.iter().all(|op| helpers::outer_line(op.call).is_some()) {
            ordered.sort_by_key(|op| helpers::outer_line(op.call));
        }
        entry.alone = reasons(&self.never_share);
        let anchors = [&candidate.variables[..], &self.never_move].concat();
        if !anchors.is_empty() {
            entry.movable = Some(report::Movable {
                movable: false,
                reasons: reasons(&anchors),
            });
        }
        for op in ordered {
            let classes: HashSet<usize> = op.nodes.iter().map(|&node| self.objects.class(node)).collect();
            let own = |number: usize| all[number].call == op.call;
            let shares = |number: usize| {
                let node = all[number].nodes.first();
                node.is_some_and(|&node| classes.contains(&self.objects.class(node)))
            };
            let allocates = matches!(op.kind, OpKind::Allocate(_));
            let objects = allocated
                .iter()
                .filter(|(number, _)| if allocates { own(*number) } else { shares(*number) })
                .map(|&(_, id)| id)
                .chain(
                    variables
                        .iter()
                        .filter(|(variable, _)| op.variables.contains(variable))
                        .map(|&(_, id)| id),
                );
            let kernel = match op.kind {
                OpKind::Launch(number) => Some(self.launches[number].kernel.clone()),
                _ => None,
            };
            let op = report::OpReport {
                op: op.name.to_owned(),
                at: self.place(op.call),
                kernel: kernel.filter(|name| !name.is_empty()),
                objects: objects.collect(),
            };
            entry.ops.push(op);
        }
        entry
    }

    fn need(&self, need: &StaticNeed) -> report::NeedFormulas {
        report::NeedFormulas {
            peak: self.writer.write(&need.peak),
            grid: self.largest(&need.grid),
            block: self.largest(&need.block),
            shared: self.largest(&need.shared),
            registers: need.registers,
        }
    }

    fn largest(&self, largest: &Largest) -> String {
        match (&largest.known, largest.complete) {
            (Some(known), true) => self.writer.write(known),
            (Some(known), false) => format!("at least {}", self.writer.write(known)),
            (None, true) => "0".to_owned(),
            (None, false) => "unknown".to_owned(),
        }
    }

    fn function(&self) -> String {
        helpers::demangle(&self.cfg.function.name())
    }

    /// The variable that an allocation's address goes to.
    fn name_of(&self, allocation: usize) -> String {
        let node = self.objects.ops[allocation].nodes.first();
        let slot = node.and_then(|&node| self.objects.node(node));
        match slot {
            Some(PointerStore::Slot(variable, _) | PointerStore::Any(variable)) if variable.is_global() => {
                helpers::demangle(&variable.name())
            }
            Some(PointerStore::Slot(variable, _) | PointerStore::Any(variable)) if variable.is_call() => {
                self.writer.name(variable).unwrap_or_default()
            }
            Some(PointerStore::Slot(variable, _) | PointerStore::Any(variable)) => {
                names::variable_of(variable).unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    fn place(&self, instruction: Value) -> report::SourceLocation {
        reason::place(instruction).unwrap_or_default()
    }

    fn place_of_end(&self, end: &End) -> report::SourceLocation {
        match *end {
            End::After(op) => self.place(op),
            End::Head(block) | End::Edge(_, block) => {
                block.instructions().find_map(reason::place).unwrap_or_default()
            }
        }
    }
}

/// As the report has them, in the order of the source.
fn reasons(all: &[Why]) -> Vec<report::Reason> {
    let mut reasons: Vec<report::Reason> = all.iter().map(Why::reason).collect();
    reasons.sort_by_cached_key(|reason| {
        let line = reason.at.as_ref().map_or(0, |place| place.line);
        (line, reason.text.clone())
    });
    reasons.dedup();
    reasons
}
