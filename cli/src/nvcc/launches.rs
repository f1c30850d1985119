//! Braces in launch configurations: nvcc takes `kernel<<<{1, 2}, {32}>>>()`, clang wants `dim3(1, 2)`.
//!
//! clang gets such a source with the word put in, by a file system overlay: under its own name, with its own
//! lines.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mgb_command::exit::{self, CommandResult, WithCode};
use serde_json::json;
use tempfile::TempDir;

use super::inputs::{Input, InputKind};
use super::translate::CompilePlan;
use crate::clang;

/// Sources as clang gets them, while it runs.
pub struct Overlay {
    folder: TempDir,
}

impl Overlay {
    /// Of the CUDA sources that have such launches; none if none has.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn of(inputs: &[Input]) -> Result<Option<Overlay>> {
        let mut files = Vec::new();
        for input in inputs
            .iter()
            .filter(|input| input.kind == InputKind::Source("cuda"))
        {
            // What cannot be read is clang's to name.
            let text = fs::read(&input.name).ok().and_then(|text| with_dim3(&text));
            if let Some(text) = text {
                files.push((std::path::absolute(&input.name)?, text));
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        let folder = tempfile::Builder::new()
            .prefix("mgb-")
            .tempdir()
            .context("failed to make a temporary folder; set TMPDIR to a writable folder")?;
        let mut roots = Vec::new();
        for (number, (name, text)) in files.iter().enumerate() {
            let file = folder.path().join(number.to_string());
            write(&file, text)?;
            roots.push(json!({ "type": "file", "name": name, "external-contents": file }));
        }
        let overlay = json!({
            "version": 0, "case-sensitive": "true", "use-external-names": "false", "roots": roots,
        });
        let made = Overlay { folder };
        write(&made.file(), overlay.to_string().as_bytes())?;
        Ok(Some(made))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("overlay.json")
    }

    /// clang's words for it, before others.
    pub fn before(&self, words: &[String]) -> Vec<String> {
        let option = ["-ivfsoverlay".to_owned(), self.file().display().to_string()];
        option.into_iter().chain(words.iter().cloned()).collect()
    }
}

/// Compiles, links or preprocesses by `mgb clang++`.
pub fn by_clang(plan: &CompilePlan) -> CommandResult {
    let overlay = Overlay::of(&plan.inputs).code(exit::NODE)?;
    let words = match &overlay {
        Some(overlay) => overlay.before(&plan.words),
        None => plan.words.clone(),
    };
    clang::run(words.into_iter().map(OsString::from).collect(), true)
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
}

/// The source with a type before the braces of its launch configurations; none where it has none.
fn with_dim3(text: &[u8]) -> Option<Vec<u8>> {
    let mut changes: Vec<(usize, &[u8])> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(b"<<<") {
            at = configuration(text, at + 3, &mut changes);
        } else {
            at = behind(text, at);
        }
    }
    if changes.is_empty() {
        return None;
    }
    let mut whole = Vec::new();
    let mut from = 0;
    for (place, written) in changes {
        whole.extend_from_slice(&text[from..place]);
        whole.extend_from_slice(written);
        from = place + 1;
    }
    whole.extend_from_slice(&text[from..]);
    Some(whole)
}

/// Notes the braces of one configuration, grid and block, and returns where it ends.
fn configuration<'a>(text: &[u8], start: usize, changes: &mut Vec<(usize, &'a [u8])>) -> usize {
    let mut found: Vec<(usize, &'a [u8])> = Vec::new();
    let (mut at, mut depth, mut argument, mut is_start) = (start, 0usize, 0, true);
    let mut open = None;
    while at < text.len() {
        match text[at] {
            b'>' if depth == 0 && text[at..].starts_with(b">>>") => {
                found.sort_unstable_by_key(|(place, _)| *place);
                changes.extend(found);
                return at + 3;
            }
            // No configuration after all.
            b';' => return at,
            b',' if depth == 0 => (argument, is_start) = (argument + 1, true),
            opening @ (b'(' | b'[' | b'{') => {
                if opening == b'{' && is_start && depth == 0 && argument < 2 {
                    open = Some(at);
                }
                (depth, is_start) = (depth + 1, false);
            }
            closing @ (b')' | b']' | b'}') => {
                let Some(outer) = depth.checked_sub(1) else {
                    return at;
                };
                depth = outer;
                if let Some(brace) = open.take_if(|_| closing == b'}' && depth == 0) {
                    found.extend([(brace, &b"dim3("[..]), (at, &b")"[..])]);
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            b'/' if matches!(text.get(at + 1), Some(b'/' | b'*')) => {}
            _ => is_start = false,
        }
        at = behind(text, at);
    }
    at
}

/// Behind the character at a place, or the comment or literal that begins there.
fn behind(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    let up_to = |end: &[u8]| {
        let found = rest.windows(end.len()).skip(1).position(|part| part == end);
        found.map_or(text.len(), |place| at + 1 + place + end.len())
    };
    match rest {
        [b'/', b'/', ..] => up_to(b"\n"),
        [b'/', b'*', ..] => rest[2..]
            .windows(2)
            .position(|part| part == b"*/")
            .map_or(text.len(), |place| at + 2 + place + 2),
        [b'R', b'"', inner @ ..] => {
            let Some(length) = inner.iter().position(|&byte| byte == b'(') else {
                return at + 1;
            };
            let end = [b")", &inner[..length], b"\""].concat();
            up_to(&end)
        }
        // In a number it separates digits.
        [b'\'', ..] if at > 0 && text[at - 1].is_ascii_alphanumeric() => at + 1,
        [quote @ (b'"' | b'\''), ..] => {
            let mut end = at + 1;
            while end < text.len() && text[end] != *quote && text[end] != b'\n' {
                end += if text[end] == b'\\' { 2 } else { 1 };
            }
            (end + 1).min(text.len())
        }
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changed(text: &str) -> Option<String> {
        with_dim3(text.as_bytes()).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn braces_of_grid_and_block_get_their_type() {
        let cases = [
            ("k<<<{1, 2, 3}, {4}>>>(x);", "k<<<dim3(1, 2, 3), dim3(4)>>>(x);"),
            (
                "k<<<n, {4, 2}, 0, s>>>(f({1}));",
                "k<<<n, dim3(4, 2), 0, s>>>(f({1}));",
            ),
            (
                "k<<< {f(a, b), t[1]} , 32>>>();",
                "k<<< dim3(f(a, b), t[1]) , 32>>>();",
            ),
            (
                "k<T<int>><<<{1}, /* { */ {2}>>>();",
                "k<T<int>><<<dim3(1), /* { */ dim3(2)>>>();",
            ),
            (
                "a<<<{1},\n {2}>>>(); b<<<{3}, 4>>>();",
                "a<<<dim3(1),\n dim3(2)>>>(); b<<<dim3(3), 4>>>();",
            ),
            (
                "k<<<{n / 2 > 1 ? 3u : 4u}, 1>>>();",
                "k<<<dim3(n / 2 > 1 ? 3u : 4u), 1>>>();",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(changed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "k<<<1, 2>>>();",
            "k<<<dim3{1, 2}, f({3})>>>();",
            "k<<<1, 2, 0, {s}>>>();",
            "// k<<<{1}, 2>>>()",
            "const char *a = \"<<<{1}, 2>>>\", *b = R\"x(k<<<{1}, 2>>>)x\";",
            "int a = 1'000; char q = '\"'; /* k<<<{1}, 2>>>(); */",
            "k<<<{1}, 2",
            "<<<{1};",
        ] {
            assert_eq!(changed(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in r#"([<>{}()\[\],;/*'"\\RRx1 \n]|<<<|>>>){0,24}"#) {
            let _ = changed(&text);
        }
    }
}
