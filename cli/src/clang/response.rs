//! Response files: `@file` on the command line stands for the arguments in that file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How deep response files may name others.
const DEEPEST: usize = 16;

/// Replaces every `@file` by what the file holds. One that cannot be read stays as it is: clang names it
/// then.
pub fn expand(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut expanded = Vec::new();
    for argument in arguments {
        expand_one(argument, DEEPEST, &mut expanded);
    }
    expanded
}

fn expand_one(argument: OsString, depth: usize, into: &mut Vec<OsString>) {
    let file = argument.as_bytes().strip_prefix(b"@").filter(|_| depth > 0);
    match file.and_then(|file| fs::read(OsStr::from_bytes(file)).ok()) {
        Some(text) => words(&text)
            .into_iter()
            .for_each(|word| expand_one(word, depth - 1, into)),
        None => into.push(argument),
    }
}

/// Splits as clang does on Unix: white space separates, quotes of both kinds group, a backslash takes the
/// next character as it is, within quotes too.
pub fn words(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (_, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(byte),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (_, None) if byte.is_ascii_whitespace() => words.extend(word.take().map(OsString::from_vec)),
            (_, None) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

/// Writes a response file that `expand` and clang read back as `arguments`.
pub fn quote(arguments: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for argument in arguments {
        text.push(b'"');
        for &byte in argument.as_bytes() {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.extend_from_slice(b"\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: Vec<OsString>) -> Vec<String> {
        words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect()
    }

    #[test]
    fn splits_as_clang_does() {
        let text = b"-DA='a b' \"x \\\" y\"\n\t-o out\\ put '' last";
        assert_eq!(
            strings(words(text)),
            ["-DA=a b", "x \" y", "-o", "out put", "", "last"]
        );
    }

    #[test]
    fn quoted_files_read_back() {
        let arguments: Vec<OsString> = ["-DX=\"a b\"", "back\\slash", "", "plain"]
            .map(OsString::from)
            .into();
        assert_eq!(words(&quote(&arguments)), arguments);
    }

    #[test]
    fn files_nest_and_missing_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let outer = folder.path().join("outer");
        fs::write(&inner, "b c").unwrap();
        fs::write(&outer, format!("a @{} d", inner.display())).unwrap();
        let arguments = [format!("@{}", outer.display()).into(), "@/no/such/file".into()];
        assert_eq!(strings(expand(arguments)), ["a", "b", "c", "d", "@/no/such/file"]);
    }

    #[test]
    fn a_file_that_names_itself_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("loop");
        let name = format!("@{}", file.display());
        fs::write(&file, &name).unwrap();
        assert_eq!(strings(expand([name.clone().into()])), [name]);
    }
}
