//! The conformance set in `tests/conformance`: what a real GPU printed for each case, what softgpu is known
//! to miss, and how outputs compare. The format of a line is said at the head of `conformance.h`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use crate::prefix::repository;

/// What a program printed, by case: the type and the values, or `failed` and why.
pub type ProgramOutput = BTreeMap<String, String>;

/// A program of the set.
#[derive(Clone, Debug)]
pub struct ConformanceProgram {
    /// Its name: that of its source.
    pub name: String,
    /// What its cases are about, as its source says.
    pub about: String,
    /// What a real GPU printed; `None` while none has: its cases then say themselves what is right.
    pub recorded: Option<ProgramOutput>,
    /// Cases that softgpu does not do as a GPU, and why.
    pub missing: BTreeMap<String, String>,
}

fn folder() -> PathBuf {
    repository().join("tests/conformance")
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The programs, by name.
///
/// # Panics
///
/// When the set cannot be read, or says something of a case that was not recorded.
pub fn programs() -> Vec<ConformanceProgram> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .expect("the set is in the repository")
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some(name.strip_suffix(".cu")?.to_owned())
        })
        .collect();
    names.sort();
    let missing = missing();
    let programs: Vec<ConformanceProgram> = names.into_iter().map(|name| program(name, &missing)).collect();
    for key in missing.keys() {
        let known = programs
            .iter()
            .any(|p| p.missing.keys().any(|case| *key == format!("{}/{case}", p.name)));
        assert!(known, "missing.txt names {key}, which is not recorded");
    }
    programs
}

fn program(name: String, missing: &BTreeMap<String, String>) -> ConformanceProgram {
    let source = read(folder().join(format!("{name}.cu")));
    let about: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("// "))
        .collect();
    let record = folder().join("recorded").join(format!("{name}.txt"));
    let recorded = record.exists().then(|| parse(&read(record)));
    let missing = recorded
        .iter()
        .flat_map(ProgramOutput::keys)
        .filter_map(|case| {
            let why = missing.get(&format!("{name}/{case}"))?;
            Some((case.clone(), why.clone()))
        })
        .collect();
    ConformanceProgram {
        about: about.join(" "),
        name,
        recorded,
        missing,
    }
}

/// `PROGRAM/CASE: REASON` a line.
fn missing() -> BTreeMap<String, String> {
    read(folder().join("missing.txt"))
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (case, why) = line
                .split_once(": ")
                .unwrap_or_else(|| panic!("missing.txt: {line}: no reason"));
            (case.to_owned(), why.to_owned())
        })
        .collect()
}

/// Reads what a program printed.
pub fn parse(text: &str) -> ProgramOutput {
    text.lines()
        .filter_map(|line| {
            let (case, rest) = line.split_once(' ')?;
            Some((case.to_owned(), rest.to_owned()))
        })
        .collect()
}

impl ConformanceProgram {
    /// Cases that a real GPU has recorded.
    pub fn count(&self) -> usize {
        self.recorded.as_ref().map_or(0, ProgramOutput::len)
    }

    /// The variable that has the cases compare what they have with a model of their own: where nothing is
    /// recorded.
    pub fn model(&self) -> Option<(&'static str, &'static str)> {
        self.recorded.is_none().then_some(("CONFORMANCE_MODEL", "1"))
    }
}

/// What differs from what was recorded, though it should not, and what should and does not. Of a program
/// without a record: what its cases find wrong themselves.
pub fn wrong(program: &ConformanceProgram, found: &ProgramOutput) -> Vec<String> {
    let Some(recorded) = &program.recorded else {
        return unmodelled(program, found);
    };
    let mut wrong = Vec::new();
    let cases: BTreeSet<&String> = recorded.keys().chain(found.keys()).collect();
    for case in cases {
        let difference = match (recorded.get(case), found.get(case)) {
            (Some(recorded), Some(found)) => difference(recorded, found),
            (Some(_), None) => Some("nothing was printed".to_owned()),
            (None, _) => Some("not recorded: see tests/gpu/conformance.py".to_owned()),
        };
        let name = &program.name;
        match (difference, program.missing.contains_key(case)) {
            (Some(difference), false) => wrong.push(format!("{name}/{case}: {difference}")),
            (None, true) => wrong.push(format!("{name}/{case} agrees: take it out of missing.txt")),
            _ => {}
        }
    }
    wrong
}

/// What is wrong with the cases of a program without a record.
fn unmodelled(program: &ConformanceProgram, found: &ProgramOutput) -> Vec<String> {
    let name = &program.name;
    if found.is_empty() {
        return vec![format!("{name}: no case has run")];
    }
    let wrong = found
        .iter()
        .filter_map(|(case, values)| Some((case, unmodelled_case(values)?)));
    wrong.map(|(case, why)| format!("{name}/{case}: {why}")).collect()
}

/// The same of one case: it failed, or found something else than what it computed itself.
fn unmodelled_case(values: &str) -> Option<String> {
    if values.starts_with("failed") {
        return Some(values.to_owned());
    }
    let values = values.strip_prefix("right ")?;
    let wrong = values.split(' ').filter(|&value| value != "1").count();
    (wrong > 0).then(|| format!("{wrong} threads found something else than what is right"))
}

/// What is wrong with what a case gave, or `None`.
pub fn difference(recorded: &str, found: &str) -> Option<String> {
    if recorded == found {
        return None;
    }
    if found.starts_with("failed") {
        return Some(found.to_owned());
    }
    let (mut wanted, mut got) = (recorded.split(' '), found.split(' '));
    let kind = wanted.next().unwrap_or_default();
    if got.next() != Some(kind) {
        return Some(format!("the values are not {kind}"));
    }
    let (wanted, got): (Vec<u64>, Vec<u64>) =
        (wanted.map(hexadecimal).collect(), got.map(hexadecimal).collect());
    if wanted.len() != got.len() {
        return Some(format!("{} values, not {}", got.len(), wanted.len()));
    }
    let mut text = String::new();
    for (at, (&wanted, &got)) in wanted.iter().zip(&got).enumerate() {
        if !same(kind, wanted, got) {
            let _ = write!(text, "value {at} is {got:x}, not {wanted:x}; ");
        }
    }
    (!text.is_empty()).then_some(text)
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text} is no hexadecimal number"))
}

fn same(kind: &str, wanted: u64, got: u64) -> bool {
    let Some((float, ulps)) = kind.split_once(':') else {
        return wanted == got;
    };
    let ulps: u64 = ulps.parse().unwrap_or_else(|_| panic!("{kind} has no tolerance"));
    // Bits of the whole, of the exponent's lowest place.
    let (width, fraction) = match float {
        "f32" => (32, 23),
        "f64" => (64, 52),
        _ => panic!("{kind} is no type of the set"),
    };
    let sign = 1u64 << (width - 1);
    let infinity = (sign - 1) & !((1 << fraction) - 1);
    let is_nan = |bits: u64| bits & (sign - 1) > infinity;
    // Neighbouring numbers are neighbouring integers, both zeros one.
    let place = |bits: u64| {
        let size = i128::from(bits & (sign - 1));
        if bits & sign == 0 { size } else { -size }
    };
    let apart = (place(wanted) - place(got)).unsigned_abs();
    is_nan(wanted) && is_nan(got) || apart <= u128::from(ulps) && (ulps > 0 || wanted == got)
}

const BEGIN: &str = "<!-- begin of the conformance table -->\n";
const END: &str = "<!-- end of the conformance table -->\n";

/// `docs/SOFTGPU.md` with a current table of what softgpu does as a real GPU; the rest as in `page`.
///
/// # Panics
/// If the page lacks the lines between which the table stands.
pub fn with_table(page: &str) -> String {
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("docs/SOFTGPU.md has the line that begins the table");
    let (_, after) = rest
        .split_once(END)
        .expect("docs/SOFTGPU.md has the line that ends the table");
    format!("{before}{BEGIN}{}{END}{after}", table())
}

fn table() -> String {
    let programs = programs();
    let cases: usize = programs.iter().map(ConformanceProgram::count).sum();
    let missing: usize = programs.iter().map(|p| p.missing.len()).sum();
    let mut text = format!(
        "Written by `make support`. {cases} cases, each an intrinsic or a family of the API, were recorded \
         on a real GPU (NVIDIA\nH200, CUDA 13.0); softgpu agrees on {}. Integers and codes are compared \
         exactly, floating-point results within the units\nin the last place that each case states.\n\n\
         | program | what its cases are about | cases | agree |\n|---|---|---:|---:|\n",
        cases - missing
    );
    for p in &programs {
        if p.recorded.is_none() {
            let _ = writeln!(text, "| `{}` | {} | not recorded yet | |", p.name, p.about);
            continue;
        }
        let (all, agree) = (p.count(), p.count() - p.missing.len());
        let _ = writeln!(text, "| `{}` | {} | {all} | {agree} |", p.name, p.about);
    }
    if missing > 0 {
        text.push_str("\n## What is missing\n\n| case | why |\n|---|---|\n");
    }
    for p in &programs {
        for (case, why) in &p.missing {
            let _ = writeln!(text, "| `{}/{case}` | {} |", p.name, why.replace('|', "\\|"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{ConformanceProgram, difference, parse, unmodelled_case, wrong};

    #[test]
    fn what_checks_itself_is_right_or_not() {
        assert_eq!(unmodelled_case("right 1 1"), None);
        assert!(unmodelled_case("right 1 0").is_some());
        assert!(unmodelled_case("right ").is_some());
        assert_eq!(unmodelled_case("u32 1"), None);
        assert_eq!(
            unmodelled_case("failed launch: why"),
            Some("failed launch: why".to_owned())
        );
    }

    #[test]
    fn without_a_record_a_case_must_not_fail() {
        let program = ConformanceProgram {
            name: "new".into(),
            about: String::new(),
            recorded: None,
            missing: Default::default(),
        };
        assert_eq!(program.model(), Some(("CONFORMANCE_MODEL", "1")));
        assert_eq!(wrong(&program, &parse("one u32 7\n")), [""; 0]);
        let found = wrong(
            &program,
            &parse("one u32 7\ntwo failed model: value 0 is 1, not 2\n"),
        );
        assert_eq!(found, ["new/two: failed model: value 0 is 1, not 2"]);
        assert_eq!(wrong(&program, &parse("")), ["new: no case has run"]);
    }

    #[test]
    fn integers_are_exact_and_floats_within_their_places() {
        assert_eq!(difference("u32 1 2", "u32 1 2"), None);
        assert!(difference("u32 1 2", "u32 1 3").is_some());
        assert!(difference("u32 1 2", "u32 1").is_some());
        assert!(difference("u32 1", "u64 1").is_some());
        assert!(difference("u32 1", "failed launch: why").is_some());
        assert_eq!(difference("f32:1 3f800000", "f32:1 3f800001"), None);
        assert!(difference("f32:1 3f800000", "f32:1 3f800002").is_some());
        // Around zero, across the signs.
        assert_eq!(difference("f32:2 1", "f32:2 80000001"), None);
        assert!(difference("f32:0 0", "f32:0 80000000").is_some());
        assert_eq!(
            difference("f64:0 7ff8000000000000", "f64:0 fff8000000000001"),
            None
        );
        assert!(difference("f64:0 7ff0000000000000", "f64:0 fff8000000000001").is_some());
    }
}
