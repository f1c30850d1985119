//! What is wrong with a crate's imports, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use crate::Sources;
use crate::imports::{self, Imports};
use crate::modules::Tree;
use crate::order::ModuleOrder;

/// All faults of the crate `name`.
pub fn faults(name: &str, order: &ModuleOrder, sources: &Sources) -> Vec<String> {
    let trees = match Tree::all(sources) {
        Ok(trees) => trees,
        Err(fault) => return vec![format!("{name}: {fault}")],
    };
    let imports: Imports = trees.iter().flat_map(imports::of).collect();
    let mut faults = Vec::new();
    let circles = circles(&imports);
    let (left, most) = (circles.len(), order.circles.unwrap_or(0));
    if left > most {
        let mut fault =
            format!("{name}: {left} circles of imports between files, layers.toml allows {most}:");
        circles
            .iter()
            .for_each(|circle| describe(circle, &imports, &mut fault));
        faults.push(fault);
    } else if left < most {
        faults.push(format!(
            "{name}: {left} circles of imports are left, layers.toml allows {most}: write {left} there"
        ));
    }
    if let Some(library) = trees.first() {
        faults.extend(out_of_order(name, &[], order, library, &imports));
    }
    faults
}

/// The groups of files that import each other, each sorted.
pub fn circles(imports: &Imports) -> Vec<BTreeSet<&str>> {
    let mut graph = DiGraph::<&str, ()>::new();
    let mut nodes = BTreeMap::new();
    for (from, to) in imports.keys() {
        let from = *nodes.entry(from.as_str()).or_insert_with(|| graph.add_node(from));
        let to = *nodes.entry(to.as_str()).or_insert_with(|| graph.add_node(to));
        graph.add_edge(from, to, ());
    }
    let components = tarjan_scc(&graph)
        .into_iter()
        .filter(|component| component.len() > 1);
    components
        .map(|component| component.into_iter().map(|node| graph[node]).collect())
        .collect()
}

fn describe(circle: &BTreeSet<&str>, imports: &Imports, text: &mut String) {
    let files: Vec<_> = circle.iter().copied().collect();
    let _ = write!(text, "\n  circle of {} files: {}", files.len(), files.join(", "));
    let inside = imports
        .iter()
        .filter(|((from, to), _)| circle.contains(from.as_str()) && circle.contains(to.as_str()));
    for ((from, to), names) in inside {
        let _ = write!(text, "\n    {from} -> {to}: {}", list(names));
    }
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Imports against `order` between the modules inside `path`, and modules that it does not name.
fn out_of_order(
    section: &str,
    path: &[String],
    order: &ModuleOrder,
    tree: &Tree,
    imports: &Imports,
) -> Vec<String> {
    let mut faults = Vec::new();
    let holder = tree.modules.iter().find(|module| module.path == path);
    let present: BTreeSet<&str> = holder
        .iter()
        .flat_map(|module| module.children.keys().map(String::as_str))
        .collect();
    if let Some(layers) = &order.layers {
        let mut named = BTreeSet::new();
        for module in layers.iter().flatten().map(String::as_str) {
            if !named.insert(module) {
                faults.push(format!("[{section}] of layers.toml names {module} twice"));
            }
        }
        for module in present.difference(&named) {
            faults.push(format!(
                "[{section}] of layers.toml does not name the module {module}: put it into its layer"
            ));
        }
        for module in named.difference(&present) {
            faults.push(format!(
                "[{section}] of layers.toml names {module}, which is no module of it: take it out"
            ));
        }
        faults.extend(upward(section, path, order, tree, imports));
    }
    for (name, inner) in &order.inside {
        let section = format!("{section}.{name}");
        if present.contains(name.as_str()) {
            let path = [path, std::slice::from_ref(name)].concat();
            faults.extend(out_of_order(&section, &path, inner, tree, imports));
        } else {
            faults.push(format!(
                "layers.toml has a section [{section}], but there is no such module"
            ));
        }
    }
    faults
}

fn upward(
    section: &str,
    path: &[String],
    order: &ModuleOrder,
    tree: &Tree,
    imports: &Imports,
) -> Vec<String> {
    // A file's module inside `path`; none for the file of `path` itself, which is above all layers.
    let module = |file: &str| -> Option<Option<&str>> {
        let module = tree.modules.iter().find(|module| module.file == file)?;
        let below = module.path.strip_prefix(path)?;
        Some(below.first().map(String::as_str))
    };
    let mut faults = Vec::new();
    for ((from, to), names) in imports {
        let (Some(Some(lower)), Some(upper)) = (module(from), module(to)) else {
            continue;
        };
        if upper == Some(lower) {
            continue;
        }
        let line = format!("{section}: {from} -> {to}: {}", list(names));
        match (order.layer(lower), upper.map(|upper| (upper, order.layer(upper)))) {
            (Some(_), None) => faults.push(format!("{line}\n  {to} is above all layers")),
            (Some(low), Some((upper, Some(high)))) if low == high => {
                faults.push(format!(
                    "{line}\n  {lower} and {upper} are in one layer and may not import each other"
                ));
            }
            (Some(low), Some((upper, Some(high)))) if low < high => {
                faults.push(format!("{line}\n  {upper} is in a layer above {lower}"));
            }
            _ => {}
        }
    }
    faults
}
