//! What the screen shows, and what keys make of it.

use std::collections::{BTreeMap, VecDeque};

use mgb_probe::view::NodeView;
use mgb_queue::protocol::Listing;
use mgb_queue::record::JobState;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::rows::{RowKey, RowOrder, TopRow, UserRow, rows, user_rows};

/// How many loads of a GPU are kept: the widest chart there is.
const MAX_LOADS: usize = 200;
/// The longest number of a GPU that can be typed.
const MAX_DIGITS: usize = 4;

/// What the lower part of the screen is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    /// Tasks and requests.
    Tasks,
    /// What users have.
    Users,
    /// The queue of the user's own jobs.
    Jobs,
    /// What keys and marks mean.
    Help,
}

impl Pane {
    fn next(self) -> Pane {
        match self {
            Pane::Tasks => Pane::Jobs,
            Pane::Jobs => Pane::Users,
            Pane::Users | Pane::Help => Pane::Tasks,
        }
    }
}

/// What is asked before something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether to end a process.
    Cancel { pid: u32, label: String },
    /// To which GPU to move a process; what was typed of its number.
    Move { pid: u32, digits: String },
}

/// What a key has asked to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopAction {
    /// The screen is given back.
    Quit,
    /// A process is ended by SIGTERM.
    Cancel(u32),
    /// A process leaves the GPUs.
    Suspend(u32),
    /// A suspended process goes on.
    Resume(u32),
    /// A process is moved to a GPU.
    Move(u32, u32),
}

/// What is shown.
#[derive(Debug)]
pub(super) struct TopState {
    /// The node as mgbd showed it last, or why it does not.
    pub(super) view: Result<NodeView, String>,
    /// The user's own jobs in the queue that have not ended; `None`: no service of it runs.
    pub(super) jobs: Option<Listing>,
    /// By GPU: its loads in thousandths, the last one behind.
    loads: BTreeMap<String, VecDeque<u64>>,
    pub(super) pane: Pane,
    pub(super) order: RowOrder,
    pub(super) is_reversed: bool,
    selected: Option<RowKey>,
    pub(super) question: Option<Question>,
    /// What came of the last action.
    pub(super) message: Option<String>,
}

impl TopState {
    /// Nothing is known yet.
    pub(super) fn new() -> TopState {
        TopState {
            view: Err("mgbd is asked".to_owned()),
            jobs: None,
            loads: BTreeMap::new(),
            pane: Pane::Tasks,
            order: RowOrder::Gpu,
            is_reversed: false,
            selected: None,
            question: None,
            message: None,
        }
    }

    /// The node has been looked at.
    pub(super) fn saw(&mut self, view: Result<NodeView, String>, jobs: Option<Listing>) {
        self.jobs = jobs;
        if let Ok(view) = &view {
            let is_there = |uuid: &String| view.gpus.iter().any(|gpu| gpu.gpu.uuid == *uuid);
            self.loads.retain(|uuid, _| is_there(uuid));
            for gpu in &view.gpus {
                let loads = self.loads.entry(gpu.gpu.uuid.clone()).or_default();
                loads.push_back(u64::from(gpu.load.unwrap_or(0)));
                while loads.len() > MAX_LOADS {
                    loads.pop_front();
                }
            }
        }
        self.view = view;
    }

    /// The last loads of a GPU, so many at most.
    pub(super) fn loads(&self, uuid: &str, most: usize) -> Vec<u64> {
        let Some(loads) = self.loads.get(uuid) else {
            return Vec::new();
        };
        loads
            .iter()
            .skip(loads.len().saturating_sub(most))
            .copied()
            .collect()
    }

    /// How many of the user's own jobs are in this state.
    pub(super) fn jobs_in(&self, state: JobState) -> usize {
        let jobs = self.jobs.iter().flat_map(|listing| &listing.jobs);
        jobs.filter(|listed| listed.job.state == state).count()
    }

    /// The tasks and requests, in their order.
    pub(super) fn rows(&self) -> Vec<TopRow> {
        self.view
            .as_ref()
            .map_or_else(|_| Vec::new(), |view| rows(view, self.order, self.is_reversed))
    }

    /// The users, the most memory first.
    pub(super) fn user_rows(&self) -> Vec<UserRow> {
        self.view.as_ref().map_or_else(|_| Vec::new(), user_rows)
    }

    /// The place of the row that keys are about. Where it has gone that is the first.
    pub(super) fn selected(&self, rows: &[TopRow]) -> usize {
        let selected = self.selected.as_ref();
        selected
            .and_then(|key| rows.iter().position(|row| row.key == *key))
            .unwrap_or(0)
    }

    fn select(&mut self, step: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let at = self.selected(&rows).saturating_add_signed(step).min(last);
        self.selected = rows.get(at).map(|row| row.key.clone());
    }

    /// Takes a key; what it asks to be done.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<TopAction> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(TopAction::Quit);
        }
        if let Some(question) = self.question.take() {
            return self.answer(question, key.code);
        }
        self.message = None;
        match key.code {
            KeyCode::Char('q') => return Some(TopAction::Quit),
            // It leads back first.
            KeyCode::Esc if self.pane == Pane::Tasks => return Some(TopAction::Quit),
            KeyCode::Esc => self.pane = Pane::Tasks,
            KeyCode::Char('?' | 'h') => self.toggle(Pane::Help),
            KeyCode::Char('u') => self.toggle(Pane::Users),
            KeyCode::Char('b') => self.toggle(Pane::Jobs),
            KeyCode::Tab => self.pane = self.pane.next(),
            _ if self.pane != Pane::Tasks => {}
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(10),
            KeyCode::PageUp => self.select(-10),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            KeyCode::Char('o') => self.order = self.order.next(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('x' | 's' | 'm') => return self.about_selected(key.code),
            _ => {}
        }
        None
    }

    fn toggle(&mut self, pane: Pane) {
        self.pane = if self.pane == pane { Pane::Tasks } else { pane };
    }

    /// A key that is about the selected row.
    fn about_selected(&mut self, code: KeyCode) -> Option<TopAction> {
        let rows = self.rows();
        let row = rows.get(self.selected(&rows))?;
        let pid = row.key.pid;
        if pid == 0 {
            self.message = Some("its process has ended already".to_owned());
            return None;
        }
        // From now on it is meant, wherever it stands.
        self.selected = Some(row.key.clone());
        match code {
            KeyCode::Char('s') if row.is_suspended => return Some(TopAction::Resume(pid)),
            KeyCode::Char('s') => return Some(TopAction::Suspend(pid)),
            KeyCode::Char('m') if row.waits => {
                self.message = Some(format!("process {pid} waits: it has nothing to move yet"));
            }
            KeyCode::Char('m') => {
                self.question = Some(Question::Move {
                    pid,
                    digits: String::new(),
                });
            }
            _ => {
                self.question = Some(Question::Cancel {
                    pid,
                    label: row.label.clone(),
                });
            }
        }
        None
    }

    fn answer(&mut self, question: Question, code: KeyCode) -> Option<TopAction> {
        match (question, code) {
            (Question::Cancel { pid, .. }, KeyCode::Char('y' | 'Y')) => return Some(TopAction::Cancel(pid)),
            (Question::Move { pid, digits }, KeyCode::Enter) => match digits.parse() {
                Ok(gpu) => return Some(TopAction::Move(pid, gpu)),
                Err(_) => self.message = Some("nothing was moved".to_owned()),
            },
            (Question::Move { pid, mut digits }, KeyCode::Char(digit)) if digit.is_ascii_digit() => {
                if digits.len() < MAX_DIGITS {
                    digits.push(digit);
                }
                self.question = Some(Question::Move { pid, digits });
            }
            (Question::Move { pid, mut digits }, KeyCode::Backspace) => {
                digits.pop();
                self.question = Some(Question::Move { pid, digits });
            }
            (Question::Cancel { .. }, _) => self.message = Some("nothing was ended".to_owned()),
            (Question::Move { .. }, _) => self.message = Some("nothing was moved".to_owned()),
        }
        None
    }
}
