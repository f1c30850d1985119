//! mgbd's loop makes no system call but those that it needs; what it starts may make any.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{built, wait};

/// Once a file is there, removes it and makes a socket of the internet as the next file is opened.
const GOES_WRONG: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int mode = va_arg(more, int);
  va_end(more);
  const char *file = getenv("TEST_GOES_WRONG");
  // The loop's thread is the process's first.
  if (file && gettid() == getpid() && unlink(file) == 0)
    socket(AF_INET, SOCK_STREAM, 0);
  int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
  return real(path, flags, mode);
}
"#;

/// Of each thread of a process, by its name: whether the kernel has a list of calls for it (2), and whether
/// programs that it starts have no more rights than it has (1).
fn confined(pid: u32) -> BTreeMap<String, (String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .expect("it is there")
        .flatten();
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let line = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect("the kernel says so").trim().to_owned()
    };
    let of_thread = |text: String| {
        let confined = (line(&text, "Seccomp:"), line(&text, "NoNewPrivs:"));
        (line(&text, "Name:"), confined)
    };
    status.map(of_thread).collect()
}

fn by_own() -> (String, String) {
    let own = confined(std::process::id());
    own.into_values().next().expect("a thread")
}

#[test]
fn the_loop_is_confined_and_what_it_starts_is_not() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let free = by_own();
    for round in 0..2 {
        let threads = confined(node.mgbd_pid());
        assert_eq!(threads["mgbd"], ("2".to_owned(), "1".to_owned()), "{threads:?}");
        assert_eq!(threads["spawner"], free, "{threads:?}");
        let old = node.holder_pid().expect("there is a holder");
        let holder = confined(old);
        assert!(holder.values().all(|confined| *confined == free), "{holder:?}");
        if round == 0 {
            // The next holder is started by an mgbd that serves.
            node.kill_holder();
            wait::until("another holder", || node.holder_pid().filter(|pid| *pid != old));
        }
    }
    let vecadd = built::program("vecadd");
    let said = run(node.command(vecadd, &["1000"]).env("MGB", "require")).success();
    assert!(said.contains("PASS"));
}

#[test]
fn it_is_not_confined_where_the_administrator_wants_that() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", &["--no-seccomp"]);
    assert_eq!(confined(node.mgbd_pid())["mgbd"], by_own());
}

fn library(node: &PrivateNode) -> PathBuf {
    let source = node.write("wrong.c", GOES_WRONG);
    let library = Path::new(&source).with_file_name("wrong.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    run(&mut cc).success();
    library
}

#[test]
fn a_call_that_it_may_not_make_ends_it_with_a_word_and_programs_go_on() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    let (library, file, log) = (
        library(&node),
        node.folder().join("wrong"),
        node.folder().join("log"),
    );
    let mut mgbd = node.mgbd(&["--log", log.to_str().expect("paths of tests are UTF-8")]);
    mgbd.env("LD_PRELOAD", library).env("TEST_GOES_WRONG", &file);
    node.start_mgbd_as(&mut mgbd);
    let phases = built::program("phases");
    let arguments = ["20", "10", "200", "wait", "10", "8"];
    let program = RunningProgram::start(node.command(phases, &arguments).env("MGB", "require"));
    wait::until("it holds room", || {
        holds(&node.view(), program.pid()).then_some(())
    });
    fs::write(&file, "").unwrap();
    // Whatever the loop opens next: the files of a process that comes.
    let vecadd = built::program("vecadd");
    let said = run(node.command(vecadd, &["1000"]).env("MGB", "require")).success();
    assert!(said.contains("PASS"));
    let said = fs::read_to_string(&log).expect("it is there");
    let line = format!(
        "mgbd: it made system call {}, which it may not make",
        libc::SYS_socket
    );
    assert!(said.contains(&line), "{said}");
    let ended = program.end();
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
}
