//! The promises of SECURITY.md and the tests that it names for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use mgb_tests::prefix::repository;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, ItemFn, ItemMod, Macro};

use crate::page::{Page, TableCell};
use crate::paths::Tree;

const PAGE: &str = "SECURITY.md";
/// The tables: of boundaries, and of promises with their tests.
const BOUNDARIES: &str = "How clients are kept apart";
const TESTS: &str = "Tests";
/// What is said to be lacking may be tested as well, as far as there is something to it.
const LACKING: &str = "What is not protected";

/// Tests by their paths, as `scheduler::src::broker::tests::quota::a_group_has_its_quota_together`; whether
/// each is ignored.
struct Tests(BTreeMap<String, bool>);

impl Tests {
    fn of_the_tree(tree: &Tree) -> Tests {
        let mut tests = Tests(BTreeMap::new());
        for path in tree.files().filter(|path| path.ends_with(".rs")) {
            let text = fs::read_to_string(repository().join(path)).expect("a source is readable text");
            let Ok(file) = syn::parse_file(&text) else {
                continue;
            };
            let parts = path.trim_end_matches(".rs").split('/');
            let parts = parts.filter(|part| !["mod", "main", "lib"].contains(part));
            let mut finder = Finder {
                path: parts.map(str::to_owned).collect(),
                tests: &mut tests.0,
            };
            finder.visit_file(&file);
        }
        tests
    }

    /// Those that a name stands for: a test by the end of its path, or all of a module.
    fn named<'a>(&'a self, name: &str) -> Vec<(&'a str, bool)> {
        let ends = format!("::{name}");
        let inside = format!("::{name}::");
        let is_named = |path: &str| path.ends_with(&ends) || path.contains(&inside);
        let all = self.0.iter().filter(|(path, _)| is_named(path));
        all.map(|(path, ignored)| (path.as_str(), *ignored)).collect()
    }

    /// What is wrong with a name that stands for a test, if anything.
    fn fault(&self, name: &str) -> Option<String> {
        let named = self.named(name);
        let modules: BTreeSet<&str> = named
            .iter()
            .map(|(path, _)| &path[..path.rfind(&format!("::{name}")).unwrap_or_default()])
            .collect();
        if named.is_empty() {
            return Some("there is no such test".to_owned());
        }
        if named.iter().all(|(_, is_ignored)| *is_ignored) {
            return Some("it is ignored".to_owned());
        }
        (modules.len() > 1).then(|| format!("it may be in any of {modules:?}"))
    }
}

/// Finds the tests of a file.
struct Finder<'a> {
    path: Vec<String>,
    tests: &'a mut BTreeMap<String, bool>,
}

impl Finder<'_> {
    fn add(&mut self, name: &str, is_ignored: bool) {
        let path = format!("::{}::{name}", self.path.join("::"));
        self.tests.insert(path, is_ignored);
    }

    /// Functions that a macro makes tests of.
    fn enter(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            if let (TokenTree::Ident(word), Some(TokenTree::Ident(name))) = (&token, tokens.peek())
                && *word == "fn"
            {
                self.add(&name.to_string(), false);
            }
        }
    }
}

fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident(name))
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.path.push(module.ident.to_string());
        syn::visit::visit_item_mod(self, module);
        self.path.pop();
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if has(&function.attrs, "test") {
            self.add(&function.sig.ident.to_string(), has(&function.attrs, "ignore"));
        }
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        if called
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "proptest")
        {
            self.enter(called.tokens.clone());
        }
    }
}

/// What is wrong with what stands for a test: a test, a module, a file or a target of make.
fn fault(code: &str, tests: &Tests, tree: &Tree, makefile: &str) -> Option<String> {
    if let Some(target) = code.strip_prefix("make ") {
        let is_there = makefile
            .lines()
            .any(|line| line.starts_with(&format!("{target}:")));
        return (!is_there).then(|| "there is no such target".to_owned());
    }
    if !code.contains('/') {
        return tests.fault(code);
    }
    if !tree.has("", code) {
        return Some("there is no such file".to_owned());
    }
    let module = code.trim_end_matches(".rs").replace('/', "::");
    let holds_tests = !code.contains("/tests/") || !tests.named(&module).is_empty();
    (!holds_tests).then(|| "there is no test in it".to_owned())
}

/// The faults of a page: boundaries without a test, and tests without a boundary or not there.
fn faults(page: &Page, tests: &Tests, tree: &Tree, makefile: &str) -> Vec<String> {
    let boundaries: BTreeSet<String> = page
        .rows(BOUNDARIES)
        .iter()
        .map(|row| row[0].text.clone())
        .collect();
    let mut wrong = Vec::new();
    let mut tested = BTreeSet::new();
    for row in page.rows(TESTS) {
        let [boundary, promise, named]: [TableCell; 3] = row.try_into().expect("three columns");
        if !boundaries.contains(&boundary.text) && !page.bold(LACKING).contains(&boundary.text) {
            wrong.push(format!(
                "{}: no boundary has this name ({})",
                boundary.text, promise.text
            ));
        }
        if named.codes.is_empty() {
            wrong.push(format!("{}: no test is named", promise.text));
        }
        for code in &named.codes {
            let fault = fault(code, tests, tree, makefile);
            wrong.extend(fault.map(|fault| format!("{code}: {fault}")));
        }
        tested.insert(boundary.text);
    }
    let untested = boundaries.difference(&tested);
    wrong.extend(untested.map(|boundary| format!("{boundary}: nothing is tested of it")));
    wrong
}

fn makefile() -> String {
    fs::read_to_string(repository().join("Makefile")).expect("the Makefile can be read")
}

#[test]
fn every_promise_names_tests_that_are_there() {
    let tree = Tree::walk();
    let tests = Tests::of_the_tree(&tree);
    assert!(tests.0.len() > 1000, "{} tests were found", tests.0.len());
    let page = Page::read(PAGE);
    assert!(page.rows(BOUNDARIES).len() > 20);
    crate::none(
        &faults(&page, &tests, &tree, &makefile()),
        "promises without a test",
    );
}

#[test]
fn a_promise_without_a_test_is_found() {
    let page = Page {
        path: PAGE.to_owned(),
        text: format!(
            "## {BOUNDARIES}\n\n| boundary | protection |\n|---|---|\n| a wall | holds |\n| a door | is shut |\n\n\
             ## {TESTS}\n\n| boundary | promise | test |\n|---|---|---|\n\
             | a door | nobody enters | `a::here`, `a::gone`, `a::later`, `twice`, `a`, `b/c.rs`, `make none` |\n\
             | a door | nobody leaves | |\n| a roof | no rain | `make test` |\n"
        ),
    };
    let names = ["::x::a::here", "::x::a::later", "::x::twice", "::y::twice"];
    let tests = Tests(
        names
            .map(|name| (name.to_owned(), name.ends_with("later")))
            .into(),
    );
    let found = faults(&page, &tests, &Tree::walk(), &makefile());
    let wanted = [
        "a::gone: there is no such test",
        "a::later: it is ignored",
        "twice: it may be in any of {\"::x\", \"::y\"}",
        "b/c.rs: there is no such file",
        "make none: there is no such target",
        "nobody leaves: no test is named",
        "a roof: no boundary has this name (no rain)",
        "a wall: nothing is tested of it",
    ];
    assert_eq!(found, wanted);
}
