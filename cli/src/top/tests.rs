//! What people see of a node, at several sizes, and what keys do.

use mgb_probe::view::{NodeView, TaskState};
use mgb_queue::protocol::Listing;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::palette::Palette;
use super::screen;
use super::state::{TopAction, TopState};
use crate::example;

const UNICODE: Palette = Palette {
    has_colour: true,
    is_unicode: true,
};
const ASCII: Palette = Palette {
    has_colour: false,
    is_unicode: false,
};

/// Two jobs of the queue, of which one waits.
const JOBS: &str = r#"{"version":1,"pid":5,"folder":"/home/one/queue","settings":{"places":null,"is_paused":true},
  "trouble":null,"jobs":[
    {"id":"7","text":"./train --epochs 3","program":"/home/one/train","arguments":["--epochs","3"],
      "folder":"/home/one","environment":1,"submitted":1000.0,"state":"running","attempts":[],
      "waits_for":null,"pid":null,"log":null},
    {"id":"8","text":"./report","program":"/home/one/report","arguments":[],"folder":"/home/one",
      "environment":1,"submitted":1001.0,"state":"queued","attempts":[],"waits_for":"a place","pid":null,
      "log":null}]}"#;

fn jobs() -> Listing {
    serde_json::from_str(JOBS).expect("jobs")
}

fn shown(view: NodeView) -> TopState {
    let mut state = TopState::new();
    state.saw(Ok(view), None);
    state
}

fn drawn(state: &TopState, columns: u16, rows: u16, palette: Palette) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a screen");
    terminal
        .draw(|frame| screen::draw(frame, state, palette))
        .expect("is drawn");
    let buffer = terminal.backend().buffer();
    let line = |row| -> String {
        (0..columns)
            .map(|column| buffer[(column, row)].symbol())
            .collect()
    };
    let lines = (0..rows).map(|row| format!("{}\n", line(row).trim_end()));
    lines.collect()
}

fn press(state: &mut TopState, code: KeyCode) -> Option<TopAction> {
    state.key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// The pid of the row that keys are about.
fn selected(state: &TopState) -> u32 {
    let rows = state.rows();
    rows[state.selected(&rows)].key.pid
}

#[test]
fn people_see_the_node() {
    let mut state = shown(example::view());
    insta::assert_snapshot!("wide", drawn(&state, 120, 24, UNICODE));
    insta::assert_snapshot!("narrow", drawn(&state, 60, 16, ASCII));
    insta::assert_snapshot!("once", screen::text(&state, 100, ASCII));
    press(&mut state, KeyCode::Char('u'));
    insta::assert_snapshot!("users", drawn(&state, 80, 20, ASCII));
    press(&mut state, KeyCode::Char('?'));
    insta::assert_snapshot!("help", drawn(&state, 100, 30, UNICODE));
    state.saw(Ok(example::view()), Some(jobs()));
    press(&mut state, KeyCode::Char('b'));
    insta::assert_snapshot!("jobs", drawn(&state, 80, 20, ASCII));
}

/// A terminal may be of any size, and mgbd may say anything.
#[test]
fn any_size_and_any_view_is_drawn() {
    let mut odd = example::view();
    for gpu in &mut odd.gpus {
        gpu.reserved_bytes = u64::MAX;
        gpu.headroom_bytes = u64::MAX;
        gpu.foreign_bytes = u64::MAX;
        gpu.load = Some(u32::MAX);
        gpu.fails = Some("why\n\u{1b}[2J".repeat(40));
    }
    odd.tasks[0].label = "\u{1b}[31m長い名前\u{7}".repeat(30);
    odd.tasks[0].share = Some(u32::MAX);
    let mut none = example::view();
    (none.gpus, none.tasks, none.queue) = (Vec::new(), Vec::new(), Vec::new());
    let mut zero = example::view();
    (zero.gpus[0].gpu.total_bytes, zero.gpus[0].gpu.usable_bytes) = (0, 0);
    let mut many = example::view();
    many.gpus = std::iter::repeat_n(many.gpus[0].clone(), 64).collect();
    for view in [example::view(), odd, none, zero, many] {
        let mut state = shown(view);
        state.jobs = Some(jobs());
        for pane in [KeyCode::Tab, KeyCode::Tab, KeyCode::Tab, KeyCode::Char('?')] {
            for (columns, rows) in [(1, 1), (2, 2), (9, 3), (20, 5), (40, 8), (79, 24), (200, 60)] {
                for palette in [UNICODE, ASCII] {
                    let text = drawn(&state, columns, rows, palette);
                    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
                }
            }
            let text = screen::text(&state, usize::from(u8::MAX), ASCII);
            assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
            press(&mut state, pane);
        }
    }
}

/// All columns of a bar together are its memory, whatever is where.
#[test]
fn a_bar_has_its_length() {
    let mut view = example::view();
    let gpu = &mut view.gpus[0];
    (gpu.gpu.total_bytes, gpu.gpu.usable_bytes) = (100 << 20, 98 << 20);
    (gpu.reserved_bytes, gpu.resident_bytes) = (50 << 20, 25 << 20);
    (gpu.headroom_bytes, gpu.contexts_bytes, gpu.overhead_bytes) = (10 << 20, 0, 0);
    (gpu.foreign_bytes, gpu.reclaiming_bytes) = (15 << 20, 5 << 20);
    let text = drawn(&shown(view), 120, 24, ASCII);
    let bar = text.lines().nth(1).and_then(|line| line.split(['[', ']']).nth(1));
    let bar = bar.expect("a bar");
    let part = |mark| bar.chars().filter(|one| *one == mark).count() * 100 / bar.len();
    for (mark, percent) in [('#', 25), ('=', 25), ('-', 10), ('x', 20), ('.', 20)] {
        assert!(part(mark).abs_diff(percent) <= 2, "{mark} of {bar}");
    }
}

/// The selected row stays the one that keys are about, wherever it goes; and it is in sight.
#[test]
fn what_is_selected_stays_so() {
    let mut view = example::view();
    let mut state = shown(view.clone());
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::Down);
    let pid = selected(&state);
    view.tasks.reverse();
    state.saw(Ok(view), None);
    for _ in 0..6 {
        press(&mut state, KeyCode::Char('o'));
        assert_eq!(selected(&state), pid);
        press(&mut state, KeyCode::Char('r'));
        assert_eq!(selected(&state), pid);
    }
    press(&mut state, KeyCode::End);
    let last = selected(&state).to_string();
    let text = drawn(&state, 80, 12, ASCII);
    assert!(text.lines().any(|line| line.contains(&last)), "{text}");
}

#[test]
fn nothing_is_ended_without_a_yes() {
    let mut state = shown(example::view());
    let pid = selected(&state);
    assert_eq!(press(&mut state, KeyCode::Char('x')), None);
    assert!(drawn(&state, 80, 20, ASCII).contains(&format!("end process {pid}")));
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert!(drawn(&state, 80, 20, ASCII).contains("nothing was ended"));
    assert_eq!(press(&mut state, KeyCode::Char('y')), None, "nothing is asked");
    press(&mut state, KeyCode::Char('x'));
    // The process has gone meanwhile, and another row is where it was: what was asked about is meant.
    let mut view = example::view();
    view.tasks.retain(|task| task.pid != pid);
    state.saw(Ok(view), None);
    assert_eq!(
        press(&mut state, KeyCode::Char('y')),
        Some(TopAction::Cancel(pid))
    );
}

#[test]
fn a_process_is_suspended_resumed_and_moved() {
    let mut view = example::view();
    let mut state = shown(view.clone());
    let pid = selected(&state);
    assert_eq!(
        press(&mut state, KeyCode::Char('s')),
        Some(TopAction::Suspend(pid))
    );
    for task in view.tasks.iter_mut().filter(|task| task.pid == pid) {
        task.state = TaskState::Suspended;
    }
    state.saw(Ok(view), None);
    assert_eq!(
        press(&mut state, KeyCode::Char('s')),
        Some(TopAction::Resume(pid))
    );
    press(&mut state, KeyCode::Char('m'));
    for key in ['1', 'a', '2'] {
        press(&mut state, KeyCode::Char(key));
    }
    press(&mut state, KeyCode::Backspace);
    // What is no digit answers the question with no.
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    press(&mut state, KeyCode::Char('m'));
    press(&mut state, KeyCode::Char('1'));
    assert_eq!(press(&mut state, KeyCode::Enter), Some(TopAction::Move(pid, 1)));
}

#[test]
fn keys_lead_out() {
    let mut state = shown(example::view());
    press(&mut state, KeyCode::Char('u'));
    assert_eq!(
        press(&mut state, KeyCode::Esc),
        None,
        "it leads back to the tasks first"
    );
    assert_eq!(press(&mut state, KeyCode::Esc), Some(TopAction::Quit));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(TopAction::Quit));
    press(&mut state, KeyCode::Char('x'));
    let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(end), Some(TopAction::Quit), "whatever is asked");
    let mut lost = TopState::new();
    lost.saw(Err("no mgbd answers".to_owned()), None);
    assert!(drawn(&lost, 80, 10, ASCII).contains("no mgbd answers"));
    assert_eq!(press(&mut lost, KeyCode::Char('x')), None);
    assert_eq!(press(&mut lost, KeyCode::Char('q')), Some(TopAction::Quit));
}
