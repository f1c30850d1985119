//! `mgb top` on a terminal: what it shows, what its keys do, and that the terminal is given back.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use mgb_probe::view::TaskState;
use mgb_tests::built;
use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

const COLUMNS: u16 = 110;
const ROWS: u16 = 30;

/// MiB, rounds, milliseconds of each host phase, its kind, steps and blocks of each kernel.
const AT_WORK: [&str; 6] = ["20", "400", "50", "wait", "10", "8"];

/// `mgb top` on a terminal of its own.
struct Screen {
    child: Child,
    keys: Option<File>,
    parser: Arc<Mutex<vt100::Parser>>,
    /// The terminal's other end, which stays as the program leaves it.
    terminal: OwnedFd,
}

impl Screen {
    fn start(node: &PrivateNode, arguments: &[&str]) -> Screen {
        let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&own).expect("a terminal");
        unlockpt(&own).expect("a terminal");
        let name = ptsname(&own, Vec::new()).expect("a terminal");
        let terminal =
            rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("a terminal");
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&own, size).expect("a terminal");
        let mut command: Command = node.mgb(&[&["top", "--interval", "0.2"], arguments].concat());
        let end = || Stdio::from(terminal.try_clone().expect("a descriptor"));
        command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .envs([("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color")]);
        // It is the first of its session, whose terminal this is: it is told of a hang-up.
        let take_terminal = || {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        };
        // SAFETY: both are system calls alone.
        unsafe { command.pre_exec(take_terminal) };
        let child = command.spawn().expect("mgb top starts");
        let parser = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let own = File::from(own);
        let (mut output, shown) = (own.try_clone().expect("a descriptor"), Arc::clone(&parser));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().expect("a screen").process(&bytes[..count]);
            }
        });
        Screen {
            child,
            keys: Some(own),
            parser,
            terminal,
        }
    }

    fn text(&self) -> String {
        self.parser.lock().expect("a screen").screen().contents()
    }

    fn shows(&self, text: &str) {
        if wait::try_until(|| self.text().contains(text).then_some(())).is_none() {
            panic!("it does not show {text:?} but\n{}", self.text());
        }
    }

    fn press(&self, keys: &str) {
        let mut file = self.keys.as_ref().expect("a terminal");
        file.write_all(keys.as_bytes()).expect("is written");
    }

    /// It has ended so, and the terminal is as it was.
    fn ends(&mut self, code: i32) {
        let status = wait::until("it ends", || self.child.try_wait().expect("is watched"));
        assert_eq!(status.code(), Some(code), "{}", self.text());
        wait::until("the terminal is given back", || {
            let parser = self.parser.lock().expect("a screen");
            let screen = parser.screen();
            (!screen.alternate_screen() && !screen.hide_cursor()).then_some(())
        });
        let modes = tcgetattr(&self.terminal).expect("a terminal").local_modes;
        assert!(modes.contains(rustix::termios::LocalModes::ICANON | rustix::termios::LocalModes::ECHO));
    }
}

fn works(node: &PrivateNode) -> RunningProgram {
    let program = RunningProgram::start(
        node.command(built::program("phases"), &AT_WORK)
            .env("MGB", "require"),
    );
    wait::until("it has its memory", || {
        holds(&node.view(), program.pid()).then_some(())
    });
    program
}

#[test]
fn keys_suspend_move_and_end_programs() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let (first, second) = (works(&node), works(&node));
    let of = |pid: u32| {
        let view = node.view();
        let task = view.tasks.iter().find(|task| task.pid == pid);
        task.map(|task| (task.gpu, task.state))
    };
    let mut top = Screen::start(&node, &[]);
    top.shows("policy mgb");
    top.shows(&first.pid().to_string());
    top.shows(&second.pid().to_string());

    // In the order of processes the first row is the one with the lower number.
    top.press("ooooo");
    top.shows("o order: pid");
    let pid = first.pid().min(second.pid());
    top.press("\x1b[H");
    top.press("s");
    top.shows(&format!("process {pid} is suspended"));
    wait::until("it is suspended", || {
        (of(pid)?.1 == TaskState::Suspended).then_some(())
    });
    top.shows(" suspended ");
    top.press("s");
    top.shows(&format!("process {pid} is resumed"));
    wait::until("it works again", || {
        (of(pid)?.1 == TaskState::Running).then_some(())
    });

    let gpu = 1 - of(pid).expect("it runs").0;
    top.press(&format!("m{gpu}\r"));
    top.shows(&format!("process {pid} goes on, on GPU {gpu}"));
    top.press("m7\r");
    top.shows("mgbd shares no GPU 7");

    top.press("x");
    top.shows(&format!("end process {pid}"));
    top.press("n");
    top.shows("nothing was ended");
    top.press("xy");
    top.shows(&format!("process {pid} was sent SIGTERM"));
    wait::until("it has ended", || of(pid).is_none().then_some(()));
    top.press("q");
    top.ends(0);
}

/// The terminal is given back when a signal ends it, and it ends when the terminal goes.
#[test]
fn the_terminal_is_given_back() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut top = Screen::start(&node, &[]);
    top.shows("policy mgb");
    let pid = Pid::from_child(&top.child);
    rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
    top.ends(0);

    let mut top = Screen::start(&node, &[]);
    top.shows("policy mgb");
    let tiny = Winsize {
        ws_row: 4,
        ws_col: 12,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(top.keys.as_ref().expect("a terminal"), tiny).expect("a terminal");
    // crossterm 0.29 keeps a key that comes with a change of the size until the next one comes.
    thread::sleep(Duration::from_millis(300));
    top.press("xujb?");
    top.press("\x03");
    top.ends(0);
}

/// It goes on while mgbd is away, and shows the next one.
#[test]
fn it_outlives_mgbd() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let mut top = Screen::start(&node, &[]);
    top.shows("policy mgb");
    node.stop_mgbd();
    top.shows("mgbd is asked again and again");
    node.start_mgbd("mgb");
    top.shows("policy mgb");
    top.press("q");
    top.ends(0);
}

#[test]
fn one_frame_is_printed_anywhere() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = works(&node);
    let text = run(&mut node.mgb(&["top", "--once"])).success();
    assert!(
        text.contains("policy mgb") && text.contains(&program.pid().to_string()),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    run(node.mgb(&["top"]).stdin(Stdio::null())).failure(&["--once prints one frame anywhere"]);
    let nobody = PrivateNode::without_mgbd("1x64MiB");
    assert_eq!(run(&mut nobody.mgb(&["top", "--once"])).code(), 3);
    drop(program);
}
