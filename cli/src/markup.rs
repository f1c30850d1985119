//! Elements of pages and drawings: HTML and SVG as a tree that escapes what it holds and closes what it
//! opens. They are read by browsers and, in tests, by an XML parser, so they are written as both take it.

use std::fmt::{self, Display, Formatter, Write};

/// One element, with its attributes and content.
#[derive(Debug)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    content: Vec<Content>,
}

#[derive(Debug)]
enum Content {
    Element(Element),
    Text(String),
}

/// Elements that never hold anything. Browsers take `<td/>` for an opening tag, so others are closed at
/// length.
const EMPTY: [&str; 6] = ["meta", "line", "path", "rect", "br", "col"];

impl Element {
    /// An empty one.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            attributes: Vec::new(),
            content: Vec::new(),
        }
    }

    /// With an attribute.
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// With a class.
    pub fn class(self, value: impl Display) -> Self {
        self.with("class", value)
    }

    /// With text at its end.
    pub fn text(mut self, text: impl Display) -> Self {
        self.content.push(Content::Text(text.to_string()));
        self
    }

    /// With an element at its end.
    pub fn child(mut self, child: Element) -> Self {
        self.content.push(Content::Element(child));
        self
    }

    /// With elements at its end.
    pub fn children(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.content.extend(children.into_iter().map(Content::Element));
        self
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"")?;
            escape(f, value)?;
            f.write_char('"')?;
        }
        if EMPTY.contains(&self.name) {
            return f.write_str("/>\n");
        }
        f.write_char('>')?;
        for content in &self.content {
            match content {
                Content::Element(element) => element.fmt(f)?,
                Content::Text(text) => escape(f, text)?,
            }
        }
        writeln!(f, "</{}>", self.name)
    }
}

fn escape(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    for character in text.chars() {
        match character {
            '&' => f.write_str("&amp;")?,
            '<' => f.write_str("&lt;")?,
            // Graphviz counts both in its labels.
            '>' => f.write_str("&gt;")?,
            '"' => f.write_str("&quot;")?,
            // No page may hold these; a command line can.
            '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
            control if control.is_control() && control != '\n' => f.write_char('\u{fffd}')?,
            other => f.write_char(other)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let element = Element::new("p")
            .with("title", "a \"b\" & c")
            .text("1 < 2\u{7}\u{ffff}")
            .child(Element::new("td"))
            .child(Element::new("rect").with("x", 1));
        assert_eq!(
            element.to_string(),
            "<p title=\"a &quot;b&quot; &amp; c\">1 &lt; 2\u{fffd}\u{fffd}<td></td>\n<rect x=\"1\"/>\n</p>\n"
        );
    }
}
