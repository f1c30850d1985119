//! Names of types: a name stands for two types at most over all crates, so that a search for it finds what is
//! meant.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

/// Types of one name at most.
const MAX_TYPES: usize = 2;
/// Names of a convention (CONTRIBUTING.md): a command has its arguments, a crate its error and its result.
const CONVENTIONS: [&str; 3] = ["Args", "Error", "Result"];

/// The types of each name, each by its file.
pub type Definitions = BTreeMap<String, Vec<String>>;

/// Adds the types that a source defines: also those in functions, but no associated types, whose names are their
/// trait's.
pub fn add(file: &str, text: &str, definitions: &mut Definitions) {
    // What is no whole file is included by another one.
    let Ok(parsed) = syn::parse_file(text) else { return };
    TypeReader { file, definitions }.visit_file(&parsed);
}

/// The names that too many types have, with their files.
pub fn faults(definitions: &Definitions) -> Vec<String> {
    let shared = definitions
        .iter()
        .filter(|(name, types)| types.len() > MAX_TYPES && !CONVENTIONS.contains(&name.as_str()));
    shared
        .map(|(name, types)| format!("{name} is {} types: {}", types.len(), types.join(", ")))
        .collect()
}

struct TypeReader<'a> {
    file: &'a str,
    definitions: &'a mut Definitions,
}

impl TypeReader<'_> {
    fn define(&mut self, name: &syn::Ident) {
        let types = self.definitions.entry(name.to_string()).or_default();
        types.push(self.file.to_owned());
    }
}

impl Visit<'_> for TypeReader<'_> {
    fn visit_item(&mut self, item: &syn::Item) {
        match item {
            syn::Item::Enum(item) => self.define(&item.ident),
            syn::Item::Struct(item) => self.define(&item.ident),
            syn::Item::Trait(item) => self.define(&item.ident),
            syn::Item::Type(item) => self.define(&item.ident),
            syn::Item::Union(item) => self.define(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

#[test]
fn the_third_type_of_a_name_is_told_of() {
    let mut definitions = Definitions::new();
    add(
        "a.rs",
        "pub struct Node;\nenum Error {}\ntype Kind = u32;",
        &mut definitions,
    );
    add(
        "b.rs",
        "mod inner { trait Node {} enum Error {} }",
        &mut definitions,
    );
    let source = "struct Error; impl Node for Error { type Node = u32; type Kind = u32; }";
    add("c.rs", source, &mut definitions);
    assert!(faults(&definitions).is_empty(), "{definitions:?}");
    add(
        "d.rs",
        "fn body() { union Node { a: u32, b: i32 } }",
        &mut definitions,
    );
    assert_eq!(faults(&definitions), ["Node is 3 types: a.rs, b.rs, d.rs"]);
}
