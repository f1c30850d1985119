//! The module tree of a crate: which file defines which names, and what each module imports.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Attribute, Item, Meta, UseTree, Visibility};

use crate::Sources;

pub type Id = usize;

/// A name that a `use` line brings into a module.
pub struct Import {
    /// The path as written: `use a::b as c` has `["a", "b"]`.
    pub path: Vec<String>,
    /// The name in this module; none for a glob and for `as _`.
    pub name: Option<String>,
    pub is_glob: bool,
    /// `pub use`, with whatever visibility.
    pub is_export: bool,
}

pub struct Module {
    /// Names from the crate's root down.
    pub path: Vec<String>,
    pub file: String,
    pub parent: Option<Id>,
    pub children: BTreeMap<String, Id>,
    /// Names that the module itself defines, macros excepted.
    pub items: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// What is left of the module without its `use` lines and modules.
    pub code: Vec<Item>,
}

/// The modules of one crate; the first is its root.
pub struct Tree {
    pub modules: Vec<Module>,
    /// The file that defines a `macro_rules!` macro, by the macro's name.
    pub macros: BTreeMap<String, String>,
    /// Files that only tests compile.
    tests: BTreeSet<String>,
}

impl Tree {
    /// The trees of a crate: that of its library, and one for each file that no module names (a program).
    pub fn all(sources: &Sources) -> Result<Vec<Self>, String> {
        let mut seen = BTreeSet::new();
        let mut trees = Vec::new();
        let library = ["lib.rs", "main.rs"].iter().map(|root| (*root).to_owned());
        let others = sources.keys().filter(|file| !file.contains('/')).cloned();
        for root in library.chain(others) {
            if !sources.contains_key(&root) || seen.contains(&root) {
                continue;
            }
            // What no module names and is no whole file is included by `include!`.
            if !trees.is_empty() && syn::parse_file(&sources[&root]).is_err() {
                continue;
            }
            let tree = Self::of(sources, &root)?;
            seen.extend(tree.modules.iter().map(|module| module.file.clone()));
            seen.extend(tree.tests.iter().cloned());
            trees.push(tree);
        }
        Ok(trees)
    }

    fn of(sources: &Sources, root: &str) -> Result<Self, String> {
        let mut tree = Self {
            modules: Vec::new(),
            macros: BTreeMap::new(),
            tests: BTreeSet::new(),
        };
        tree.add_file(sources, root, Vec::new(), None)?;
        Ok(tree)
    }

    fn add_file(
        &mut self,
        sources: &Sources,
        file: &str,
        path: Vec<String>,
        parent: Option<Id>,
    ) -> Result<Id, String> {
        let text = &sources[file];
        let parsed = syn::parse_file(text).map_err(|error| format!("cannot parse {file}: {error}"))?;
        self.add(sources, file, path, parent, parsed.items)
    }

    fn add(
        &mut self,
        sources: &Sources,
        file: &str,
        path: Vec<String>,
        parent: Option<Id>,
        items: Vec<Item>,
    ) -> Result<Id, String> {
        let id = self.modules.len();
        self.modules.push(Module {
            path: path.clone(),
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
            code: Vec::new(),
        });
        for item in items {
            let is_test = attributes(&item).iter().any(is_for_tests);
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let inner = [path.clone(), vec![name.clone()]].concat();
                    let child = match module.content {
                        _ if is_test => {
                            let declared = place(sources, &self.modules[id], &name, &module.attrs);
                            self.tests.extend(declared);
                            continue;
                        }
                        Some((_, items)) => self.add(sources, file, inner, Some(id), items)?,
                        None => {
                            let child = place(sources, &self.modules[id], &name, &module.attrs)
                                .ok_or_else(|| format!("{file} declares mod {name}, which has no file"))?;
                            self.add_file(sources, &child, inner, Some(id))?
                        }
                    };
                    self.modules[id].children.insert(name, child);
                }
                _ if is_test => {}
                Item::Use(line) => self.modules[id].imports.extend(names_of(&line)),
                Item::Macro(ref definition) => {
                    if let Some(name) = &definition.ident {
                        self.macros.insert(name.to_string(), file.to_owned());
                    }
                    self.modules[id].code.push(item);
                }
                _ => {
                    let names = defined(&item);
                    let mut inside = Uses(Vec::new());
                    inside.visit_item(&item);
                    self.modules[id].imports.extend(inside.0);
                    self.modules[id].items.extend(names);
                    self.modules[id].code.push(item);
                }
            }
        }
        Ok(id)
    }
}

/// The imports of `use` lines inside functions: they are taken for the module's.
struct Uses(Vec<Import>);

impl Visit<'_> for Uses {
    fn visit_item_use(&mut self, line: &syn::ItemUse) {
        self.0.extend(names_of(line));
    }
}

/// The file of `mod name;` inside `parent`.
fn place(sources: &Sources, parent: &Module, name: &str, attributes: &[Attribute]) -> Option<String> {
    let folder = parent
        .file
        .rsplit_once('/')
        .map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let given = attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(text),
                ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    if let Some(given) = given {
        return Some(format!("{folder}{given}")).filter(|file| sources.contains_key(file));
    }
    let below = parent
        .path
        .iter()
        .map(|part| format!("{part}/"))
        .collect::<String>();
    [format!("{below}{name}.rs"), format!("{below}{name}/mod.rs")]
        .into_iter()
        .find(|file| sources.contains_key(file))
}

/// The imports of one `use` line.
pub fn names_of(line: &syn::ItemUse) -> Vec<Import> {
    let mut imports = Vec::new();
    // `use ::a` names another crate.
    if line.leading_colon.is_none() {
        let is_export = !matches!(line.vis, Visibility::Inherited);
        flatten(&line.tree, &mut Vec::new(), is_export, &mut imports);
    }
    imports
}

/// Whether the attribute is `#[cfg(test)]`, or a `cfg` that needs `test` among others.
pub fn is_for_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return attribute.path().is_ident("test");
    };
    let text = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (text == "test" || text.starts_with("all(test,"))
}

fn flatten(tree: &UseTree, path: &mut Vec<String>, is_export: bool, imports: &mut Vec<Import>) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            flatten(&step.tree, path, is_export, imports);
            path.pop();
        }
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| flatten(tree, path, is_export, imports)),
        UseTree::Glob(_) => imports.push(Import {
            path: path.clone(),
            name: None,
            is_glob: true,
            is_export,
        }),
        UseTree::Name(leaf) => add_leaf(path, &leaf.ident.to_string(), None, is_export, imports),
        UseTree::Rename(leaf) => {
            add_leaf(
                path,
                &leaf.ident.to_string(),
                Some(leaf.rename.to_string()),
                is_export,
                imports,
            );
        }
    }
}

fn add_leaf(path: &[String], leaf: &str, rename: Option<String>, is_export: bool, imports: &mut Vec<Import>) {
    let mut path = path.to_vec();
    if leaf != "self" || path.is_empty() {
        path.push(leaf.to_owned());
    }
    let name = rename.or_else(|| path.last().cloned()).filter(|name| name != "_");
    imports.push(Import {
        path,
        name,
        is_glob: false,
        is_export,
    });
}

fn defined(item: &Item) -> Vec<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::ForeignMod(block) => return block.items.iter().filter_map(foreign).collect(),
        _ => return Vec::new(),
    };
    vec![name.to_string()]
}

fn foreign(item: &syn::ForeignItem) -> Option<String> {
    match item {
        syn::ForeignItem::Fn(item) => Some(item.sig.ident.to_string()),
        syn::ForeignItem::Static(item) => Some(item.ident.to_string()),
        syn::ForeignItem::Type(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
