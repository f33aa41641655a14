//! The source of a crate: its modules as syntax trees, tests left out.

use std::{
    fs,
    path::{Path, PathBuf},
};
use syn::{Attribute, Item, ItemMod};

/// A module and those within it.
pub(crate) struct Module {
    /// From the crate's root, which is the empty path.
    pub(crate) path: Vec<String>,
    /// Where it stands.
    pub(crate) file: String,
    /// What it defines and imports, its modules apart.
    pub(crate) items: Vec<Item>,
    pub(crate) modules: Vec<Module>,
}

/// The crate whose first file is `root`.
pub(crate) fn read(root: &Path) -> Module {
    let folder = root.parent().expect("a source file is in a folder");
    module(Vec::new(), root, folder)
}

/// A crate in one text, its modules inline.
pub(crate) fn parse(text: &str) -> Module {
    let items = syn::parse_file(text).expect("the text is Rust").items;
    divide(Vec::new(), "lib.rs".to_owned(), items, Path::new(""))
}

/// A module that is a file; the files of its own modules are in `folder`.
fn module(path: Vec<String>, file: &Path, folder: &Path) -> Module {
    let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let name = file.to_string_lossy();
    let name = name.split_once("/src/").map_or(&*name, |(_, name)| name).to_owned();
    divide(path, name, parsed.items, folder)
}

/// Parts what a module defines from the modules in it.
fn divide(path: Vec<String>, file: String, all: Vec<Item>, folder: &Path) -> Module {
    let mut items = Vec::new();
    let mut modules = Vec::new();
    for item in all.into_iter().filter(|item| !is_test(attributes(item))) {
        match item {
            Item::Mod(inner) => modules.push(inner_module(&path, &file, inner, folder)),
            item => items.push(item),
        }
    }
    Module {
        path,
        file,
        items,
        modules,
    }
}

fn inner_module(above: &[String], file: &str, inner: ItemMod, folder: &Path) -> Module {
    let name = inner.ident.to_string();
    let mut path = above.to_vec();
    path.push(name.clone());
    let inside = folder.join(&name);
    match inner.content {
        Some((_, items)) => divide(path, file.to_owned(), items, &inside),
        None => module(path, &file_of(folder, &name), &inside),
    }
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    let beside = folder.join(format!("{name}.rs"));
    if beside.is_file() {
        beside
    } else {
        folder.join(name).join("mod.rs")
    }
}

/// Whether an item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            meta => return meta.path().is_ident("test"),
        };
        condition == "test"
            || condition == "doctest"
            || condition.starts_with("all (test")
            || condition.starts_with("all(test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
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
