//! The documents are true where a machine can tell: files, links, targets and settings that they name exist.

mod layers;
mod page;
mod paths;
mod promises;
mod settings;

use std::collections::BTreeSet;
use std::fs;

use mgb_tests::prefix::repository;
use page::Page;

#[track_caller]
fn none(wrong: &[String], what: &str) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

/// `run-all` lists trials by name, which nobody runs without a GPU.
#[test]
fn all_trials_that_are_listed_are_there() {
    let path = repository().join("tests/gpu/run-all");
    let script = fs::read_to_string(path).unwrap();
    let case = |line: &str| -> Option<Vec<String>> {
        let (names, action) = line.trim().split_once(')')?;
        let trial = action
            .trim()
            .strip_prefix("run ")?
            .split_whitespace()
            .next()?
            .to_owned();
        let names = names.split('|').map(|name| name.trim().to_owned());
        Some(if trial == "\"$name\"" {
            names.collect()
        } else {
            vec![trial]
        })
    };
    let trials: BTreeSet<String> = script.lines().filter_map(case).flatten().collect();
    let is_there = |trial: &str| repository().join(format!("tests/gpu/{trial}.py")).exists();
    let missing: Vec<String> = trials.iter().filter(|trial| !is_there(trial)).cloned().collect();
    none(&missing, "trials that run-all names");
    assert!(
        trials.contains("jobs") && trials.contains("ordinals"),
        "{trials:?}"
    );
}

#[test]
fn links_lead_to_pages_and_headings() {
    let mut wrong = Vec::new();
    for page in page::all() {
        for link in page.links() {
            let (file, heading) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target = if file.is_empty() {
                page.path.clone()
            } else {
                paths::join(page.folder(), file)
            };
            if !repository().join(&target).exists() {
                wrong.push(format!("{}: {link}: there is no {target}", page.path));
            } else if !heading.is_empty() && !Page::read(&target).anchors().contains(heading) {
                wrong.push(format!("{}: {link}: {target} has no such heading", page.path));
            }
        }
    }
    none(&wrong, "links that lead nowhere");
}

#[test]
fn files_that_are_named_exist() {
    let tree = paths::Tree::walk();
    let mut wrong = Vec::new();
    for page in page::all() {
        for code in page.codes() {
            if paths::is_a_path(&code) && !tree.has(page.folder(), &code) {
                wrong.push(format!("{}: {code}", page.path));
            }
        }
    }
    none(&wrong, "files that do not exist");
}

#[test]
fn architecture_names_modules_of_each_crate() {
    let tree = paths::Tree::walk();
    let (mut crates, mut wrong) = (0, Vec::new());
    for (name, codes) in Page::read("ARCHITECTURE.md").codes_of_crates() {
        crates += 1;
        for code in codes {
            if paths::is_a_module(&code) && !tree.has_module(&name, &code) {
                wrong.push(format!("{name}: {code}"));
            }
        }
    }
    none(&wrong, "modules that do not exist");
    assert!(
        crates >= 7,
        "the crates are not described in paragraphs that begin with **name/**"
    );
}

#[test]
fn architecture_shows_the_layers() {
    let page = Page::read("docs/LAYERS.md");
    let wanted = layers::wanted();
    assert!(
        layers::kept(&page.text) == wanted,
        "docs/LAYERS.md is to have this between its marks, as layers.toml is now:\n{wanted}"
    );
}

#[test]
fn targets_of_make_exist() {
    let makefile = fs::read_to_string(repository().join("Makefile")).expect("the Makefile can be read");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(target, _)| target)
        .collect();
    let mut wrong = Vec::new();
    for page in page::all() {
        for command in page.commands() {
            let mut words = command.split_whitespace().skip_while(|word| *word == "$");
            if words.next() != Some("make") {
                continue;
            }
            let named = words.take_while(|word| !word.starts_with('#') && !word.starts_with('-'));
            for target in named.filter(|word| !word.contains('=')) {
                if !targets.contains(target) {
                    wrong.push(format!("{}: make {target}", page.path));
                }
            }
        }
    }
    none(&wrong, "targets that do not exist");
}

#[test]
fn the_front_pages_are_short() {
    for (path, most) in [("README.md", 1200), ("ARCHITECTURE.md", 2000)] {
        let words = Page::read(path).text.split_whitespace().count();
        assert!(
            words <= most,
            "{path} has {words} words, {most} at most are wanted"
        );
    }
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let mut reached = BTreeSet::new();
    let mut next = vec!["README.md".to_owned()];
    while let Some(path) = next.pop() {
        if path.ends_with(".md") && reached.insert(path.clone()) {
            let page = Page::read(&path);
            let links = page.links();
            let files = links.iter().map(|link| link.split('#').next().unwrap_or(link));
            next.extend(
                files
                    .filter(|file| !file.is_empty())
                    .map(|file| paths::join(page.folder(), file)),
            );
        }
    }
    let missed: Vec<String> = page::all()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| !reached.contains(path))
        .collect();
    none(&missed, "pages that no link leads to");
}

#[test]
fn the_glossary_has_each_term_once() {
    let terms = Page::read("docs/GLOSSARY.md").terms();
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = terms
        .iter()
        .filter(|term| !seen.insert(term.to_lowercase()))
        .cloned()
        .collect();
    none(&twice, "terms that are defined twice");
    assert!(seen.len() > 50, "the glossary has {} terms", seen.len());
}

#[test]
fn every_setting_is_described() {
    let described = settings::described();
    let read = settings::read_in_the_code();
    let missing: Vec<String> = read.difference(&described).cloned().collect();
    none(
        &missing,
        "variables that the code reads and docs/SETTINGS.md lacks",
    );
    let gone: Vec<String> = described.difference(&read).cloned().collect();
    none(&gone, "variables in docs/SETTINGS.md that no code reads");
}
