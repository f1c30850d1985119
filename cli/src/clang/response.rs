//! Response files: `@file` on the command line stands for the arguments in that file.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How deep response files may name others.
const DEEPEST: usize = 16;

/// Replaces every `@file` by what the file holds. One that cannot be read, or that names itself by way of
/// others, stays as it is: clang names it then.
pub fn expand(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut expanded = Vec::new();
    for argument in arguments {
        expand_one(argument, &mut Vec::new(), &mut expanded);
    }
    expanded
}

/// `open`: the files that the argument stands in, from the outermost on.
fn expand_one(argument: OsString, open: &mut Vec<OsString>, into: &mut Vec<OsString>) {
    let file = argument.as_bytes().strip_prefix(b"@").map(OsStr::from_bytes);
    // Whatever a file names is read as often as it is named: one that names itself twice would never end.
    let file = file.filter(|&file| open.len() < DEEPEST && !open.iter().any(|outer| outer == file));
    match file.and_then(|file| Some((file.to_owned(), fs::read(file).ok()?))) {
        Some((file, text)) => {
            open.push(file);
            for word in words(&text) {
                expand_one(word, open, into);
            }
            open.pop();
        }
        None => into.push(argument),
    }
}

/// Splits as clang does on Unix: white space separates, quotes of both kinds group, a backslash takes the
/// next character as it is, within quotes too, and stays where it is the last one. Empty words are left out.
pub fn words(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    let mut quote = None;
    let text = in_utf8(text);
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.push(bytes.next().unwrap_or(byte)),
            (_, Some(open)) if byte == open => quote = None,
            (b'\'' | b'"', None) => quote = Some(byte),
            (b' ' | b'\t' | b'\r' | b'\n', None) => words.push(std::mem::take(&mut word)),
            _ => word.push(byte),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words.into_iter().map(OsString::from_vec).collect()
}

/// Without the mark of its encoding, if it has one.
fn in_utf8(text: &[u8]) -> Cow<'_, [u8]> {
    let wide = |pair: fn([u8; 2]) -> u16| {
        let units = text[2..].chunks_exact(2).map(|two| pair([two[0], two[1]]));
        let text: Vec<u16> = units.collect();
        Cow::Owned(String::from_utf16_lossy(&text).into_bytes())
    };
    match text {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => Cow::Borrowed(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)),
    }
}

/// Writes a response file that `expand` and clang read back as `arguments`, but for empty ones, which none
/// can hold.
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
    use proptest::collection::vec;
    use proptest::prelude::*;

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
            ["-DA=a b", "x \" y", "-o", "out put", "last"]
        );
        assert_eq!(strings(words(b"''")), [""; 0]);
        assert_eq!(strings(words(b"-v''x \"\" a\\")), ["-vx", "a\\"]);
        assert_eq!(strings(words(b"'open a\\")), ["open a\\"]);
        assert_eq!(strings(words(b"x\x0cy")), ["x\x0cy"]);
        assert_eq!(strings(words(b"\xef\xbb\xbfa b")), ["a", "b"]);
        assert_eq!(strings(words(b"\xff\xfea\0 \0b\0")), ["a", "b"]);
    }

    #[test]
    fn quoted_files_read_back() {
        let arguments: Vec<OsString> = ["-DX=\"a b\"", "back\\slash", "plain"].map(OsString::from).into();
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

    /// clang refuses it: "recursive expansion of".
    #[test]
    fn a_file_that_names_itself_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("loop");
        let name = format!("@{}", file.display());
        fs::write(&file, format!("a {}", format!("{name} ").repeat(20))).unwrap();
        let mut expected = vec!["a".to_owned()];
        expected.resize(21, name.clone());
        assert_eq!(strings(expand([name.into()])), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_words(text in vec(any::<u8>(), 0..200)) {
            for word in words(&text) {
                prop_assert!(!word.is_empty());
            }
        }

        #[test]
        fn any_arguments_read_back(arguments in vec(vec(1u8.., 1..20), 0..10)) {
            let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from_vec).collect();
            prop_assert_eq!(words(&quote(&arguments)), arguments);
        }

        #[test]
        fn any_files_that_name_each_other_end(names in vec(vec(0..3usize, 0..3), 3)) {
            let folder = tempfile::tempdir().unwrap();
            let at = |file: usize| format!("@{}", folder.path().join(file.to_string()).display());
            for (file, others) in names.iter().enumerate() {
                let text: Vec<String> = others.iter().map(|&other| at(other)).collect();
                fs::write(folder.path().join(file.to_string()), text.join(" ")).unwrap();
            }
            expand([at(0).into()]);
        }
    }
}
