//! `MGB_NEVER_SHARE`: while a task of such a function runs, no other process is on its GPU. Whoever may only
//! go there waits for its end; the others run on the other GPU. It waits in turn until others are gone.

use std::path::PathBuf;
use std::process::Command;

use mgb_probe::view::TaskState;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

/// Runs a task that lasts until the file named by the argument is there; alone if `ALONE` is defined.
const PROGRAM: &str = r#"
#include <cuda_runtime.h>
#include <mgb.h>
#include <unistd.h>
#include <cstdio>
__global__ void add(int *x, int more) { *x += more; }
int main(int, char **arguments) {
#ifdef ALONE
  MGB_NEVER_SHARE();
#endif
  int *x, result = 0;
  cudaMalloc(&x, 1 << 20);
  cudaMemset(x, 0, 4);
  add<<<1, 1>>>(x, 2);
  cudaDeviceSynchronize();
  while (access(arguments[1], F_OK) != 0) usleep(1000);
  add<<<1, 1>>>(x, 40);
  cudaMemcpy(&result, x, sizeof result, cudaMemcpyDeviceToHost);
  cudaFree(x);
  printf("%d\n", result);
}
"#;

/// A node with the program in its folder, as `alone` and as `beside`.
struct Trial {
    node: PrivateNode,
}

/// A program whose task lasts until it is told to end.
struct LastingTask {
    process: RunningProgram,
    until: PathBuf,
}

impl Trial {
    fn new(devices: &str, policy: &str) -> Trial {
        let node = PrivateNode::start(devices, policy);
        let source = node.write("program.cu", PROGRAM);
        for (program, defines) in [("alone", "-DALONE"), ("beside", "-UALONE")] {
            let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-O1", defines]);
            run(compile.arg(&source).arg("-o").arg(node.folder().join(program))).success();
        }
        Trial { node }
    }

    fn start(&self, program: &str, name: &str, change: impl FnOnce(&mut Command)) -> LastingTask {
        let until = self.node.folder().join(format!("{name}.until"));
        let mut command = self.node.command(self.node.folder().join(program), &[]);
        command.arg(&until).env("MGB", "require");
        change(&mut command);
        let process = RunningProgram::start(&mut command);
        LastingTask { process, until }
    }

    /// Waits until the task runs; its GPU.
    #[track_caller]
    fn gpu(&self, task: &LastingTask) -> u32 {
        let pid = task.process.pid();
        wait::until("the task runs", || {
            let view = self.node.view();
            let mut tasks = view.tasks.iter();
            let runs = tasks.find(|one| one.pid == pid && one.state == TaskState::Running);
            runs.map(|one| one.gpu)
        })
    }

    #[track_caller]
    fn waits(&self, task: &LastingTask) {
        let pid = task.process.pid();
        wait::until("the task waits", || {
            self.node
                .view()
                .queue
                .iter()
                .any(|one| one.pid == pid)
                .then_some(())
        });
    }

    fn end(&self, task: LastingTask) {
        std::fs::write(&task.until, "").expect("a temporary file can be written");
        assert_eq!(task.process.end().success(), "42\n");
    }
}

fn anywhere(_: &mut Command) {}

fn on_the_first(command: &mut Command) {
    command.env("CUDA_VISIBLE_DEVICES", "0");
}

#[test]
fn a_neighbour_waits_until_a_task_that_shares_nothing_has_ended() {
    let trial = Trial::new("2x64MiB", "mgb");
    let alone = trial.start("alone", "alone", on_the_first);
    assert_eq!(trial.gpu(&alone), 0);
    let neighbour = trial.start("beside", "neighbour", on_the_first);
    trial.waits(&neighbour);
    // Two that may go anywhere run on the other GPU, beside each other.
    let others = ["one", "two"].map(|name| trial.start("beside", name, anywhere));
    for other in &others {
        assert_eq!(trial.gpu(other), 1);
    }
    trial.waits(&neighbour);
    trial.end(alone);
    assert_eq!(trial.gpu(&neighbour), 0);
    // The next one of its kind waits until a GPU is empty.
    let alone = trial.start("alone", "next", anywhere);
    trial.waits(&alone);
    let [one, two] = others;
    trial.end(one);
    trial.waits(&alone);
    trial.end(two);
    assert_eq!(trial.gpu(&alone), 1);
    trial.end(neighbour);
    trial.end(alone);
    trial.node.wait_until_empty();
}

#[test]
fn policies_without_memory_place_it_as_any_other() {
    let trial = Trial::new("1x64MiB", "cg:2");
    let alone = trial.start("alone", "alone", anywhere);
    let neighbour = trial.start("beside", "neighbour", anywhere);
    assert_eq!([trial.gpu(&alone), trial.gpu(&neighbour)], [0, 0]);
    trial.end(alone);
    trial.end(neighbour);
}
