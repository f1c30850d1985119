//! A name service that does not answer: mgbd starts and serves, and what it says counts once it comes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{built, wait};

/// A name service that sleeps as long as a file is there.
const SLEEPS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>
static void *after_sleep(const char *name) {
  const char *file = getenv("TEST_SLEEPS");
  while (file && access(file, F_OK) == 0)
    usleep(1000);
  return dlsym(RTLD_NEXT, name);
}
int getpwuid_r(uid_t uid, struct passwd *p, char *b, size_t n, struct passwd **r) {
  int (*real)(uid_t, struct passwd *, char *, size_t, struct passwd **) = after_sleep("getpwuid_r");
  return real(uid, p, b, n, r);
}
int getpwnam_r(const char *name, struct passwd *p, char *b, size_t n, struct passwd **r) {
  int (*real)(const char *, struct passwd *, char *, size_t, struct passwd **) = after_sleep("getpwnam_r");
  return real(name, p, b, n, r);
}
int getgrnam_r(const char *name, struct group *g, char *b, size_t n, struct group **r) {
  int (*real)(const char *, struct group *, char *, size_t, struct group **) = after_sleep("getgrnam_r");
  return real(name, g, b, n, r);
}
int getgrouplist(const char *user, gid_t group, gid_t *groups, int *count) {
  int (*real)(const char *, gid_t, gid_t *, int *) = after_sleep("getgrouplist");
  return real(user, group, groups, count);
}
"#;

struct Service {
    node: PrivateNode,
    /// As long as it is there nobody hears a name.
    sleeps: PathBuf,
}

impl Service {
    /// mgbd with these quotas, while no name is to be had.
    fn start(quotas: &str) -> Service {
        let mut node = PrivateNode::without_mgbd("1x512MiB");
        let library = library(&node);
        let (sleeps, quotas) = (node.write("sleeps", ""), node.write("quotas.toml", quotas));
        let mut mgbd = node.mgbd(&["--quotas", quotas.to_str().unwrap()]);
        mgbd.env("LD_PRELOAD", library).env("TEST_SLEEPS", &sleeps);
        node.start_mgbd_as(&mut mgbd);
        Service { node, sleeps }
    }

    fn program(&self) -> RunningProgram {
        let program = built::program("phases");
        let arguments = ["8", "30", "50", "wait", "10", "8"];
        RunningProgram::start(self.node.command(program, &arguments).env("MGB", "require"))
    }

    /// Waits until so many of these hold room.
    fn wait_for_holders(&self, programs: &[RunningProgram]) {
        wait::until("they hold room", || {
            let view = self.node.view();
            programs
                .iter()
                .all(|program| holds(&view, program.pid()))
                .then_some(())
        });
    }

    fn wakes(&self) {
        fs::remove_file(&self.sleeps).expect("it is there");
    }

    /// Waits until mgbd says that there is a limit of one task.
    fn wait_for_limit(&self) {
        wait::until("the limit to be known", || {
            let said = run(&mut self.node.mgb(&["quota", "--json"])).success();
            said.contains("\"most_tasks\": 1").then_some(())
        });
    }
}

/// A library that is loaded before others: names are silent as long as the file `TEST_SLEEPS` is there.
pub(crate) fn library(node: &PrivateNode) -> PathBuf {
    let source = node.write("sleeps.c", SLEEPS);
    let library = Path::new(&source).with_file_name("sleeps.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    run(&mut cc).success();
    library
}

fn are_right(programs: Vec<RunningProgram>) {
    for program in programs {
        let ended = program.end();
        assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
    }
}

#[test]
fn programs_are_served_while_no_groups_are_known_and_limited_once_they_are() {
    let gid = rustix::process::getegid().as_raw();
    let service = Service::start(&format!("[groups.{gid}]\ntasks = 1\n"));
    let mut programs = vec![service.program(), service.program()];
    service.wait_for_holders(&programs);
    service.wakes();
    service.wait_for_limit();
    programs.push(service.program());
    wait::until("one waits for the quota", || {
        let view = service.node.view();
        view.queue.iter().any(|wait| wait.over_quota).then_some(())
    });
    are_right(programs);
    service.node.wait_until_empty();
}

#[test]
fn mgbd_starts_while_no_name_in_its_quotas_is_known() {
    let name = run(Command::new("id").arg("-un")).success();
    let service = Service::start(&format!("[users.{}]\ntasks = 1\n", name.trim()));
    let programs = vec![service.program(), service.program()];
    service.wait_for_holders(&programs);
    service.wakes();
    service.wait_for_limit();
    are_right(programs);
    service.node.wait_until_empty();
}
