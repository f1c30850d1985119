//! What `mgb cluster prolog` says: Slurm's protocol for a TaskProlog, so that a site without the plugin's
//! rights gets the same by `TaskProlog=`.

/// One line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerLine<'a> {
    /// `export NAME=VALUE`.
    Export(&'a str, &'a str),
    /// `unset NAME`.
    Unset(&'a str),
    /// `print TEXT`.
    Print(&'a str),
}

/// The lines; others are none of the protocol, as Slurm has it, and passed over.
pub fn lines(text: &str) -> impl Iterator<Item = AnswerLine<'_>> {
    text.lines().filter_map(|line| {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "export" => rest
                .split_once('=')
                .filter(|(name, _)| is_name(name))
                .map(|(name, value)| AnswerLine::Export(name, value)),
            "unset" => is_name(rest).then_some(AnswerLine::Unset(rest)),
            "print" => Some(AnswerLine::Print(rest)),
            _ => None,
        }
    })
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|letter: char| letter.is_whitespace() || letter == '=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_kinds_are_read_and_nothing_else() {
        let text =
            "export A=b=c d\nunset B\nprint mgb: no mgbd\nexport =x\nexport C\nunset D E\nother\nexport F=\n";
        let read: Vec<AnswerLine<'_>> = lines(text).collect();
        let wanted = [
            AnswerLine::Export("A", "b=c d"),
            AnswerLine::Unset("B"),
            AnswerLine::Print("mgb: no mgbd"),
            AnswerLine::Export("F", ""),
        ];
        assert_eq!(read, wanted);
    }
}
