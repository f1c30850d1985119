//! A Markdown page: its links, headings, code and terms.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use mgb_tests::prefix::repository;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::paths::Tree;

/// A cell of a table.
#[derive(Debug, Default)]
pub struct TableCell {
    /// Its text, code included.
    pub text: String,
    /// What stands between backticks.
    pub codes: Vec<String>,
}

/// One page of the documentation.
pub struct Page {
    /// From the repository's root.
    pub path: String,
    pub text: String,
}

/// All pages of the repository.
pub fn all() -> Vec<Page> {
    let tree = Tree::walk();
    let pages = tree.files().filter(|path| path.ends_with(".md"));
    pages.map(Page::read).collect()
}

impl Page {
    pub fn read(path: &str) -> Page {
        let text = fs::read_to_string(repository().join(path));
        Page {
            path: path.to_owned(),
            text: text.unwrap_or_else(|error| panic!("{path} cannot be read: {error}")),
        }
    }

    /// Its folder, without a slash at the end; empty for the root.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn events(&self) -> impl Iterator<Item = Event<'_>> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES)
    }

    /// Where its links and pictures lead, those into the network left out.
    pub fn links(&self) -> Vec<String> {
        let targets = self.events().filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.to_string())
            }
            _ => None,
        });
        targets.filter(|target| !target.contains("://")).collect()
    }

    /// What stands between backticks.
    pub fn codes(&self) -> Vec<String> {
        let codes = self.events().filter_map(|event| match event {
            Event::Code(code) => Some(code.to_string()),
            _ => None,
        });
        codes.collect()
    }

    /// Code between backticks, and the lines of code blocks.
    pub fn commands(&self) -> Vec<String> {
        let mut commands = self.codes();
        let mut inside = false;
        for event in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(_)) => inside = true,
                Event::End(TagEnd::CodeBlock) => inside = false,
                Event::Text(text) if inside => commands.extend(text.lines().map(str::to_owned)),
                _ => {}
            }
        }
        commands
    }

    /// What a link to one of its headings has behind the `#`, as GitHub makes it.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        let mut heading: Option<String> = None;
        for event in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|text| anchor(&text))),
                _ => {}
            }
        }
        anchors
    }

    /// The rows of the tables below a heading, up to the next one; without their heads.
    pub fn rows(&self, heading: &str) -> Vec<Vec<TableCell>> {
        let (mut rows, mut inside_head) = (Vec::new(), false);
        for event in self.below(heading) {
            match event {
                Event::Start(Tag::TableHead) => inside_head = true,
                Event::End(TagEnd::TableHead) => inside_head = false,
                Event::Start(Tag::TableRow) => rows.push(Vec::new()),
                _ if inside_head => {}
                Event::Start(Tag::TableCell) => rows.last_mut().expect("a row").push(TableCell::default()),
                Event::Text(text) => {
                    if let Some(cell) = rows.last_mut().and_then(|row| row.last_mut()) {
                        cell.text.push_str(&text);
                    }
                }
                Event::Code(code) => {
                    if let Some(cell) = rows.last_mut().and_then(|row| row.last_mut()) {
                        cell.text.push_str(&code);
                        cell.codes.push(code.to_string());
                    }
                }
                _ => {}
            }
        }
        rows
    }

    /// What is bold below a heading, up to the next one, without what ends a sentence.
    pub fn bold(&self, heading: &str) -> BTreeSet<String> {
        let (mut all, mut bold) = (BTreeSet::new(), false);
        for event in self.below(heading) {
            match event {
                Event::Start(Tag::Strong) => bold = true,
                Event::End(TagEnd::Strong) => bold = false,
                Event::Text(text) if bold => {
                    all.insert(text.trim_end_matches(['.', ',']).to_owned());
                }
                _ => {}
            }
        }
        all
    }

    fn below(&self, heading: &str) -> impl Iterator<Item = Event<'_>> {
        let (mut at_heading, mut is_below) = (false, false);
        self.events().filter(move |event| {
            match event {
                Event::Start(Tag::Heading { .. }) => (at_heading, is_below) = (true, false),
                Event::End(TagEnd::Heading(_)) => at_heading = false,
                Event::Text(text) if at_heading => is_below = **text == *heading,
                _ => return is_below && !at_heading,
            }
            is_below && !at_heading
        })
    }

    /// What its list items define: the bold words before the colon.
    pub fn terms(&self) -> Vec<String> {
        let (mut terms, mut open, mut bold) = (Vec::new(), false, false);
        for event in self.events() {
            match event {
                Event::Start(Tag::Item) => open = true,
                Event::Start(Tag::Strong) => bold = open,
                Event::End(TagEnd::Strong) => bold = false,
                Event::Text(text) | Event::Code(text) if bold => terms.push(text.to_string()),
                Event::Text(text) if text.contains(':') => open = false,
                _ => {}
            }
        }
        terms
    }

    /// Code between backticks, by the folder that the last paragraph with a bold `name/` at its start named.
    pub fn codes_of_crates(&self) -> BTreeMap<String, Vec<String>> {
        let mut of = BTreeMap::<String, Vec<String>>::new();
        let (mut current, mut bold, mut first) = (None, false, false);
        for event in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => current = None,
                Event::Start(Tag::Paragraph) => first = true,
                Event::Start(Tag::Strong) => bold = true,
                Event::End(TagEnd::Strong) => bold = false,
                Event::Text(text) => {
                    if let Some(name) = text.strip_suffix('/').filter(|_| bold && first) {
                        current = Some(name.to_owned());
                        of.entry(name.to_owned()).or_default();
                    }
                    first = false;
                }
                Event::Code(code) => {
                    first = false;
                    if let Some(name) = &current {
                        of.entry(name.clone()).or_default().push(code.to_string());
                    }
                }
                _ => {}
            }
        }
        of
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
