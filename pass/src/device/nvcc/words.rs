//! What single operands and declarations of PTX say.

use super::text::Token;

/// The number that an operand is, or that is added to the one name in it: 0 for none. None for floating-point
/// numbers, and for several names.
pub fn number_in(part: &[Token]) -> Option<i64> {
    let names = part.iter().filter_map(name_of).count();
    let mut numbers = part.iter().enumerate().filter_map(|(at, token)| match token {
        Token::Number(text) => Some((at, *text)),
        _ => None,
    });
    let Some((at, text)) = numbers.next() else {
        return (names == 1).then_some(0);
    };
    if names > 1 || numbers.next().is_some() {
        return None;
    }
    let text = text.trim_end_matches('U');
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    let negative = at > 0 && part[at - 1] == Token::Sign('-');
    Some(if negative { -value } else { value })
}

/// The name and the bytes of a parameter that is an array of bytes.
pub fn structure(part: &[Token]) -> Option<(String, u64)> {
    let [
        ..,
        Token::Name(name),
        Token::Sign('['),
        Token::Number(bytes),
        Token::Sign(']'),
    ] = part
    else {
        return None;
    };
    Some(((*name).to_owned(), bytes.parse().ok()?))
}

pub fn name_of<'a>(token: &Token<'a>) -> Option<&'a str> {
    match token {
        Token::Name(name) => Some(name),
        _ => None,
    }
}

/// The names in a list of parameters: the last of each part.
pub fn declared(tokens: &[Token]) -> Vec<String> {
    split(tokens)
        .filter_map(|part| part.iter().rev().find_map(name_of))
        .map(str::to_owned)
        .collect()
}

/// The parts between commas outside of brackets of all kinds.
pub fn split<'t, 'a>(tokens: &'t [Token<'a>]) -> impl Iterator<Item = &'t [Token<'a>]> {
    let mut depth = 0_i32;
    tokens.split(move |token| {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == Token::Sign(',')
    })
}

/// How much a word of a declaration makes of its bytes; none for words that are not known.
pub fn bytes_of_type(word: &str) -> Option<u64> {
    match word {
        "align" | "attribute" | "managed" | "unified" => return Some(1),
        "v2" => return Some(2),
        "v4" => return Some(4),
        "pred" => return Some(1),
        "texref" | "surfref" | "samplerref" => return Some(8),
        _ => {}
    }
    let bits = word.strip_prefix(['b', 'u', 's', 'f'])?.parse::<u64>().ok()?;
    (bits % 8 == 0).then_some(bits / 8)
}
