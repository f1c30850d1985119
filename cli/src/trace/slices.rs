//! Rows of processes, and what is under way in each of them.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::trace_file::{Row, TraceFile};

/// Work that begins so soon after other work is one with it, in nanoseconds: mgbd samples it, and says it in
/// milliseconds.
const JOIN_NS: u64 = 5_000_000;

/// What a row of a process shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKind {
    /// What a task does.
    Task(u64),
    /// What a request waits for; which of its process's.
    Wait(usize),
    /// When launches on a GPU are held.
    Holds(u32),
    /// When there is work on a GPU.
    Work(u32),
    /// When a task has room, as the program itself has written it down.
    Room(usize),
    /// When memory of a task leaves and comes back, by the program's own word.
    Swaps(usize),
}

impl RowKind {
    fn name(self) -> String {
        match self {
            RowKind::Task(number) => format!("task {number}"),
            RowKind::Wait(_) => "waits".to_owned(),
            RowKind::Holds(gpu) => format!("holds on GPU {gpu}"),
            RowKind::Work(gpu) => format!("work on GPU {gpu}"),
            RowKind::Room(task) => format!("room of task {task}, by itself"),
            RowKind::Swaps(task) => format!("swaps of task {task}, by itself"),
        }
    }
}

/// A row of a process.
pub(super) type RowOf = (u32, RowKind);

#[derive(Debug)]
struct OpenSlice {
    name: String,
    from_ns: u64,
    args: Value,
}

/// What is under way, by row.
#[derive(Debug, Default)]
pub(super) struct Slices {
    rows: BTreeMap<RowOf, Row>,
    open: BTreeMap<RowOf, OpenSlice>,
    /// Work, from and to.
    works: BTreeMap<RowOf, (u64, u64)>,
    /// Where the last slice of a row ended: they do not overlap.
    ended_ns: BTreeMap<RowOf, u64>,
}

/// What is to be under way in a row.
#[derive(Debug)]
pub(super) struct Seen {
    /// What is done there: where that changes, another slice begins.
    pub(super) name: String,
    /// Since when, as far as that is known.
    pub(super) since_ns: u64,
    pub(super) args: Value,
}

impl Slices {
    /// The row of that kind in the file.
    pub(super) fn row(&mut self, file: &mut TraceFile, of: RowOf) -> Result<Row> {
        if let Some(row) = self.rows.get(&of) {
            return Ok(*row);
        }
        let next = self.rows.keys().filter(|(pid, _)| *pid == of.0).count() + 1;
        let tid = u32::try_from(next).unwrap_or(u32::MAX);
        let row = Row { pid: of.0, tid };
        self.rows.insert(of, row);
        file.name_row(row, || of.1.name())?;
        Ok(row)
    }

    /// This is under way now, and nothing else.
    pub(super) fn see(
        &mut self,
        file: &mut TraceFile,
        now_ns: u64,
        mut seen: BTreeMap<RowOf, Seen>,
    ) -> Result<()> {
        let goes_on = |of: &RowOf, open: &OpenSlice| seen.get(of).is_some_and(|seen| seen.name == open.name);
        let ended = self.open.iter().filter(|(of, open)| !goes_on(of, open));
        for of in ended.map(|(of, _)| *of).collect::<Vec<_>>() {
            if let Some(open) = self.open.remove(&of) {
                self.close(file, of, &open, now_ns)?;
            }
        }
        seen.retain(|of, _| !self.open.contains_key(of));
        for (of, seen) in seen {
            let last = self.ended_ns.get(&of).copied().unwrap_or(0);
            let from_ns = seen.since_ns.max(last).min(now_ns);
            let (name, args) = (seen.name, seen.args);
            self.open.insert(of, OpenSlice { name, from_ns, args });
        }
        Ok(())
    }

    fn close(&mut self, file: &mut TraceFile, of: RowOf, open: &OpenSlice, now_ns: u64) -> Result<()> {
        let row = self.row(file, of)?;
        self.ended_ns.insert(of, now_ns);
        file.slice(row, &open.name, open.from_ns, now_ns, &open.args)
    }

    /// There was work for so long until now: what joins the last of it is one slice with it.
    pub(super) fn work(
        &mut self,
        file: &mut TraceFile,
        of: RowOf,
        now_ns: u64,
        length_ns: u64,
    ) -> Result<()> {
        let since_ns = now_ns.saturating_sub(length_ns);
        if let Some((_, to_ns)) = self.works.get_mut(&of)
            && since_ns <= to_ns.saturating_add(JOIN_NS)
        {
            *to_ns += length_ns;
            return Ok(());
        }
        self.end_work(file, of)?;
        let from_ns = since_ns.max(self.ended_ns.get(&of).copied().unwrap_or(0));
        self.works.insert(of, (from_ns, from_ns + length_ns));
        Ok(())
    }

    /// Nothing is under way any more.
    pub(super) fn end(&mut self, file: &mut TraceFile, now_ns: u64) -> Result<()> {
        self.see(file, now_ns, BTreeMap::new())?;
        for of in self.works.keys().copied().collect::<Vec<_>>() {
            self.end_work(file, of)?;
        }
        Ok(())
    }

    fn end_work(&mut self, file: &mut TraceFile, of: RowOf) -> Result<()> {
        let Some((from_ns, to_ns)) = self.works.remove(&of) else {
            return Ok(());
        };
        let row = self.row(file, of)?;
        self.ended_ns.insert(of, to_ns);
        file.slice(row, "work", from_ns, to_ns, &json!({}))
    }
}
