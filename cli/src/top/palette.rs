//! Colours and marks. Nothing is said by colour alone.

use ratatui::style::{Color, Modifier, Style};

/// What a part of the screen shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The first line, and the heads of columns.
    Head,
    /// Memory that tasks have mapped.
    Resident,
    /// Memory that is reserved and not mapped.
    Reserved,
    /// Memory that is kept for expected growth.
    Headroom,
    /// Contexts, and what else programs under MGB have.
    Overhead,
    /// What programs outside MGB and dead processes have.
    Foreign,
    /// Memory that nobody has, and what matters less.
    Dim,
    /// Requests that wait for room.
    Waits,
    /// What is wrong.
    Bad,
    /// The row that keys are about.
    Selected,
}

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    /// Colours are used.
    pub(super) has_colour: bool,
    /// The terminal shows more than ASCII.
    pub(super) is_unicode: bool,
}

impl Palette {
    /// As the environment wants it: `NO_COLOR` (no-color.org), and the character set of the locale.
    pub(super) fn of_environment() -> Palette {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        let locale = locale.unwrap_or_default().to_lowercase();
        Palette {
            has_colour: set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
            is_unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// The style of a role. The colours are those of Okabe and Ito, which people who see colours differently
    /// tell apart, as the 256 of terminals come nearest to them.
    pub(super) fn style(self, role: Role) -> Style {
        let plain = Style::new();
        let style = match role {
            Role::Head => plain.add_modifier(Modifier::BOLD),
            Role::Selected => return plain.add_modifier(Modifier::REVERSED),
            Role::Bad => plain.add_modifier(Modifier::BOLD),
            _ => plain,
        };
        let colour = match role {
            Role::Head | Role::Selected => return style,
            Role::Resident => 32,
            Role::Reserved => 74,
            Role::Headroom => 36,
            Role::Overhead => 214,
            Role::Foreign => 175,
            Role::Dim => 245,
            Role::Waits => 214,
            Role::Bad => 166,
        };
        if self.has_colour {
            style.fg(Color::Indexed(colour))
        } else {
            style
        }
    }

    /// What a part of a memory bar is drawn with.
    pub(super) fn fill(self, role: Role) -> char {
        let (unicode, ascii) = match role {
            Role::Resident => ('█', '#'),
            Role::Reserved => ('▓', '='),
            Role::Headroom => ('▒', '-'),
            Role::Overhead => ('+', '+'),
            Role::Foreign => ('x', 'x'),
            _ => ('·', '.'),
        };
        if self.is_unicode { unicode } else { ascii }
    }

    /// A column of a small chart, of a value up to 1000.
    pub(super) fn level(self, value: u64) -> char {
        const UNICODE: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', '.', ':', '-', '-', '=', '#', '#'];
        let levels = if self.is_unicode { UNICODE } else { ASCII };
        // What is not nothing shows.
        levels[(value.min(1000) * 8).div_ceil(1000) as usize]
    }

    /// What stands for text that was cut off.
    pub(super) fn ellipsis(self) -> char {
        if self.is_unicode { '…' } else { '~' }
    }
}
