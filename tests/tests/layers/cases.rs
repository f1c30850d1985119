//! The checker on small made-up crates.

use crate::Sources;
use crate::order::ModuleOrder;
use crate::report;

/// What the checker says of a crate `toy` with `files`, under the section `[toy]` with `order`.
fn faults(order: &str, files: &[(&str, &str)]) -> Vec<String> {
    let sources: Sources = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let orders = ModuleOrder::parse_all(&format!("[toy]\n{order}")).expect("the order is well formed");
    report::faults("toy", &orders["toy"], &sources)
}

#[track_caller]
fn assert_fault(faults: &[String], parts: &[&str]) {
    let found = faults
        .iter()
        .any(|fault| parts.iter().all(|part| fault.contains(part)));
    assert!(found, "no fault has {parts:?}: {faults:#?}");
}

const TWO: &str = r#"layers = [["low"], ["high"]]"#;
const ROOT: (&str, &str) = ("lib.rs", "mod high; mod low;");

#[test]
fn an_import_from_above_is_fine() {
    let high = (
        "high.rs",
        "use crate::low::Thing; pub fn f(_: Thing) { crate::low::g(); }",
    );
    let low = ("low.rs", "pub struct Thing; pub fn g() {}");
    assert_eq!(faults(TWO, &[ROOT, high, low]), [""; 0]);
}

#[test]
fn an_import_from_below_is_upward() {
    let high = ("high.rs", "pub struct Thing;");
    let lows = [
        "use crate::high::Thing;",
        "use super::high::Thing;",
        "use crate::{high::{self, Thing}};",
        "fn f() { crate::high::Thing; }",
        "use crate::high as above; fn f(_: above::Thing) {}",
        "fn f() { use crate::high; high::Thing; }",
        "fn f() { println!(\"{}\", crate::high::Thing); }",
        "fn f() { vec![(1, super::high::Thing)]; }",
        "use crate::high::*;",
        "use crate::high::Thing as _;",
        "struct S(Option<crate::high::Thing>);",
        "impl crate::high::Thing {}",
        "macro_rules! m { () => { $crate::high::Thing } }",
        "mod inner { use super::super::high::Thing; }",
        "pub use crate::high::Thing;",
        "use crate::high;",
    ];
    for low in lows {
        let found = faults(TWO, &[ROOT, high, ("low.rs", low)]);
        assert_eq!(found.len(), 1, "{low}: {found:#?}");
        assert_fault(&found, &["low.rs -> high.rs", "high is in a layer above low"]);
    }
}

#[test]
fn what_only_looks_like_an_import_is_none() {
    let high = ("high.rs", "pub struct Thing;");
    let lows = [
        "fn f(high: u8) -> u8 { high }",
        "fn f() { other.high.thing(); }",
        "use std::fmt; fn f() { fmt::format(); }",
        "use ::high::Thing;",
        "mod high { pub struct Thing; } use high::Thing;",
        "#[cfg(test)] mod tests { use crate::high::Thing; }",
        "#[cfg(test)] use crate::high::Thing;",
        "#[cfg(all(test, unix))] fn f(_: crate::high::Thing) {}",
        "pub(in crate::high) struct S;",
        "struct Thing; fn f(_: Thing) { format!(\"{:?}\", Thing); }",
    ];
    for low in lows {
        assert_eq!(faults(TWO, &[ROOT, high, ("low.rs", low)]), [""; 0], "{low}");
    }
}

#[test]
fn a_module_of_tests_in_a_file_is_left_out() {
    let low = (
        "low.rs",
        "#[cfg(test)] mod tests; #[cfg(test)] #[path = \"low_more.rs\"] mod more;",
    );
    let tests = ("low/tests.rs", "use crate::high::Thing;");
    let more = ("low_more.rs", "use crate::high::Thing;");
    let high = ("high.rs", "pub struct Thing;");
    assert_eq!(faults(TWO, &[ROOT, high, low, tests, more]), [""; 0]);
}

#[test]
fn files_that_import_each_other_are_a_circle() {
    let root = ("lib.rs", "mod a;");
    let order = r#"layers = [["a"]]"#;
    let folder = ("a/mod.rs", "mod b; mod c; mod d;");
    let b = ("a/b.rs", "use super::c::C; pub struct B;");
    let c = ("a/c.rs", "pub struct C; fn f() { super::d::d(); }");
    let d = ("a/d.rs", "use crate::a::b; pub fn d() { b::B; }");
    let found = faults(order, &[root, folder, b, c, d]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_fault(
        &found,
        &[
            "circle of 3 files: a/b.rs, a/c.rs, a/d.rs",
            "a/b.rs -> a/c.rs: C",
            "a/d.rs -> a/b.rs: B",
        ],
    );
    assert_eq!(
        faults(order, &[root, folder, b, c, ("a/d.rs", "pub fn d() {}")]),
        [""; 0]
    );
}

#[test]
fn a_child_and_its_mod_rs_are_a_circle() {
    let root = ("lib.rs", "mod a;");
    let order = r#"layers = [["a"]]"#;
    let child = ("a/b.rs", "use super::Shared; pub fn b(_: Shared) {}");
    for own in [
        "use b::b;",
        "fn f() { b::b(); }",
        "pub use b::b; fn f() { b(Shared); }",
    ] {
        let text = format!("mod b; pub struct Shared; {own}");
        assert_fault(
            &faults(order, &[root, ("a/mod.rs", &text), child]),
            &["circle of 2 files: a/b.rs, a/mod.rs"],
        );
    }
}

#[test]
fn declarations_and_re_exports_are_no_imports() {
    let root = ("lib.rs", "mod a; mod z; pub use a::b;");
    let order = r#"layers = [["a"], ["z"]]"#;
    let child = ("a/b.rs", "use super::Shared; pub fn b(_: Shared) {}");
    let folder = (
        "a/mod.rs",
        "mod b; mod c; pub use b::b; pub(crate) use c::*; pub struct Shared;",
    );
    let other = ("a/c.rs", "pub struct C;");
    let user = ("z.rs", "use crate::a::{b, C}; fn f(_: C) { b(); }");
    assert_eq!(faults(order, &[root, folder, child, other, user]), [""; 0]);
}

#[test]
fn an_import_through_a_re_export_is_of_the_defining_file() {
    let root = ("lib.rs", "mod a;");
    let order = r#"layers = [["a"]]"#;
    let folder = ("a/mod.rs", "mod b; mod c; pub use b::*; pub use c::C;");
    let b = ("a/b.rs", "use super::C; pub struct B;");
    let c = ("a/c.rs", "use crate::a; fn f() { a::B; } pub struct C;");
    assert_fault(
        &faults(order, &[root, folder, b, c]),
        &["circle of 2 files: a/b.rs, a/c.rs"],
    );
}

#[test]
fn a_macro_counts_for_its_file() {
    let root = ("lib.rs", "#[macro_use] mod high; mod low;");
    let high = ("high.rs", "macro_rules! shout { () => {} }");
    assert_fault(
        &faults(TWO, &[root, high, ("low.rs", "fn f() { shout!(); }")]),
        &["low.rs -> high.rs: shout!"],
    );
}

#[test]
fn the_root_is_above_all_layers() {
    let root = ("lib.rs", "mod high; mod low; pub struct Thing;");
    let found = faults(TWO, &[root, ("high.rs", ""), ("low.rs", "use crate::Thing;")]);
    assert_fault(&found, &["low.rs -> lib.rs: Thing", "lib.rs is above all layers"]);
}

#[test]
fn modules_of_one_layer_do_not_import_each_other() {
    let found = faults(
        r#"layers = [["low", "high"]]"#,
        &[
            ROOT,
            ("high.rs", "use crate::low::f;"),
            ("low.rs", "pub fn f() {}"),
        ],
    );
    assert_fault(&found, &["high.rs -> low.rs: f", "high and low are in one layer"]);
}

#[test]
fn every_module_is_named_once() {
    let files = [ROOT, ("high.rs", ""), ("low.rs", "")];
    assert_fault(
        &faults(r#"layers = [["low"]]"#, &files),
        &["[toy]", "does not name the module high"],
    );
    let found = faults(r#"layers = [["low"], ["high"], ["gone", "low"]]"#, &files);
    assert_fault(&found, &["names gone, which is no module of it"]);
    assert_fault(&found, &["names low twice"]);
}

#[test]
fn a_module_may_have_layers_of_its_own() {
    let root = ("lib.rs", "mod a;");
    let files = |low| {
        [
            root,
            ("a/mod.rs", "mod high; mod low; fn f() {}"),
            ("a/high.rs", "pub fn f() {}"),
            ("a/low.rs", low),
        ]
    };
    let order = "layers = [[\"a\"]]\n[toy.a]\nlayers = [[\"low\"], [\"high\"]]";
    assert_eq!(faults(order, &files("")), [""; 0]);
    assert_fault(
        &faults(order, &files("use super::high::f;")),
        &["toy.a: a/low.rs -> a/high.rs: f"],
    );
    assert_fault(
        &faults(order, &files("use super::f;")),
        &["a/mod.rs is above all layers"],
    );
    let gone = "layers = [[\"a\"]]\n[toy.b]\nlayers = []";
    assert_fault(
        &faults(gone, &files("")),
        &["[toy.b], but there is no such module"],
    );
}

#[test]
fn circles_may_only_shrink() {
    let root = ("lib.rs", "mod a; mod b;");
    let a = ("a.rs", "use crate::b::B; pub struct A;");
    let circle = [root, a, ("b.rs", "use crate::a::A; pub struct B;")];
    assert_eq!(faults("circles = 1", &circle), [""; 0]);
    assert_fault(
        &faults("circles = 2", &circle),
        &["1 circles of imports are left, layers.toml allows 2"],
    );
    assert_fault(
        &faults("circles = 1", &[root, a, ("b.rs", "pub struct B;")]),
        &["0 circles of imports are left"],
    );
    assert_fault(&faults("layers = [[\"a\", \"b\"]]", &circle), &["1 circles"]);
}

#[test]
fn what_cannot_be_read_is_a_fault() {
    assert_fault(
        &faults(TWO, &[ROOT, ("high.rs", "fn {"), ("low.rs", "")]),
        &["cannot parse high.rs"],
    );
    assert_fault(
        &faults(TWO, &[ROOT, ("high.rs", "")]),
        &["lib.rs declares mod low, which has no file"],
    );
    for bad in [
        "toy = 1",
        "[toy]",
        "[toy]\nlayers = 1",
        "[toy]\ncircles = -1",
        "[toy",
    ] {
        assert!(ModuleOrder::parse_all(bad).is_err(), "{bad}");
    }
}
