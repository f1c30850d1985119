//! The report that stays in the program: as many static tasks as the example says, and the reasons for what
//! is lazy.

use std::collections::BTreeSet;

use mgb_tests::built::{self, Example, LEVELS, examples};
use mgb_tests::formula;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::run;
use mgb_tests::report::{self, ReportedTask};

#[test]
fn reports_say_what_examples_say() {
    reports_at(&["-O0", "-O1"]);
}

#[test]
#[ignore = "to the pass as -O1: make levels-test"]
fn reports_say_what_examples_say_at_every_level() {
    reports_at(&LEVELS);
}

fn reports_at(levels: &[&'static str]) {
    let mut wrong = Vec::new();
    for &level in levels {
        let folder = built::at(level);
        for example in examples() {
            let modules =
                report::read(&folder.join(&example.name)).unwrap_or_else(|e| panic!("{level}: {e:#}"));
            let tasks: Vec<ReportedTask> = modules.into_iter().flat_map(|module| module.tasks).collect();
            let found = static_tasks(&example, &tasks).and_then(|()| lazy_reasons(&example, &tasks));
            wrong.extend(
                found
                    .err()
                    .map(|difference| format!("{} {level}: {difference}", example.name)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As many as the example says, and their formulas give at its arguments what the example says. A task that
/// is begun several times is in the report once.
fn static_tasks(example: &Example, tasks: &[ReportedTask]) -> Result<(), String> {
    let directives = &example.directives;
    let formulas: Vec<&String> = tasks
        .iter()
        .filter(|t| t.kind == "static")
        .filter_map(|t| t.need.peak.as_ref())
        .collect();
    if formulas.len() != directives.static_tasks {
        return Err(format!(
            "the static tasks are {formulas:?}, not {}",
            directives.static_tasks
        ));
    }
    for case in &directives.cases {
        let values = case.values();
        let mut peaks = BTreeSet::new();
        for formula in &formulas {
            peaks.insert(formula::evaluate(formula, &values).map_err(|e| format!("{e:#}"))? as u64);
        }
        let expected = directives.peaks_for(case).expect("the directives are right");
        let expected: BTreeSet<u64> = expected.into_iter().collect();
        if peaks != expected {
            return Err(format!(
                "{formulas:?} are {peaks:?} at {values:?}, not {expected:?}"
            ));
        }
    }
    Ok(())
}

/// Every reason that the example names; none at all where it names none.
fn lazy_reasons(example: &Example, tasks: &[ReportedTask]) -> Result<(), String> {
    let found: BTreeSet<&str> = tasks
        .iter()
        .flat_map(|t| &t.reasons)
        .map(|r| r.code.as_str())
        .collect();
    let expected: BTreeSet<&str> = example.directives.lazy.iter().map(String::as_str).collect();
    if expected.is_subset(&found) && expected.is_empty() == found.is_empty() {
        return Ok(());
    }
    Err(format!("lazy for {found:?}, not for {expected:?}"))
}

#[test]
fn explain_prints_the_formula_and_the_reason() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let explain = |name: &str| {
        let program = built::program(name);
        run(&mut node.mgb(&["explain", program.to_str().expect("paths of tests are UTF-8")])).success()
    };
    let vecadd = explain("vecadd");
    assert!(
        vecadd.contains("static") && vecadd.contains("vecadd.cu"),
        "{vecadd}"
    );
    let split = explain("init_run_split");
    assert!(
        split.contains("lazy") && split.contains("init_run_split/init.cu"),
        "{split}"
    );
}

#[test]
fn explain_shows_a_hint_of_the_source() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = node.write(
        "hint.cu",
        "#include <mgb.h>\n__global__ void work(int *x) { *x = 1; }\nint main() {\n  MGB_NEVER_MOVE();\n  MGB_NEVER_SHARE();\n  \
         int *x;\n  cudaMalloc(&x, 64);\n  work<<<1, 1>>>(x);\n  cudaFree(x);\n}\n",
    );
    let text = |path: &std::path::Path| path.to_str().expect("paths of tests are UTF-8").to_owned();
    let object = text(&source.with_extension("o"));
    let source = text(&source);
    run(&mut node.mgb(&[
        "clang++", "-Wall", "-Wextra", "-Werror", "-c", &source, "-o", &object,
    ]))
    .success();
    let shown = run(&mut node.mgb(&["explain", &object])).success();
    assert!(shown.contains("task 1 in main, static"), "{shown}");
    assert!(
        shown.contains("anchored the source says MGB_NEVER_MOVE (anchored, line 4)"),
        "{shown}"
    );
    assert!(
        shown.contains("alone   the source says MGB_NEVER_SHARE (alone, line 5)"),
        "{shown}"
    );
    let json = run(&mut node.mgb(&["explain", "--json", &object])).success();
    let modules: serde_json::Value = serde_json::from_str(&json).expect("a JSON array of reports");
    assert_eq!(modules[0]["tasks"][0]["alone"][0]["line"], 5);
}

/// Every op, object and edge of the report, in both drawings. What the machine code of kernels takes is in
/// the report: with more than one architecture too, and of a whole program.
#[test]
fn registers_and_static_shared_memory_are_known() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/matmul.cu");
    let builds = [
        ("one", &["-c"][..]),
        ("two", &["-c", "--cuda-gpu-arch=sm_80"]),
        ("whole", &["-flto"]),
    ];
    for (name, options) in builds {
        let program = node.folder().join(name);
        let program = program.to_str().expect("paths of tests are UTF-8");
        let mut words = vec!["clang++", "--cuda-gpu-arch=sm_90", source, "-o", program];
        words.extend(options);
        run(&mut node.mgb(&words)).success();
        let reports: Vec<serde_json::Value> =
            serde_json::from_str(&run(&mut node.mgb(&["explain", "--json", program])).success())
                .expect("JSON");
        let need = &reports[0]["tasks"][0]["need"];
        // Two tiles of 16 by 16 floats.
        assert_eq!(need["shared"], "2048", "{name}");
        assert!(
            (16..=255).contains(&need["registers"].as_u64().unwrap_or(0)),
            "{name}: {need}"
        );
    }
}

#[test]
fn drawings_have_everything_that_the_report_has() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    for name in ["vecadd", "twotasks", "init_run", "symbol"] {
        let program = built::program(name);
        let program = program.to_str().expect("paths of tests are UTF-8");
        let explain = |option: &str| run(&mut node.mgb(&["explain", option, program])).success();
        let modules: Vec<serde_json::Value> =
            serde_json::from_str(&explain("--json")).expect("a JSON array of reports");
        let (dot, svg) = (explain("--dot"), explain("--svg"));
        let count = |text: &str, part: &str| text.matches(part).count();
        let mut drawn = Drawn::default();
        for task in modules.iter().flat_map(|module| list(&module["tasks"])) {
            let touched = list(&task["ops"]).flat_map(|op| list(&op["objects"]));
            drawn.tasks += 1;
            drawn.ops += list(&task["ops"]).count();
            drawn.objects += list(&task["objects"]).count();
            drawn.edges += touched.count();
        }
        let found = Drawn {
            tasks: count(&dot, "penwidth=2"),
            ops: count(&dot, "<td port="),
            objects: count(&dot, "style=\"rounded"),
            edges: count(&dot, " -> "),
        };
        assert_eq!(found, drawn, "{name}: {dot}");
        let found = Drawn {
            tasks: count(&svg, "stroke-width:2\""),
            ops: count(&svg, "class=\"op\""),
            objects: count(&svg, "class=\"object\""),
            edges: count(&svg, "class=\"edge\""),
        };
        assert_eq!(found, drawn, "{name}: {svg}");
        assert!(drawn.ops > 0, "{name}");
    }
    run(&mut node.mgb(&["explain", "--dot", "--svg", "any"])).failure(&["--dot", "--svg"]);
}

/// How much there is to draw.
#[derive(Debug, Default, PartialEq)]
struct Drawn {
    tasks: usize,
    ops: usize,
    objects: usize,
    edges: usize,
}

fn list(value: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    value.as_array().into_iter().flatten()
}

#[test]
fn explain_names_what_it_cannot_read() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = node.write("notes.txt", "no program");
    let source = source.to_str().expect("paths of tests are UTF-8");
    run(&mut node.mgb(&["explain", source])).failure(&["notes.txt"]);
    run(&mut node.mgb(&["explain", "nowhere.o"])).failure(&["nowhere.o"]);
}

#[test]
fn a_source_is_compiled_for_its_report() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    std::fs::create_dir(node.folder().join("inc")).expect("a folder can be made");
    node.write("inc/size.h", "#define BYTES (16 << 20)\n");
    let source = "\
#include \"size.h\"
__global__ void k(char *p) { *p = 1; }
int main() { char *p; cudaMalloc(&p, BYTES); k<<<1, 1>>>(p); cudaFree(p); }
";
    node.write("app.cu", source);
    let temporary = node.folder().join("temporary");
    std::fs::create_dir(&temporary).expect("a folder can be made");
    let explain = |words: &[&str]| {
        let mut command = node.command(bin("mgb"), &["explain", "app.cu"]);
        command.env("TMPDIR", &temporary).current_dir(node.folder());
        run(command.args(words))
    };
    let text = explain(&["--", "--offload-arch=sm_90", "-O2", "-Iinc", "-flto"]).success();
    assert!(text.starts_with("app.cu: 1 task (1 static, 0 lazy)"), "{text}");
    assert!(text.contains("peak    16777216 bytes (16.0 MiB)"), "{text}");
    explain(&[]).failure(&["size.h", "app.cu does not compile (see above)", "-- -Iinclude"]);
    let json = explain(&["--json", "--", "--offload-arch=sm_90", "-Iinc"]).success();
    assert!(json.starts_with('['), "{json}");
    let mut left = std::fs::read_dir(&temporary).expect("the folder is there");
    assert!(left.next().is_none(), "the object is gone");
    let mut other = node.command(bin("mgb"), &["explain", "/bin/true", "--", "-O2"]);
    run(&mut other).failure(&["options after -- are for a source"]);
}
