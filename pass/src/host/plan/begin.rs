//! Where a static task begins, and what it asks for there: in the loops that may begin it in each iteration, or before
//! them.
use mgb_catalogue::report::ReasonCode;

use super::{BEFORE_ITS_DEVICE, Planner};
use crate::assume::Proof;
use crate::host::ir::cfg::{Loop, Point};
use crate::host::needs::reads::Reads;
use crate::host::needs::{self, StaticNeed};
use crate::host::objects::ops::{GpuOp, OpKind};
use crate::host::reason::Why;
use crate::host::tasks::Candidate;
use crate::host::tasks::devices::CurrentDevice;
use crate::host::tasks::kept::KeptAddresses;
use crate::host::tasks::placement;

impl Planner<'_> {
    /// Where the task of a device begins, and what it asks for there; none if the device is not current yet
    /// wherever it could begin.
    pub(super) fn begin(
        &self,
        candidate: &Candidate,
        touching: &[Point],
        device: Option<CurrentDevice>,
    ) -> Result<Option<(Point, StaticNeed)>, Vec<Why>> {
        let (cfg, all) = (self.cfg, &self.objects.ops);
        let is_current = |point| device.is_none_or(|device| self.devices.at(point) == device);
        let need = |begin| {
            let reads = Reads::new(self.collected, cfg, begin);
            let hint = self.need_hint.as_ref();
            needs::need(cfg, self.objects, self.launches, &candidate.ops, &reads, hint)
        };
        let allocations: Vec<usize> = candidate
            .ops
            .iter()
            .filter(|&&number| matches!(all[number].kind, OpKind::Allocate(_)))
            .map(|&number| cfg.point(all[number].call).block)
            .collect();
        // If the loop ran again without allocating the objects again, the task would begin twice.
        let allocates_all = |one: &Loop| allocations.iter().all(|block| one.body.contains(block));
        let keeping = match allocations.is_empty() {
            true => Vec::new(),
            false => self.keeping(candidate, touching, is_current, allocates_all),
        };
        let keeps = |one: &Loop| keeping.iter().any(|other| std::ptr::eq(*other, one));
        let renews = |one: &Loop| allocates_all(one) && !keeps(one);
        let Some(begin) = placement::begin(cfg, touching, is_current, renews) else {
            return Ok(None);
        };
        let own = need(begin).map_err(|mut whys| {
            if !keeping.is_empty() {
                whys.extend(self.kept(candidate));
            }
            whys
        });
        if !allocations.is_empty() {
            // Objects that a loop allocates and keeps can be counted only before that loop.
            let innermost = |block: &usize| cfg.loops_around(*block).min_by_key(|one| one.body.len());
            let piling: Vec<&Loop> = allocations.iter().filter_map(innermost).collect();
            let is_piling = |one: &Loop| piling.iter().any(|other| other.header == one.header);
            let piles = |whys: &[Why]| whys.iter().any(|why| why.code == ReasonCode::AllocatedInLoop);
            let outside = [
                placement::begin(cfg, touching, is_current, |one| renews(one) && !is_piling(one)),
                placement::begin(cfg, touching, is_current, |_| false),
            ];
            return match own {
                Err(whys) if piles(&whys) => outside
                    .into_iter()
                    .flatten()
                    .find_map(|before| need(before).ok().map(|need| (before, need)))
                    .map(Some)
                    .ok_or_else(|| self.piling(candidate, whys, &outside)),
                own => own.map(|own| Some((begin, own))),
            };
        }
        let own = own?;
        // The task holds no memory. If a loop launches it in each iteration and does nothing else, it begins
        // once before the loop, provided that its launches are known as well there.
        let only_launches = |one: &Loop| {
            let inside = |op: &&GpuOp| one.body.contains(&cfg.point(op.call).block);
            let is_bare = |op: &GpuOp| matches!(op.kind, OpKind::Launch(_)) && op.nodes.is_empty();
            all.iter().filter(inside).all(is_bare)
        };
        let before = placement::begin(cfg, touching, is_current, |one| !only_launches(one));
        let before = before.filter(|&before| before != begin);
        Ok(Some(
            match before.map(|before| need(before).map(|need| (before, need))) {
                Some(Ok((before, need))) if need.knows_as_much_as(&own) => (before, need),
                _ => (begin, own),
            },
        ))
    }

    /// The loops in which the task must not begin although they allocate all its objects: an object of one run
    /// is used in a later one.
    fn keeping(
        &self,
        candidate: &Candidate,
        touching: &[Point],
        is_current: impl Fn(Point) -> bool,
        allocates_all: impl Fn(&Loop) -> bool,
    ) -> Vec<&Loop> {
        let cfg = self.cfg;
        let mut keeping: Vec<&Loop> = Vec::new();
        let mut kept = None;
        while !Proof::Loops.is_assumed() {
            let keeps = |one: &Loop| keeping.iter().any(|other| std::ptr::eq(*other, one));
            let renews = |one: &Loop| allocates_all(one) && !keeps(one);
            let Some(begin) = placement::begin(cfg, touching, &is_current, renews) else {
                break;
            };
            let mut around: Vec<&Loop> = cfg.loops_around(begin.block).filter(|one| !keeps(one)).collect();
            if around.is_empty() {
                break;
            }
            let kept = kept.get_or_insert_with(|| {
                KeptAddresses::new(self.collected, cfg, self.launches, self.objects, &candidate.ops)
            });
            around.sort_by_key(|one| one.body.len());
            match around.into_iter().find(|one| kept.outlives(begin, one)) {
                Some(one) => keeping.push(one),
                None => break,
            }
        }
        keeping
    }

    /// Why a task does not begin in each run of a loop.
    fn kept(&self, candidate: &Candidate) -> Option<Why> {
        let allocates = |&&number: &&usize| matches!(self.objects.ops[number].kind, OpKind::Allocate(_));
        let first = candidate.ops.iter().find(allocates)?;
        let text = "an object of one iteration is used in a later one: the task cannot begin in each";
        Some(Why::new(
            ReasonCode::AllocatedInLoop,
            text,
            self.objects.ops[*first].call,
        ))
    }

    /// Why a task is lazy that could count what a loop allocates only before the loop, at one of these
    /// points.
    fn piling(&self, candidate: &Candidate, mut whys: Vec<Why>, outside: &[Option<Point>]) -> Vec<Why> {
        if outside.iter().all(Option::is_none) {
            let first = self.objects.ops[candidate.ops[0]].call;
            whys.push(Why::new(ReasonCode::SeveralDevices, BEFORE_ITS_DEVICE, first));
        }
        whys
    }
}
