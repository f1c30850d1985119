//! The terminal: what happens in it, and that it is given back as it was.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use mgb_probe::view::NodeView;
use mgb_queue::protocol::Listing;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};

use super::act::act;
use super::jobs::own_jobs;
use super::palette::Palette;
use super::screen::draw;
use super::state::{TopAction, TopState};
use crate::look::look;
use crate::stop::StopSignals;

/// What the screen waits for.
enum TopEvent {
    /// A key, or another size.
    Input(Event),
    /// mgbd was looked at.
    View(Box<Looked>),
    /// What came of an action.
    Said(String),
    /// A signal, or the terminal has gone.
    Ends,
}

/// The node as it was seen, or why it was not; and the user's own jobs.
struct Looked {
    view: Result<NodeView, String>,
    jobs: Option<Listing>,
}

/// Shows the node of the mgbd of this socket until a key or a signal ends that.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn interact(socket: &Path, interval: Duration, palette: Palette) -> Result<()> {
    // Before the terminal is changed: no signal may leave it as it is then.
    let stop = StopSignals::watch()?;
    let (happens, events) = channel();
    let (again, looks) = channel();
    spawn("top-signals", {
        let happens = happens.clone();
        move || wait_for_a_signal(&stop, &happens)
    })?;
    spawn("top-looks", {
        let (happens, socket) = (happens.clone(), socket.to_owned());
        move || look_again(&socket, interval, &happens, &looks)
    })?;
    let mut terminal = ratatui::try_init().context("failed to use the terminal")?;
    let shown = spawn("top-input", {
        let happens = happens.clone();
        move || read_input(&happens)
    })
    .and_then(|()| {
        show(
            &mut terminal,
            socket,
            palette,
            &Channels {
                happens,
                events,
                again,
            },
        )
    });
    let restored = ratatui::try_restore();
    shown?;
    restored.context("failed to give the terminal back")
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).context("failed to start a thread")?;
    Ok(())
}

struct Channels {
    happens: Sender<TopEvent>,
    events: Receiver<TopEvent>,
    /// Has mgbd looked at at once.
    again: Sender<()>,
}

fn show(terminal: &mut DefaultTerminal, socket: &Path, palette: Palette, channels: &Channels) -> Result<()> {
    let mut state = TopState::new();
    loop {
        let drawn = terminal.draw(|frame| draw(frame, &state, palette));
        if drawn.is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            // The terminal has gone: nobody is told.
            return Ok(());
        }
        let Ok(first) = channels.events.recv() else {
            return Ok(());
        };
        // All that has happened is drawn once.
        for happened in std::iter::once(first).chain(channels.events.try_iter()) {
            match happened {
                TopEvent::Ends => return Ok(()),
                TopEvent::View(looked) => state.saw(looked.view, looked.jobs),
                TopEvent::Said(said) => {
                    state.message = Some(said);
                    let _ = channels.again.send(());
                }
                TopEvent::Input(Event::Key(key)) => match state.key(key) {
                    None => {}
                    Some(TopAction::Quit) => return Ok(()),
                    Some(action) => {
                        let (happens, socket) = (channels.happens.clone(), socket.to_owned());
                        spawn("top-acts", move || {
                            let _ = happens.send(TopEvent::Said(act(&socket, &action)));
                        })?;
                    }
                },
                TopEvent::Input(_) => {}
            }
        }
    }
}

fn read_input(happens: &Sender<TopEvent>) {
    loop {
        let happened = match event::read() {
            Ok(event) => TopEvent::Input(event),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => TopEvent::Ends,
        };
        let is_over = matches!(happened, TopEvent::Ends);
        if happens.send(happened).is_err() || is_over {
            return;
        }
    }
}

fn look_again(socket: &Path, interval: Duration, happens: &Sender<TopEvent>, looks: &Receiver<()>) {
    loop {
        let looked = Looked {
            view: look(socket).map_err(|error| format!("{error:#}")),
            jobs: own_jobs(),
        };
        if happens.send(TopEvent::View(Box::new(looked))).is_err() {
            return;
        }
        if looks.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

fn wait_for_a_signal(stop: &StopSignals, happens: &Sender<TopEvent>) {
    let mut polled = [PollFd::from_borrowed_fd(stop.descriptor(), PollFlags::IN)];
    let _ = rustix::io::retry_on_intr(|| poll(&mut polled, None));
    let _ = happens.send(TopEvent::Ends);
}
