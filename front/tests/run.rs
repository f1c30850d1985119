//! Programs as `mgb run` starts them: with the front in the search path of all that they start, and beside
//! libraries that were built with MGB.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mgb_tests::compiled;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;
use mgb_tests::trace;

use common::{compile, folder, on, program, source, view};

/// A library that was built with MGB.
fn extension() -> PathBuf {
    let flags = ["--offload-arch=sm_90", "-O1", "-shared", "-fPIC"];
    compiled::program(&source("extension.cu"), &flags)
}

/// Of the front and MGB's runtime, which are both in the process, one has a session: whether the runtime.
fn runtime_has_session(program: &Path, arguments: &[&str]) -> bool {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut command = on(&node, program, arguments);
    let mut child = command
        .env("MGB", "require")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "holds");
    let view = view(&node);
    assert_eq!(view.clients, 1, "{view:?}");
    assert!(view.gpus[0].reserved_bytes >= 4 << 20, "{view:?}");
    let is_runtimes = view
        .tasks
        .iter()
        .any(|task| task.label.ends_with("extension.cu:take"));
    drop(child.stdin.take());
    assert_eq!(said.next().unwrap().unwrap(), "PASS");
    assert!(child.wait().unwrap().success());
    node.wait_until_empty();
    is_runtimes
}

#[test]
fn a_process_that_uses_the_driver_beside_a_library_with_mgb_is_the_fronts() {
    let extension = extension().display().to_string();
    let hosts = folder("hosts").join("hosts");
    compile("hosts.c", &hosts, &["-ldl"]);
    for first in ["driver", "library", "loaded"] {
        assert!(!runtime_has_session(&hosts, &[first, &extension]), "{first}");
    }
}

#[test]
fn a_process_in_which_only_a_library_with_mgb_uses_a_gpu_is_left_to_that() {
    let loads = folder("loads").join("loads");
    compile("loads.c", &loads, &["-ldl"]);
    let extension = extension().display().to_string();
    assert!(runtime_has_session(&loads, &[&extension]));
}

#[test]
fn what_uses_no_gpu_runs_as_ever() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let script = "printf 'int main(void) { return 7; }' >seven.c && cc seven.c -o seven; ./seven; \
                  echo $? | cat | tr 7 8; printf 'all:\\n\\t@echo made\\n' >Makefile; make -s";
    let ended = run(&mut node.mgb(&["run", "sh", "-c", script]));
    assert_eq!(
        (ended.code(), ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "8\nmade\n", "")
    );
    assert_eq!(view(&node).counts.granted, 0);
}

/// Frameworks that would take most of the GPU are told to take what they need, unless the user says
/// otherwise.
#[test]
fn frameworks_take_memory_as_they_need_it() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let script = "echo $XLA_PYTHON_CLIENT_PREALLOCATE $TF_FORCE_GPU_ALLOW_GROWTH";
    let said = |mgb: &mut std::process::Command| run(mgb).success();
    assert_eq!(said(&mut node.mgb(&["run", "sh", "-c", script])), "false true\n");
    assert_eq!(
        said(&mut node.mgb(&["run", "--need", "8M", "sh", "-c", script])),
        "false true\n"
    );
    let mut told = node.mgb(&["run", "sh", "-c", script]);
    told.env("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.2")
        .env("TF_FORCE_GPU_ALLOW_GROWTH", "false");
    assert_eq!(said(&mut told), "false\n");
}

/// Two processes of one job: a Python program and its worker share memory, and a GPU.
#[test]
fn a_python_program_and_its_worker_share_a_gpu() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let script = source("worker.py").display().to_string();
    let ended = run(&mut node.mgb(&["run", "python3", &script]));
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "PASS\n"), "{ended:?}");
    assert_eq!(view(&node).counts.granted, 2, "one for each process");
    node.wait_until_empty();
}

#[test]
fn programs_that_were_not_rebuilt_wait_for_room() {
    let holds = program("holds.c", &folder("run-room"));
    let holds = holds.display().to_string();
    let node = PrivateNode::start("1x64MiB", "mgb");
    // In a shell's children as well.
    let both = format!("{holds} alloc 1 40 300 & {holds} alloc 1 40 300; wait");
    let ended = run(&mut node.mgb(&["run", "sh", "-c", &both]));
    assert_eq!(ended.stdout.matches("PASS\n").count(), 2, "{ended:?}");
    assert_eq!(view(&node).counts.granted, 2, "{ended:?}");
    node.wait_until_empty();
}

#[test]
fn programs_with_a_declared_need_have_no_session_of_their_own() {
    let holds = program("holds.c", &folder("run-need")).display().to_string();
    let node = PrivateNode::start("1x64MiB", "mgb");
    let ended = run(&mut node.mgb(&["run", "--need", "50MiB", &holds, "alloc", "1", "40", "0"]));
    assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    assert_eq!(view(&node).counts.granted, 1, "the whole process only");
    node.wait_until_empty();
}

#[test]
fn a_batch_knows_what_jobs_took() {
    let holds = program("holds.c", &folder("run-batch")).display().to_string();
    let node = PrivateNode::start("1x64MiB", "mgb");
    let shell = format!("sh -c '{holds} alloc 1 8 0; {holds} create 2 8 0'");
    let jobs = format!("{holds} alloc 1 40 300\n{holds} alloc 1 40 301\n{shell}\n/bin/true\n");
    node.write("jobs.txt", &jobs);
    let ended = run(&mut node.mgb(&["batch", "-j", "2", "--json", "jobs.txt"]));
    let batch: serde_json::Value = serde_json::from_str(&ended.success()).unwrap();
    let tasks = |job: usize| batch["jobs"][job]["tasks"].as_array().unwrap();
    let peaks = |job| -> Vec<u64> {
        let all = tasks(job).iter();
        all.map(|task| task["peak_bytes"].as_u64().unwrap() >> 20)
            .collect()
    };
    assert_eq!(
        [peaks(0), peaks(1), peaks(2), peaks(3)],
        [vec![40], vec![40], vec![8, 16], vec![]]
    );
    for job in 0..3 {
        assert_eq!(batch["jobs"][job]["gpus"], serde_json::json!([0]), "{batch}");
        assert!(tasks(job).iter().all(|task| task["task"] == "holds"), "{batch}");
    }
    let waited = [0, 1].map(|job| batch["jobs"][job]["waited_s"].as_f64().unwrap());
    assert!(
        waited[0].max(waited[1]) > 0.05,
        "one waits for the other: {batch}"
    );
    let table = run(&mut node.mgb(&["batch", "jobs.txt"])).success();
    assert_eq!(table.matches("40.0 MiB").count(), 2, "{table}");
}

#[test]
fn tasks_have_the_names_of_their_programs() {
    let script =
        "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\nprint(cuda.cuInit(0), flush=True)\ninput()\n";
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("train.py", script);
    let mut command = node.mgb(&["run", "python3", "-u", "train.py"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "0");
    let status = run(&mut node.mgb(&["status", "--wide"])).success();
    assert!(status.contains("  python3 train.py\n"), "{status}");
    let head = ["expected", "reserved", "held", "peak"];
    assert!(head.iter().all(|column| status.contains(column)), "{status}");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    node.wait_until_empty();
}

/// Why a program stayed outside MPS, as its line of trace says.
fn why_outside(node: &PrivateNode, program: &Path, mode: Option<&str>) -> Option<String> {
    let file = node.folder().join("trace");
    let mut command = on(node, program, &["alloc", "1", "1", "0"]);
    command.env("MGB", "require").env("MGB_TRACE", &file);
    command.envs(mode.map(|mode| ("MGB_MPS", mode)));
    assert_eq!(run(&mut command).code(), 0);
    let lines = trace::read(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    let [process] = lines.try_into().unwrap();
    process.outside_mps
}

/// MPS refuses such modules, which on a real GPU ends the program or gives it wrong results.
#[test]
fn a_process_whose_kernels_launch_kernels_stays_outside_mps() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let folder = folder("outside");
    let front = common::front().join("libcuda.so.1").display().to_string();
    let library = folder.join("libnested.so").display().to_string();
    let nested = source("nested.c").display().to_string();
    compile("nested.c", Path::new(&library), &["-shared", "-fPIC"]);
    let path = format!("-Wl,--no-as-needed,-rpath,{}", folder.display());
    for (name, with, said) in [
        ("itself", vec![&nested], Some("kernels of itself launch kernels")),
        (
            "library",
            vec![&path, &library],
            Some("kernels of libnested.so launch kernels"),
        ),
        ("neither", vec![], None),
    ] {
        let program = folder.join(name);
        let flags: Vec<&str> = with.into_iter().chain([&front]).map(String::as_str).collect();
        compile("holds.c", &program, &flags);
        let why = why_outside(&node, &program, None);
        assert_eq!(
            why.as_deref().and_then(|why| why.split(',').next()),
            said,
            "{name}"
        );
    }
    let neither = folder.join("neither");
    assert_eq!(
        why_outside(&node, &neither, Some("off")).as_deref(),
        Some("MGB_MPS=off")
    );
}
