//! What a path means inside a crate: a module, or an item and the file that defines it.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::modules::{Id, Import, Tree};

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Module(Id),
    /// The file that defines the item.
    Item(String),
    /// Another crate, a local variable, a primitive type.
    Outside,
}

/// Looks names up, each once.
pub struct NameLookup<'a> {
    tree: &'a Tree,
    /// What a name means in a module; the flag says whether it is the last of its path.
    known: RefCell<HashMap<(Id, String, bool), Target>>,
}

impl<'a> NameLookup<'a> {
    pub fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            known: RefCell::default(),
        }
    }

    /// What `path`, written in module `from`, means.
    pub fn resolve(&self, from: Id, path: &[String]) -> Target {
        let mut module = from;
        for (at, step) in path.iter().enumerate() {
            let target = match step.as_str() {
                "self" => Target::Module(module),
                "super" => self.tree.modules[module]
                    .parent
                    .map_or(Target::Outside, Target::Module),
                "crate" | "$crate" => Target::Module(0),
                _ => self.find(module, step, at + 1 == path.len()),
            };
            match target {
                Target::Module(next) => module = next,
                // A name that a macro defines belongs to the file that was reached by name.
                Target::Outside if at > 0 => return Target::Item(self.tree.modules[module].file.clone()),
                other => return other,
            }
        }
        Target::Module(module)
    }

    fn find(&self, module: Id, name: &str, is_last: bool) -> Target {
        let key = (module, name.to_owned(), is_last);
        if let Some(target) = self.known.borrow().get(&key) {
            return target.clone();
        }
        // A name that leads back to itself through globs means nothing there.
        self.known.borrow_mut().insert(key.clone(), Target::Outside);
        let target = self.search(module, name, is_last);
        self.known.borrow_mut().insert(key, target.clone());
        target
    }

    fn search(&self, id: Id, name: &str, is_last: bool) -> Target {
        let module = &self.tree.modules[id];
        let child = module.children.get(name).copied().map(Target::Module);
        // A function may have the name of its module: the last name of a path is rather the function.
        if let Some(child) = child.clone().filter(|_| !is_last) {
            return child;
        }
        if module.items.contains(name) {
            return Target::Item(module.file.clone());
        }
        let named = module
            .imports
            .iter()
            .find(|import| import.name.as_deref() == Some(name));
        if let Some(import) = named {
            return self.resolve(id, &import.path);
        }
        let globs = module.imports.iter().filter(|import| import.is_glob);
        child
            .or_else(|| {
                globs
                    .filter_map(|glob| self.through(id, glob, name, is_last))
                    .next()
            })
            .unwrap_or(Target::Outside)
    }

    /// What `name` means in the module that `glob` opens; nothing if it has no such name.
    fn through(&self, from: Id, glob: &Import, name: &str, is_last: bool) -> Option<Target> {
        let Target::Module(opened) = self.resolve(from, &glob.path) else {
            return None;
        };
        Some(self.find(opened, name, is_last)).filter(|target| *target != Target::Outside)
    }
}
