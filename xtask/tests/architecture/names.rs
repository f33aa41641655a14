//! What the names in a module stand for: a child module, what a child defines, or what the module defines itself.

use crate::source::Module;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, ItemMacro, UseTree};

/// A module itself, beside its children.
pub(crate) const ROOT: &str = "(root)";

/// The child behind each name that can follow the path of a module.
pub(crate) struct Names {
    children: BTreeMap<String, String>,
    /// The whole path, from the module, behind each name that it imports from a child.
    paths: BTreeMap<String, Vec<String>>,
}

impl Names {
    pub(crate) fn of(module: &Module) -> Self {
        let depth = module.path.len();
        let mut names = Self {
            children: module.modules.iter().map(|child| same(last(child))).collect(),
            paths: BTreeMap::new(),
        };
        for item in &module.items {
            match item {
                Item::Use(item) => {
                    for import in imports(&item.tree) {
                        names.add(module, &import);
                    }
                }
                item => {
                    names.children.extend(defined(item).map(|name| (name, ROOT.to_owned())));
                }
            }
        }
        if depth == 0 {
            for child in &module.modules {
                exported_macros(child, &mut names.children);
            }
        }
        names
    }

    /// The child that `name` belongs to. What is not known is the module's own.
    pub(crate) fn child(&self, name: &str) -> &str {
        self.children.get(name).map_or(ROOT, String::as_str)
    }

    /// The path with an imported name at its beginning replaced by the path of what was imported.
    pub(crate) fn expand(&self, path: &[String]) -> Vec<String> {
        match path.split_first() {
            Some((first, rest)) => match self.paths.get(first) {
                Some(imported) => [imported, rest].concat(),
                None => path.to_vec(),
            },
            None => Vec::new(),
        }
    }

    /// What a `use` in `module` gives a name to, if it is a child's.
    fn add(&mut self, module: &Module, import: &Import) {
        let depth = module.path.len();
        let path = match import.path.first().map(String::as_str) {
            Some("self") => &import.path[1..],
            Some("crate") => match import.path[1..].strip_prefix(&*module.path) {
                Some(path) => path,
                None => return,
            },
            _ => &import.path[..],
        };
        let Some(child) = path
            .first()
            .and_then(|first| module.modules.iter().find(|child| last(child) == first))
        else {
            return;
        };
        let owner = child.path[depth].clone();
        if import.name == "*" {
            let folder = &path[..path.len() - 1];
            let inside = folder[1..].iter().try_fold(child, |module, name| {
                module.modules.iter().find(|inner| last(inner) == name)
            });
            for name in inside.into_iter().flat_map(public_names) {
                self.paths
                    .insert(name.clone(), [folder, std::slice::from_ref(&name)].concat());
                self.children.insert(name, owner.clone());
            }
        } else {
            self.paths.insert(import.name.clone(), path.to_vec());
            self.children.insert(import.name.clone(), owner);
        }
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

/// What `use module::*` may bring: more than that does no harm, since each name belongs to the same child.
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
            names.insert(ident.to_string(), module.path[0].clone());
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

/// The name of a module; empty for the crate's root.
fn last(module: &Module) -> &str {
    module.path.last().map_or("", String::as_str)
}

fn same(name: &str) -> (String, String) {
    (name.to_owned(), name.to_owned())
}
