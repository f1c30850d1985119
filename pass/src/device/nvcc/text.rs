//! The words of PTX.
use std::iter::Peekable;
use std::str::CharIndices;

/// A word of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A name: `%r1`, `$L__BB0_1`, `add`; of an opcode only what is before the first dot.
    Name(&'a str),
    /// What follows a dot: `.global` without it.
    Dot(&'a str),
    /// A token that is a number.
    Number(&'a str),
    /// A string, without its quotes.
    Text,
    /// Any other character.
    Sign(char),
}

/// The words of a text; none where a string or a comment does not end.
pub fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some(&(at, sign)) = rest.peek() {
        match sign {
            _ if sign.is_whitespace() => {
                rest.next();
            }
            '/' if text[at..].starts_with("//") => skip(&mut rest, |sign| sign != '\n'),
            '/' if text[at..].starts_with("/*") => {
                let end = at + text[at..].find("*/")? + 2;
                while rest.next_if(|&(at, _)| at < end).is_some() {}
            }
            '"' => {
                rest.next();
                loop {
                    match rest.next()?.1 {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                tokens.push(Token::Text);
            }
            '.' => {
                rest.next();
                let word = word(text, &mut rest);
                // These end with their line, and say nothing of what code does.
                if matches!(word, "version" | "address_size" | "file" | "loc") {
                    skip(&mut rest, |sign| sign != '\n');
                } else {
                    tokens.push(Token::Dot(word));
                }
            }
            _ if sign.is_ascii_digit() => tokens.push(Token::Number(word(text, &mut rest))),
            _ if is_of_word(sign) => tokens.push(Token::Name(word(text, &mut rest))),
            _ => {
                rest.next();
                tokens.push(Token::Sign(sign));
            }
        }
    }
    Some(tokens)
}

fn skip(rest: &mut Peekable<CharIndices>, wanted: impl Fn(char) -> bool) {
    while rest.next_if(|&(_, sign)| wanted(sign)).is_some() {}
}

fn is_of_word(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || matches!(sign, '_' | '$' | '%')
}

/// The word that begins here. Two colons are a part of it: `shared::cta`.
fn word<'a>(text: &'a str, rest: &mut Peekable<CharIndices<'a>>) -> &'a str {
    let start = rest.peek().map_or(text.len(), |&(at, _)| at);
    let mut end = start;
    while let Some(&(at, sign)) = rest.peek() {
        if is_of_word(sign) {
            rest.next();
            end = at + sign.len_utf8();
        } else if text[at..].starts_with("::") && at > start {
            rest.next();
            rest.next();
            end = at + 2;
        } else {
            break;
        }
    }
    &text[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let text =
            "// c; d\n@!%p1 st.shared::cta.u32 [$x+4], 0f40; /* a; */ .file 1 \"x;y\"\n.b8 s = \"a\\\"b\";";
        let found = tokens(text).unwrap();
        use Token::{Dot, Name, Number, Sign, Text};
        assert_eq!(
            found,
            [
                Sign('@'),
                Sign('!'),
                Name("%p1"),
                Name("st"),
                Dot("shared::cta"),
                Dot("u32"),
                Sign('['),
                Name("$x"),
                Sign('+'),
                Number("4"),
                Sign(']'),
                Sign(','),
                Number("0f40"),
                Sign(';'),
                Dot("b8"),
                Name("s"),
                Sign('='),
                Text,
                Sign(';'),
            ]
        );
        assert_eq!(tokens("\"open"), None);
        assert_eq!(tokens("/* open"), None);
    }
}
