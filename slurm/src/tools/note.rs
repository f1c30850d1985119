//! MGB's part of a comment that Slurm keeps: `mgb{…}`, beside which may stand what the site has written.
//! Words and numbers, since Slurm's commands turn quotes, and sacctmgr also capital letters, into others.

const BEGIN: &str = "mgb{";
const END: char = '}';

/// What stands in it.
pub fn read(comment: &str) -> Option<&str> {
    let (_, rest) = comment.split_once(BEGIN)?;
    rest.split_once(END).map(|(own, _)| own)
}

/// The comment with this in it instead.
pub fn replace(comment: &str, own: &str) -> String {
    let others = match comment.split_once(BEGIN) {
        Some((first, rest)) => format!("{first}{}", rest.split_once(END).map_or("", |(_, last)| last)),
        None => comment.to_owned(),
    };
    format!("{} {BEGIN}{own}{END}", others.trim()).trim().to_owned()
}

/// The value of `name=value` among words.
pub fn value<'a>(words: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = words.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.find(|(field, _)| *field == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_site_has_written_stays() {
        let text = replace("project x", "a=1 b=2s");
        assert_eq!(text, "project x mgb{a=1 b=2s}");
        assert_eq!(replace(&format!("{text} y"), "c=3"), "project x  y mgb{c=3}");
        assert_eq!(replace("", "a=1"), "mgb{a=1}");
        assert_eq!(read(&text), Some("a=1 b=2s"));
        assert_eq!(value("a=1 b=2s", "b"), Some("2s"));
        assert_eq!(value("a=1", "c"), None);
        assert!(read("").is_none() && read("mgb{").is_none());
    }
}
