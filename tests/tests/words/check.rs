//! What is wrong with the words of one source, line by line.

/// Words of a doc comment at least, so that it can be a sentence.
const MIN_WORDS: usize = 3;
/// Names of limits that do not say what they limit.
const LIMITS: [&str; 1] = ["PATIENCE"];
/// Names that say of no type what it is.
const TYPES: [&str; 5] = ["Eyes", "People", "Sight", "They", "Who"];

/// The faults of a source, each with its line.
pub fn faults(text: &str) -> impl Iterator<Item = (usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut faults = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_first = at == 0 || comment(lines[at - 1]).is_none();
        if is_first && comment(line).is_some() {
            let whole: Vec<&str> = lines[at..].iter().map_while(|line| comment(line)).collect();
            let whole = whole.join(" ");
            if is_too_short(&whole) {
                faults.push((
                    at + 1,
                    format!("the doc comment `{}` is no sentence", whole.trim()),
                ));
            }
        }
        if let Some(name) = defined(line, &["const", "static"]).filter(|name| LIMITS.contains(name)) {
            faults.push((at + 1, format!("{name} does not say what it limits")));
        }
        let types = ["struct", "enum", "trait", "type", "union"];
        if let Some(name) = defined(line, &types).filter(|name| TYPES.contains(name)) {
            faults.push((at + 1, format!("{name} is no name of a type")));
        }
    }
    faults.into_iter()
}

/// The text of a line of a doc comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    // A row of slashes is no doc comment.
    (!text.starts_with('/')).then_some(text)
}

/// Whether a doc comment cannot be a sentence. One that is code is the name of what an item mirrors.
fn is_too_short(text: &str) -> bool {
    let mut prose = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 0 {
            prose.push_str(part);
        }
    }
    let has_words = prose.contains(|letter: char| letter.is_alphanumeric());
    has_words && text.split_whitespace().count() < MIN_WORDS
}

/// The name that a line defines by one of these keywords.
fn defined<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || word.ends_with(')') || ["unsafe", "mut"].contains(word)
    });
    words.next().filter(|word| keywords.contains(word))?;
    let name = words.find(|word| *word != "mut")?;
    name.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .next()
}

#[test]
fn a_made_up_source_with_every_fault_is_told_of() {
    let source = include_str!("every_fault.txt");
    let lines: Vec<usize> = faults(source).map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 3, 4, 9, 11, 12, 13, 14]);
}

#[test]
fn what_only_looks_like_a_fault_is_none() {
    let source = "\
//! The queue of requests.
/// `cudaMemcpyHostToDevice`.
const HOST_TO_DEVICE: u64 = 1;
/// `add`, `sub`
////// They.
// They.
/// A short
/// comment in lines.
pub const fn patience() {}
let text = \"const PATIENCE\"; // struct Who
const IMPATIENCE: u32 = 3;
struct Whose;
fn who(_: PATIENCE, _: Who) {}
";
    let found: Vec<(usize, String)> = faults(source).collect();
    assert!(found.is_empty(), "{found:?}");
}
