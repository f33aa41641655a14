//! What the names at a crate's root stand for: a module, what a module defines, or what the root defines itself.

use crate::source::Module;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, ItemMacro, UseTree};

/// A crate's root, as a module beside the others.
pub(crate) const ROOT: &str = "(root)";

/// The module behind each name that can follow `crate::`.
pub(crate) struct RootNames(BTreeMap<String, String>);

impl RootNames {
    pub(crate) fn of(root: &Module) -> Self {
        let mut names: BTreeMap<String, String> = root.modules.iter().map(|module| same(top(module))).collect();
        for item in &root.items {
            match item {
                Item::Use(item) => {
                    for import in imports(&item.tree) {
                        add(&mut names, root, &import);
                    }
                }
                item => {
                    names.extend(defined(item).map(|name| (name, ROOT.to_owned())));
                }
            }
        }
        for module in &root.modules {
            exported_macros(module, &mut names);
        }
        Self(names)
    }

    /// The module that `name` after `crate::` belongs to. What is not known is the root's.
    pub(crate) fn module(&self, name: &str) -> &str {
        self.0.get(name).map_or(ROOT, String::as_str)
    }
}

/// A path that a `use` names, and the name it gives it; `*` for everything.
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
}

/// The paths of a `use`, one for each name.
pub(crate) fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    collect(tree, &mut Vec::new(), &mut found);
    found
}

fn collect(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            collect(&inner.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, path, found)),
        UseTree::Name(name) => found.push(import(path, &name.ident.to_string(), None)),
        UseTree::Rename(rename) => found.push(import(path, &rename.ident.to_string(), Some(rename.rename.to_string()))),
        UseTree::Glob(_) => found.push(import(path, "*", None)),
    }
}

fn import(path: &[String], last: &str, renamed: Option<String>) -> Import {
    let mut path = path.to_vec();
    // `use a::{self}` names `a`.
    if last != "self" || path.is_empty() {
        path.push(last.to_owned());
    }
    let name = renamed.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
    Import { path, name }
}

/// What a `use` at the root gives a name to, if it is of this crate.
fn add(names: &mut BTreeMap<String, String>, root: &Module, import: &Import) {
    let path = match import.path.first().map(String::as_str) {
        Some("crate" | "self") => &import.path[1..],
        _ => &import.path[..],
    };
    let Some(module) = path
        .first()
        .and_then(|first| root.modules.iter().find(|module| top(module) == first))
    else {
        return;
    };
    let owner = top(module).to_owned();
    if import.name == "*" {
        let inside = path[1..path.len() - 1].iter().try_fold(module, |module, name| {
            module.modules.iter().find(|inner| inner.path.last() == Some(name))
        });
        if let Some(inside) = inside {
            names.extend(public_names(inside).into_iter().map(|name| (name, owner.clone())));
        }
    } else {
        names.insert(import.name.clone(), owner);
    }
}

/// What `use module::*` may bring: more than that does no harm, since each name belongs to the same top module.
fn public_names(module: &Module) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for item in &module.items {
        match item {
            Item::Use(item) => {
                for import in imports(&item.tree) {
                    let child = import.path.iter().rev().nth(1);
                    match module.modules.iter().find(|inner| inner.path.last() == child) {
                        Some(inner) if import.name == "*" => names.extend(public_names(inner)),
                        _ => {
                            names.insert(import.name);
                        }
                    }
                }
            }
            item => names.extend(defined(item)),
        }
    }
    names.extend(module.modules.iter().filter_map(|inner| inner.path.last().cloned()));
    names
}

fn exported_macros(module: &Module, names: &mut BTreeMap<String, String>) {
    for item in &module.items {
        if let Item::Macro(ItemMacro {
            ident: Some(ident),
            attrs,
            ..
        }) = item
            && attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
        {
            names.insert(ident.to_string(), top(module).to_owned());
        }
    }
    for inner in &module.modules {
        exported_macros(inner, names);
    }
}

fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// The module directly under the root in which a module stands.
pub(crate) fn top(module: &Module) -> &str {
    module.path.first().map_or(ROOT, String::as_str)
}

fn same(name: &str) -> (String, String) {
    (name.to_owned(), name.to_owned())
}
