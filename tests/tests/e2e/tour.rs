//! The tour of docs/TOUR.md, command by command, as a newcomer types it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use mgb_tests::built;
use mgb_tests::prefix::{prefix, repository};
use mgb_tests::process::run;

/// What the page calls the folder of the tour.
const FOLDER: &str = "/home/you/tour";
/// A line that stands for any number of others.
const MORE: &str = "...";
/// Commands that take long, and have tests of their own.
const ELSEWHERE: [&str; 1] = ["mgb demo"];

/// A command of the page, and what it prints there.
struct Step {
    command: String,
    printed: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("    ")) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step {
                command: command.to_owned(),
                printed: Vec::new(),
            }),
            (None, Some(step)) => step.printed.push(line.to_owned()),
            (None, None) => panic!("nothing prints {line:?}"),
        }
    }
    steps
}

/// A line without what differs from run to run: numbers with their units, and states of programs.
fn pattern(line: &str) -> String {
    let mut text = String::new();
    for letter in line.chars() {
        let is_number = letter.is_ascii_digit() || (letter == '.' && text.ends_with('#'));
        match is_number {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(letter),
        }
    }
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        let is_unit = ["s", "ms", "B", "KiB", "MiB"].contains(&word.trim_end_matches([',', ':', ')']));
        match word {
            "-" | "#%" | "#:" => words.push("#"),
            "running" | "evicted" | "restoring" => words.push("STATE"),
            _ if is_unit && words.last().is_some_and(|last| last.ends_with('#')) => {}
            _ => words.push(word),
        }
    }
    words.dedup_by(|next, before| next == before && *next == "#");
    words.join(" ")
}

fn patterns(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().map(|line| pattern(line));
    let mut all: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    all.sort();
    all
}

#[test]
fn the_tour_prints_what_the_page_says() {
    let page = fs::read_to_string(repository().join("docs/TOUR.md")).expect("there is a tour");
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("tour");
    fs::create_dir(&folder).expect("it can be made");
    fs::set_permissions(home.path(), PermissionsExt::from_mode(0o700)).expect("it is ours");
    // The clone, with the one example that the tour takes from it.
    let examples = home.path().join("mgb/build/examples/mgb");
    fs::create_dir_all(&examples).expect("it can be made");
    symlink(repository().join("examples"), home.path().join("mgb/examples")).expect("it can be linked");
    symlink(built::program("phases"), examples.join("phases")).expect("it can be linked");

    let all = steps(&page);
    assert!(all.len() > 8, "the page has {} commands", all.len());
    let is_played = |step: &&Step| !ELSEWHERE.contains(&step.command.as_str());
    let mut script = String::new();
    for step in all.iter().filter(is_played) {
        script += &format!("{{ {}\n}} 2>&1\necho @@@\n", step.command);
    }
    let mut shell = Command::new("bash");
    let path = std::env::var("PATH").expect("there is a path");
    shell
        .args(["-c", &script])
        .current_dir(&folder)
        .env_clear()
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.path())
        .env("PATH", format!("{}:{path}", prefix().join("bin").display()));
    let ended = run(&mut shell);
    let said = ended.stdout.replace(folder.to_str().expect("text"), FOLDER);
    let mut parts = said.split("@@@\n");
    for step in all.iter().filter(is_played) {
        let part = parts
            .next()
            .unwrap_or_else(|| panic!("it ended before: {}\n{ended:?}", step.command));
        let wanted = patterns(&step.printed);
        let printed = patterns(&part.lines().map(str::to_owned).collect::<Vec<_>>());
        let mut missing: Vec<&String> = wanted.iter().filter(|line| *line != MORE).collect();
        let mut others: Vec<&String> = Vec::new();
        for line in &printed {
            match missing.iter().position(|wanted| *wanted == line) {
                Some(at) => _ = missing.remove(at),
                None => others.push(line),
            }
        }
        let may_be_more = wanted.iter().any(|line| line == MORE);
        assert!(
            missing.is_empty() && (may_be_more || others.is_empty()),
            "$ {}\n{part}\nmissing: {missing:#?}\nnot on the page: {others:#?}",
            step.command
        );
    }
}

#[test]
fn patterns_leave_out_what_differs() {
    assert_eq!(
        pattern("  0  6597  evicted       0 B       0 B  2.9 s  phases.cu:main"),
        pattern("  0  12  running  12.0 MiB  12.0 MiB  850 ms  phases.cu:main")
    );
    assert_eq!(
        pattern("  1  done  0  0  0.64 s  2: 24.0 MiB  -  ./p 12"),
        pattern("  2  done  0  0  9 s  -  3%  ./p 12")
    );
    assert_ne!(pattern("  1  done  0"), pattern("  1  failed  0"));
}
