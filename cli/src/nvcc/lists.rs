//! Values that hold several: separated by commas, some of them words of another tool's command line.

/// The values of a list option: commas separate, except within brackets or quotes or after a backslash.
pub fn values(text: &str) -> Vec<String> {
    split(text, false)
}

/// The words for another tool: white space separates them too, since nvcc hands them to a shell.
pub fn words(text: &str) -> Vec<String> {
    split(text, true)
}

fn split(text: &str, spaces: bool) -> Vec<String> {
    let mut items = Vec::new();
    let mut item = String::new();
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                // What a macro's value needs is the tool's to read.
                Some(next) if spaces || next == ',' => item.push(next),
                next => item.extend(std::iter::once('\\').chain(next)),
            },
            _ if quote == Some(character) => {
                quote = None;
                if !spaces {
                    item.push(character);
                }
            }
            '"' | '\'' if quote.is_none() => {
                quote = Some(character);
                if !spaces {
                    item.push(character);
                }
            }
            ',' if quote.is_none() => items.push(std::mem::take(&mut item)),
            _ if spaces && quote.is_none() && character.is_whitespace() => {
                items.push(std::mem::take(&mut item));
            }
            _ => item.push(character),
        }
    }
    items.push(item);
    items.retain(|item| !item.is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_the_host_compiler() {
        assert_eq!(words("-fPIC,-Wall"), ["-fPIC", "-Wall"]);
        assert_eq!(words("-fPIC -Wall"), ["-fPIC", "-Wall"]);
        assert_eq!(words(r"-Wl\,-rpath\,/x"), ["-Wl,-rpath,/x"]);
        assert_eq!(words("\"-Wl,-rpath,/x\" -g"), ["-Wl,-rpath,/x", "-g"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn values_of_lists() {
        assert_eq!(values("a,b"), ["a", "b"]);
        assert_eq!(values("NAME=\"a b\""), ["NAME=\"a b\""]);
        assert_eq!(values(r"X=f(1\,2)"), ["X=f(1,2)"]);
        assert_eq!(values(r#"X=\"a\""#), [r#"X=\"a\""#]);
    }
}
