//! Fits a node view into its segment: what users have there is cut by user, so that nobody's entries push out
//! another's.
//!
//! Who reads the view has up to half of it for their own entries, and the users share what is left evenly:
//! who needs less than an even part leaves the rest to the others. Of each user, suspended processes and what
//! is to leave come first, since people wait for those; then tasks, requests and jobs.

use std::collections::BTreeMap;

use mgb_probe::view::{CutView, MAX_DOCUMENT, NodeView};
use serde::Serialize;

use crate::quota::shares::even_parts;

/// The document of a view as this user reads it, cut where it is too long.
pub(crate) fn document(mut view: NodeView, reader: u32) -> Vec<u8> {
    let whole = serde_json::to_vec(&view).unwrap_or_default();
    if whole.len() <= MAX_DOCUMENT {
        return whole;
    }
    let owners = view.quotas.owners.len();
    // Half of a document at most: the rest is for what changes.
    shorten(&mut view.quotas.owners, MAX_DOCUMENT / 2);
    view.cut.owners += (owners - view.quotas.owners.len()) as u64;
    let budgets = budgets(&view, reader);
    cut(&mut view, budgets);
    serde_json::to_vec(&view).unwrap_or_default()
}

/// Bytes of an entry, with the comma behind it.
fn bytes_of(entry: &impl Serialize) -> usize {
    serde_json::to_vec(entry).map_or(0, |text| text.len() + 1)
}

fn shorten(list: &mut Vec<impl Serialize>, most: usize) {
    let mut left = most;
    let fits = list.iter().take_while(|entry| {
        let bytes = bytes_of(*entry);
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    });
    let fits = fits.count();
    list.truncate(fits);
}

/// How many bytes each user's entries may have.
fn budgets(view: &NodeView, reader: u32) -> BTreeMap<u32, usize> {
    let mut wanted: BTreeMap<u32, usize> = BTreeMap::new();
    let mut want = |uid: u32, bytes: usize| *wanted.entry(uid).or_default() += bytes;
    view.suspended.iter().for_each(|one| want(one.uid, bytes_of(one)));
    view.leaving.iter().for_each(|one| want(one.uid, bytes_of(one)));
    view.tasks.iter().for_each(|one| want(one.uid, bytes_of(one)));
    view.queue.iter().for_each(|one| want(one.uid, bytes_of(one)));
    view.jobs.iter().for_each(|one| want(one.uid, bytes_of(one)));
    let without = NodeView {
        suspended: Vec::new(),
        leaving: Vec::new(),
        tasks: Vec::new(),
        queue: Vec::new(),
        jobs: Vec::new(),
        // As long as it can get.
        cut: CutView {
            tasks: u64::MAX,
            queue: u64::MAX,
            suspended: u64::MAX,
            leaving: u64::MAX,
            jobs: u64::MAX,
            owners: u64::MAX,
        },
        ..view.clone()
    };
    let room = MAX_DOCUMENT.saturating_sub(bytes_of(&without));
    let own = wanted.get(&reader).copied().unwrap_or(0).min(room / 2);
    if let Some(wanted) = wanted.get_mut(&reader) {
        *wanted -= own;
    }
    let mut budgets = even_parts(wanted, room - own);
    *budgets.entry(reader).or_default() += own;
    budgets
}

fn cut(view: &mut NodeView, mut budgets: BTreeMap<u32, usize>) {
    view.cut.suspended += keep(&mut view.suspended, &mut budgets, |one| one.uid);
    view.cut.leaving += keep(&mut view.leaving, &mut budgets, |one| one.uid);
    view.cut.tasks += keep(&mut view.tasks, &mut budgets, |one| one.uid);
    view.cut.queue += keep(&mut view.queue, &mut budgets, |one| one.uid);
    view.cut.jobs += keep(&mut view.jobs, &mut budgets, |one| one.uid);
}

/// Keeps what the budgets allow; how many it leaves out.
fn keep<T: Serialize>(
    list: &mut Vec<T>,
    budgets: &mut BTreeMap<u32, usize>,
    user: impl Fn(&T) -> u32,
) -> u64 {
    let before = list.len();
    list.retain(|one| {
        let bytes = bytes_of(one);
        let Some(left) = budgets.get_mut(&user(one)).filter(|left| bytes <= **left) else {
            return false;
        };
        *left -= bytes;
        true
    });
    (before - list.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgb_probe::view::{LeavingView, SuspendedView, TaskState, TaskView};

    fn task(uid: u32, label: &str) -> TaskView {
        TaskView {
            pid: 1,
            uid,
            task: 1,
            label: label.to_owned(),
            gpu: 0,
            state: TaskState::Running,
            reserved_bytes: 1,
            expected_bytes: 0,
            held_bytes: 0,
            peak_bytes: 0,
            evicted_bytes: 0,
            warps: 1,
            age_ms: 1,
            time_ms: 1,
            most_time_ms: None,
            class: mgb_probe::Class::Batch,
            lacks: Vec::new(),
            pace: None,
            latency: None,
            multiprocessors_percent: None,
            paused_ms: 0,
            speed: None,
            deadline_ms: None,
            ends_ms: None,
            busy_ms: 1,
            share: Some(1000),
            share_due: None,
            job: None,
        }
    }

    fn read(view: NodeView, reader: u32) -> NodeView {
        let text = document(view, reader);
        assert!(text.len() <= MAX_DOCUMENT, "{} bytes", text.len());
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn one_user_pushes_nobody_elses_entries_out() {
        let hostile = "\u{1}".repeat(60);
        let others = (0..4000).map(|_| task(7, &hostile));
        let mut view = NodeView {
            tasks: others.chain((0..50).map(|_| task(8, "mine"))).collect(),
            ..NodeView::default()
        };
        let suspended = |uid| SuspendedView {
            pid: uid,
            uid,
            job: None,
            whole_job: false,
            age_ms: 1,
            evicted_bytes: vec![0; 8],
        };
        view.suspended = (0..900).map(|_| suspended(7)).chain([suspended(8)]).collect();
        let leaving = |uid| LeavingView {
            pid: uid,
            uid,
            gpu: 0,
            bytes: 9,
            hindrance: None,
        };
        view.leaving = (0..900).map(|_| leaving(7)).chain([leaving(8)]).collect();
        for reader in [0, 7, 8] {
            let seen = read(view.clone(), reader);
            let own = seen.tasks.iter().filter(|task| task.uid == 8).count();
            assert_eq!(own, 50);
            assert!(seen.suspended.iter().any(|one| one.uid == 8));
            assert!(seen.leaving.iter().any(|one| one.uid == 8));
            assert_eq!(seen.cut.tasks as usize, view.tasks.len() - seen.tasks.len());
            assert!(seen.cut.tasks > 0 && seen.cut.shows_all_that_leaves());
        }
    }

    #[test]
    fn what_is_cut_of_what_leaves_is_said() {
        let leaving = |pid| LeavingView {
            pid,
            uid: 7,
            gpu: 0,
            bytes: 9,
            hindrance: None,
        };
        let view = NodeView {
            leaving: (0..20_000).map(leaving).collect(),
            ..NodeView::default()
        };
        let seen = read(view, 7);
        assert!(seen.cut.leaving > 0 && !seen.cut.shows_all_that_leaves());
        assert_eq!(seen.leaving.len() as u64 + seen.cut.leaving, 20_000);
    }

    #[test]
    fn many_users_have_even_parts_and_the_reader_half() {
        let mut view = NodeView::default();
        for uid in 0..3000 {
            view.tasks.extend([task(uid, "a task"), task(uid, "a task")]);
        }
        view.tasks.extend((0..200).map(|_| task(9, "mine")));
        let seen = read(view, 9);
        assert_eq!(seen.tasks.iter().filter(|task| task.uid == 9).count(), 202);
    }

    #[test]
    fn a_view_that_fits_is_whole() {
        let view = NodeView {
            tasks: vec![task(1, "one")],
            ..NodeView::default()
        };
        assert_eq!(read(view.clone(), 2), view);
    }
}
