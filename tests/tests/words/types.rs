//! Names of types: a name stands for two types at most over all crates, so that a search for it finds what is meant.

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

/// What is wrong with the names: too many types, or a name of `known` that has no longer too many.
pub fn faults(definitions: &Definitions, known: &[&str]) -> Vec<String> {
    let is_shared = |name: &str| definitions.get(name).is_some_and(|types| types.len() > MAX_TYPES);
    let shared = definitions.iter().filter(|(name, _)| {
        is_shared(name) && !CONVENTIONS.contains(&name.as_str()) && !known.contains(&name.as_str())
    });
    let shared = shared.map(|(name, types)| format!("{name} is {} types: {}", types.len(), types.join(", ")));
    let over = known.iter().filter(|name| !is_shared(name));
    let over = over.map(|name| format!("{name} is no longer shared: take it off the list"));
    shared.chain(over).collect()
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
    assert!(faults(&definitions, &[]).is_empty(), "{definitions:?}");
    add(
        "d.rs",
        "fn body() { union Node { a: u32, b: i32 } }",
        &mut definitions,
    );
    assert_eq!(faults(&definitions, &[]), ["Node is 3 types: a.rs, b.rs, d.rs"]);
    assert!(faults(&definitions, &["Node"]).is_empty());
    assert_eq!(
        faults(&definitions, &["Kind", "Node"]),
        ["Kind is no longer shared: take it off the list"]
    );
}
