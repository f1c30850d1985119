//! Which file of a crate imports from which, and what.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::modules::{Id, Import, Tree, attributes, is_for_tests};
use crate::names::{NameLookup, Target};

/// The names that the first file of a pair takes from the second.
pub type Imports = BTreeMap<(String, String), BTreeSet<String>>;

/// All imports between different files of `tree`.
pub fn of(tree: &Tree) -> Imports {
    let names = NameLookup::new(tree);
    let mut imports = Imports::new();
    for id in 0..tree.modules.len() {
        let mut reader = ImportReader {
            tree,
            names: &names,
            id,
            imports: &mut imports,
            firsts: BTreeSet::new(),
        };
        for item in &tree.modules[id].code {
            reader.visit_item(item);
        }
        for import in &tree.modules[id].imports {
            reader.add_use(import);
        }
    }
    imports
}

struct ImportReader<'a> {
    tree: &'a Tree,
    names: &'a NameLookup<'a>,
    id: Id,
    imports: &'a mut Imports,
    /// The first names of all paths.
    firsts: BTreeSet<String>,
}

impl ImportReader<'_> {
    fn add(&mut self, file: &str, name: &str) {
        let own = &self.tree.modules[self.id].file;
        if file != own {
            let names = self.imports.entry((own.clone(), file.to_owned())).or_default();
            names.insert(name.to_owned());
        }
    }

    fn add_path(&mut self, path: &[String]) {
        let Some((first, last)) = path.first().zip(path.last()) else {
            return;
        };
        self.firsts.insert(first.clone());
        // A path to a module alone takes nothing from it.
        if let Target::Item(file) = self.names.resolve(self.id, path) {
            self.add(&file, last);
        }
    }

    fn add_use(&mut self, import: &Import) {
        let own = &self.tree.modules[self.id];
        let target = self.names.resolve(self.id, &import.path);
        let (file, path) = match &target {
            Target::Outside => return,
            Target::Item(file) => {
                let module = self.tree.modules.iter().find(|module| module.file == *file);
                (
                    file.clone(),
                    module.map(|module| module.path.clone()).unwrap_or_default(),
                )
            }
            // The paths that start with the module's name say what is taken from it.
            Target::Module(_)
                if import
                    .name
                    .as_ref()
                    .is_some_and(|name| self.firsts.contains(name)) =>
            {
                return;
            }
            Target::Module(id) => (
                self.tree.modules[*id].file.clone(),
                self.tree.modules[*id].path.clone(),
            ),
        };
        // A module that hands on names of its own children imports nothing.
        if import.is_export && path.starts_with(&own.path) {
            return;
        }
        let name = if import.is_glob {
            "*"
        } else {
            import.path.last().map_or("", String::as_str)
        };
        self.add(&file, name);
    }

    /// The paths in a macro's arguments or body, which are tokens only.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        let mut is_field = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 || path.is_empty() {
                        self.end_path(&mut path, is_field);
                        is_field = false;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.end_path(&mut path, is_field);
                    self.add_tokens(group.stream());
                    is_field = false;
                }
                TokenTree::Punct(punct) => {
                    self.end_path(&mut path, is_field);
                    is_field = punct.as_char() == '.';
                }
                TokenTree::Literal(_) => self.end_path(&mut path, is_field),
            }
            colons = 0;
        }
        self.end_path(&mut path, is_field);
    }

    /// Adds a path found among tokens. A lone name counts if it can only be a type or a constant.
    fn end_path(&mut self, path: &mut Vec<String>, is_field: bool) {
        let path = std::mem::take(path);
        let is_type = path
            .first()
            .is_some_and(|name| name.starts_with(char::is_uppercase));
        if !is_field && (path.len() > 1 || is_type) {
            self.add_path(&path);
        }
    }
}

impl Visit<'_> for ImportReader<'_> {
    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<_> = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            self.add_path(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        visit::visit_macro(self, call);
        if let Some(file) = call
            .path
            .get_ident()
            .and_then(|name| self.tree.macros.get(&name.to_string()))
        {
            let name = call
                .path
                .segments
                .last()
                .map(|segment| format!("{}!", segment.ident));
            self.add(&file.clone(), &name.unwrap_or_default());
        }
        self.add_tokens(call.tokens.clone());
    }

    fn visit_item(&mut self, item: &syn::Item) {
        if !attributes(item).iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, method: &syn::ImplItemFn) {
        if !method.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, method);
        }
    }
}
