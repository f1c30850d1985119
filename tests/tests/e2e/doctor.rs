//! `mgb doctor`: what it says of a node and of programs is what the node and the dynamic linker do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, softgpu_libraries};
use mgb_tests::process::{RunningProgram, command, run};
use mgb_tests::wait;
use serde_json::Value;

/// A program of the driver, which says where it has it from.
const USER: &str = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\nint cuInit(unsigned);\n\
                    int main(void) { Dl_info i; dladdr((void *)cuInit, &i); puts(i.dli_fname); }\n";
/// The source of another driver.
const DRIVER: &str = "int cuInit(unsigned flags) { return flags; }\n";

/// What the doctor says, and with which exit code.
struct Said {
    code: i32,
    document: Value,
}

impl Said {
    fn by(mgb: &mut Command) -> Said {
        let ended = run(mgb);
        let document = serde_json::from_str(&ended.stdout);
        Said {
            code: ended.code(),
            document: document.unwrap_or_else(|error| panic!("{error}: {ended:?}")),
        }
    }

    fn of(node: &PrivateNode, words: &[&str]) -> Said {
        Said::by(&mut node.mgb(&[&["doctor", "--json"], words].concat()))
    }

    /// Of a program alone.
    fn about(node: &PrivateNode, program: &Path) -> Said {
        Said::of(node, &[program.to_str().expect("paths of tests are UTF-8")])
    }

    /// Whether there is a finding of this name and state with these words.
    #[track_caller]
    fn expect(&self, name: &str, state: &str, words: &[&str]) -> &Said {
        let of_program = self.document["program"]["findings"].as_array().into_iter();
        let of_node = self.document["node"].as_array().into_iter();
        let found = of_node.chain(of_program).flatten().any(|finding| {
            let text = finding.to_string();
            finding["name"] == name
                && finding["state"] == state
                && words.iter().all(|word| text.contains(word))
        });
        assert!(found, "no {state} `{name}` with {words:?}: {:#}", self.document);
        self
    }

    #[track_caller]
    fn lacks(&self, name: &str) -> &Said {
        let text = self.document.to_string();
        assert!(
            !text.contains(&format!("\"name\":\"{name}\"")),
            "{:#}",
            self.document
        );
        self
    }

    #[track_caller]
    fn ends_with(&self, code: i32) -> &Said {
        assert_eq!(self.code, code, "{:#}", self.document);
        let problems = self.document["problems"].as_u64();
        assert_eq!(problems == Some(0), code == 0, "{:#}", self.document);
        self
    }
}

/// Compiles C in the node's folder.
fn compiled(node: &PrivateNode, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let source = node.write(&format!("{name}.c"), source);
    let output = node.folder().join(name);
    let flags = flags.iter().map(|flag| flag.to_string());
    run(Command::new("cc").arg(source).arg("-o").arg(&output).args(flags)).success();
    output
}

fn front() -> PathBuf {
    prefix().join("lib/front/libcuda.so.1")
}

/// Where a program has the driver from, with the front first as under `mgb run`.
fn driver_of(node: &PrivateNode, program: &Path) -> String {
    let path = std::env::join_paths([prefix().join("lib/front"), softgpu_libraries()]).expect("no colons");
    run(node.command(program, &[]).env("LD_LIBRARY_PATH", path)).success()
}

#[test]
fn a_node_without_mgbd_is_fine() {
    let node = PrivateNode::without_mgbd("2x64MiB");
    let socket = node.socket().display().to_string();
    let said = Said::of(&node, &[]);
    said.ends_with(0)
        .expect("driver", "ok", &["SOFTGPU_DEVICES is set"])
        .expect("GPU", "ok", &["GPU 1", "64.0 MiB"])
        .expect("mgbd", "ok", &["none runs at", &socket])
        .expect("socket folder", "ok", &[node.folder().to_str().expect("UTF-8")])
        .expect("MGB", "ok", &[prefix().to_str().expect("UTF-8")])
        .expect("compiler", "ok", &["clang 22", "CUDA 1"])
        .lacks("other programs");
    assert_eq!(said.document["program"], Value::Null);
    assert!(!node.socket().exists(), "nothing is started");
    let text = run(&mut node.mgb(&["doctor"])).success();
    assert!(
        text.starts_with("node\n  ok") && text.contains("no problems, "),
        "{text}"
    );
}

#[test]
fn an_mgbd_that_runs_is_named_with_who_is_not_under_it() {
    let node = PrivateNode::start("1x256MiB", "alg3");
    let pid = format!("pid {} at", node.mgbd_pid());
    Said::of(&node, &[])
        .ends_with(0)
        .expect("mgbd", "ok", &[&pid, "policy alg3"])
        .lacks("other programs");
    let phases = built::program("phases");
    let words = ["8", "600", "100", "wait", "4", "8"];
    let client = RunningProgram::start(&mut node.command(&phases, &words));
    let stranger = RunningProgram::start(node.command(&phases, &words).env("MGB", "off"));
    let named = format!("phases (pid {},", stranger.pid());
    let said = wait::until("both hold memory", || {
        let said = Said::of(&node, &[]);
        let has_client = node.view().tasks.iter().any(|task| task.pid == client.pid());
        (has_client && said.document.to_string().contains(&named)).then_some(said)
    });
    said.ends_with(0)
        .expect("other programs", "note", &["GPU 0", &named]);
    assert!(
        !said
            .document
            .to_string()
            .contains(&format!("phases (pid {},", client.pid())),
        "a client is no stranger: {:#}",
        said.document
    );
}

#[test]
fn gpus_that_are_not_shared_are_named() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let hidden = |mask: &str| {
        let mut mgb = node.mgb(&["doctor", "--json"]);
        Said::by(mgb.env("CUDA_VISIBLE_DEVICES", mask))
    };
    hidden("1")
        .ends_with(0)
        .expect("visible GPUs", "note", &["hides 1 GPU: 0"]);
    hidden("7")
        .ends_with(1)
        .expect("visible GPUs", "problem", &["leaves no GPU"]);
    let mut more = node.mgb(&["doctor", "--json"]);
    more.env("SOFTGPU_DEVICES", "3x64MiB")
        .env("SOFTGPU_STATE", node.folder().join("more"));
    Said::by(&mut more)
        .ends_with(0)
        .expect("mgbd's GPUs", "note", &["2 of the 3", "mgb stop"]);
}

#[test]
fn what_answers_in_place_of_mgbd_is_a_problem() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    fs::write(node.socket(), "a file").expect("a file of the test's own");
    Said::of(&node, &[])
        .ends_with(1)
        .expect("socket folder", "problem", &["is there and is no socket"]);
    let mut elsewhere = node.mgb(&["doctor", "--json"]);
    let open = node.folder().join("open");
    fs::create_dir(&open).expect("a folder of the test's own");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("its own");
    Said::by(elsewhere.env("MGB_SOCKET", open.join("mgbd.sock")))
        .ends_with(1)
        .expect(
            "socket folder",
            "problem",
            &["can be written by others", "MGB_SOCKET"],
        );
}

#[test]
fn a_driver_that_is_named_has_to_be_there() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let with = |driver: &Path| Said::by(node.mgb(&["doctor", "--json"]).env("MGB_DRIVER", driver));
    with(Path::new("/nowhere/libcuda.so.1")).ends_with(1).expect(
        "MGB_DRIVER",
        "problem",
        &["/nowhere/libcuda.so.1 does not exist", "unset"],
    );
    with(&node.write("text", "no library"))
        .ends_with(1)
        .expect("MGB_DRIVER", "problem", &["is no library"]);
    with(&softgpu_libraries().join("libcuda.so.1"))
        .ends_with(0)
        .lacks("MGB_DRIVER");
}

#[test]
fn a_driver_that_fails_does_not_take_the_doctor_along() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = "#include <stdlib.h>\nint nvmlInit_v2(void) { abort(); }\n";
    let broken = compiled(&node, "libnvidia-ml.so.1", source, &["-shared", "-fPIC"]);
    let mut mgb = node.mgb(&["doctor", "--json"]);
    mgb.env("LD_LIBRARY_PATH", broken.parent().expect("a folder"))
        .env_remove("SOFTGPU_DEVICES");
    Said::by(&mut mgb)
        .ends_with(1)
        .expect("NVML", "problem", &["ended with signal: 6", "software GPUs"]);
    let mut none = node.mgb(&["doctor", "--json"]);
    none.env("SOFTGPU_DEVICES", "none").env("MGB_SOFTGPU", "0");
    Said::by(&mut none)
        .ends_with(1)
        .expect("driver", "problem", &["lists no GPU"]);
}

#[test]
fn limits_that_programs_would_run_into_are_named() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let mgb = prefix().join("bin/mgb").display().to_string();
    let script = |limits: &str| format!("{limits}; exec {mgb} doctor --json");
    let under = |limits: &str| Said::by(&mut node.command("sh", &["-c", &script(limits)]));
    under("ulimit -v 64000000").ends_with(1).expect(
        "limits",
        "problem",
        &["61.0 GiB", "ulimit -v unlimited"],
    );
    under("ulimit -n 256")
        .ends_with(0)
        .expect("limits", "note", &["limited to 256", "ulimit -Hn"]);
}

#[test]
fn rebuilt_and_plain_programs_are_told_apart() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let vecadd = built::program("vecadd");
    let runtime = prefix().join("lib/libmgb_rt.so");
    Said::about(&node, &vecadd).ends_with(0).expect(
        "way to mgbd",
        "ok",
        &[
            "rebuilt with MGB, 1 task, 0 of them lazy",
            runtime.to_str().expect("UTF-8"),
        ],
    );
    let library = front().display().to_string();
    let plain = compiled(&node, "plain", USER, &[&library]);
    Said::about(&node, &plain)
        .ends_with(0)
        .expect(
            "way to mgbd",
            "ok",
            &["not rebuilt, with the driver API", "front serves it"],
        )
        .lacks("past the front");
    assert_eq!(driver_of(&node, &plain).trim(), library);
    let none = compiled(&node, "none", "int main(void) { return 0; }\n", &[]);
    Said::about(&node, &none)
        .ends_with(0)
        .expect("way to mgbd", "ok", &["no CUDA is seen"]);
    Said::of(&node, &["./no_such_program", "7"]).ends_with(1).expect(
        "executable",
        "problem",
        &["./no_such_program"],
    );
}

#[test]
fn a_runtime_of_another_version_is_seen_in_its_file() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let mut bytes = fs::read(prefix().join("lib/libmgb_rt.so")).expect("the runtime is staged");
    let at = {
        use object::{Object, ObjectSection};
        let file = object::File::parse(&*bytes).expect("a library");
        let section = file
            .section_by_name(mgb_probe::wire::SECTION)
            .expect("the version is noted");
        section.file_range().expect("in the file").0 as usize
    };
    let version = &mut bytes[at..at + 4];
    assert_eq!(version, mgb_probe::wire::VERSION.to_le_bytes());
    version.copy_from_slice(&1u32.to_le_bytes());
    let folder = node.folder().join("old");
    fs::create_dir(&folder).expect("a folder of the test's own");
    fs::write(folder.join("libmgb_rt.so"), bytes).expect("a file of the test's own");
    let vecadd = built::program("vecadd").display().to_string();
    let mut mgb = node.mgb(&["doctor", "--json", &vecadd]);
    Said::by(mgb.env("LD_LIBRARY_PATH", &folder)).ends_with(1).expect(
        "way to mgbd",
        "problem",
        &["speaks version 1 of the protocol", "natively"],
    );
}

/// The linker is asked as well: what is said of it is what it does.
#[test]
fn a_folder_of_its_own_leads_past_the_front() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let driver = compiled(
        &node,
        "libcuda.so.1",
        DRIVER,
        &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"],
    );
    let driver = driver.display().to_string();
    let folder = format!("-Wl,-rpath,{}", node.folder().display());
    let with = |name, tags| compiled(&node, name, USER, &[&driver, &folder, tags]);
    let rpath = with("rpath", "-Wl,--disable-new-dtags");
    assert_eq!(driver_of(&node, &rpath).trim(), driver);
    Said::about(&node, &rpath).ends_with(1).expect(
        "past the front",
        "problem",
        &["DT_RPATH of rpath", &driver],
    );
    let runpath = with("runpath", "-Wl,--enable-new-dtags");
    assert_eq!(driver_of(&node, &runpath).trim(), front().display().to_string());
    Said::about(&node, &runpath).ends_with(0).lacks("past the front");
    // Of the program, and so of what its libraries ask for.
    let flags = ["-shared", "-fPIC", &driver];
    let source = USER.replace("main", "use");
    compiled(&node, "libuser.so", &source, &flags);
    let library = node.folder().join("libuser.so").display().to_string();
    Said::about(&node, Path::new(&library)).ends_with(0).expect(
        "linking",
        "note",
        &["a library, not a program"],
    );
    let source = "int use(void);\nint main(void) { return use() < 0; }\n";
    let flags = [&library, &folder, "-Wl,--disable-new-dtags"];
    let deep = compiled(&node, "deep", source, &flags);
    assert_eq!(driver_of(&node, &deep).trim(), driver);
    Said::about(&node, &deep)
        .ends_with(1)
        .expect("past the front", "problem", &["DT_RPATH of deep"]);
}

#[test]
fn a_driver_by_its_path_leads_past_the_front() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    // Without a soname the path is what the program asks for.
    let driver = compiled(&node, "libcuda.so.1", DRIVER, &["-shared", "-fPIC"]);
    let driver = driver.display().to_string();
    let linked = compiled(&node, "linked", USER, &[&driver]);
    assert_eq!(driver_of(&node, &linked).trim(), driver);
    Said::about(&node, &linked)
        .ends_with(1)
        .expect("past the front", "problem", &["by its path", &driver]);
    let source = "#include <dlfcn.h>\nint main(void) { return !dlopen(\"/opt/nv/libcuda.so.1\", 1); }\n";
    let loads = compiled(&node, "loads", source, &[]);
    Said::about(&node, &loads).ends_with(0).expect(
        "past the front",
        "note",
        &["loads names /opt/nv/libcuda.so.1"],
    );
}

#[test]
fn static_programs_have_no_linker_for_the_front() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let plain = compiled(&node, "plain", "int main(void) { return 0; }\n", &["-static"]);
    Said::about(&node, &plain)
        .ends_with(0)
        .expect("linking", "note", &["linked statically"]);
    let source = "#include <stdio.h>\nint main(void) { puts(\"libcuda.so.1\"); }\n";
    let user = compiled(&node, "user", source, &["-static"]);
    Said::about(&node, &user)
        .ends_with(1)
        .expect("linking", "problem", &["linked statically", "past mgbd"]);
}

#[test]
fn rights_of_a_file_keep_the_front_out() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let library = front().display().to_string();
    let program = compiled(&node, "program", USER, &[&library]);
    let set = |mode| fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("its own");
    set(0o4755);
    Said::about(&node, &program).ends_with(0).expect(
        "rights of the file",
        "note",
        &["no difference for this user"],
    );
    assert_eq!(driver_of(&node, &program).trim(), library);
    if !rustix::process::geteuid().is_root() {
        // Nobody else can give a file away.
        return;
    }
    const NOBODY: u32 = 65534;
    std::os::unix::fs::chown(&program, Some(NOBODY), None).expect("root may");
    fs::set_permissions(node.folder(), fs::Permissions::from_mode(0o755)).expect("its own");
    // To give it away takes the bit.
    set(0o4755);
    Said::about(&node, &program).ends_with(1).expect(
        "rights of the file",
        "problem",
        &["uid 65534", "natively"],
    );
    let path = std::env::join_paths([prefix().join("lib/front")]).expect("no colons");
    let ended = run(node.command(&program, &[]).env("LD_LIBRARY_PATH", path));
    assert!(
        !ended.status.success() || ended.stdout.trim() != library,
        "the linker takes the front after all: {ended:?}"
    );
}

#[test]
fn scripts_lead_to_what_loads_libraries() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let script = |name, text: &str| {
        let path = node.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own");
        path
    };
    Said::about(&node, &script("job.sh", "#!/bin/sh\nexec ./app\n"))
        .ends_with(0)
        .expect("script", "ok", &["job.sh is a script of /bin/sh"])
        .expect("way to mgbd", "ok", &["no CUDA is seen"]);
    let python = run(&mut command("sh", &["-c", "command -v python3"])).success();
    let by_env = Said::about(&node, &script("job.py", "#!/usr/bin/env python3\nprint(1)\n"));
    by_env
        .ends_with(0)
        .expect("script", "ok", &["job.py is a script of /usr/bin/env python3"])
        .expect("way to mgbd", "ok", &["what it loads or starts later"]);
    let direct = format!("#!{}\nprint(1)\n", python.trim());
    Said::about(&node, &script("direct.py", &direct))
        .ends_with(0)
        .expect("script", "ok", &["direct.py is a script of", python.trim()]);
    Said::about(&node, &script("gone.py", "#!/nowhere/python3\n"))
        .ends_with(1)
        .expect("script", "problem", &["`/nowhere/python3` is not found"]);
    Said::about(&node, &script("text", "echo 1\n"))
        .ends_with(1)
        .expect("executable", "problem", &["neither a program nor a script"]);
}
