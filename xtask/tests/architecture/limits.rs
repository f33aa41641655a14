//! How large a folder, a function, a trait and a file may be.

use crate::source::Module;
use proc_macro2::Span;
use std::{collections::BTreeMap, fs, path::Path};
use syn::{
    Block, ImplItemFn, ItemFn, ItemTrait, Signature, TraitItem, TraitItemFn,
    spanned::Spanned,
    visit::{self, Visit},
};

const MODULES_OF_A_FOLDER: usize = 15;
const LINES_OF_A_FUNCTION: usize = 100;
const METHODS_OF_A_TRAIT: usize = 15;
const LINES_OF_A_FILE: usize = 600;

/// What is larger than it may be: its place, with what is counted there, and the number.
pub(crate) type Excess = BTreeMap<String, usize>;

/// Adds the folders, functions and traits of a crate that are too large.
pub(crate) fn add_of_crate(crate_name: &str, module: &Module, found: &mut Excess) {
    let path = [crate_name].into_iter().chain(module.path.iter().map(String::as_str));
    let path = Vec::from_iter(path).join("::");
    if module.modules.len() > MODULES_OF_A_FOLDER {
        found.insert(format!("modules of {path}"), module.modules.len());
    }
    let mut visitor = Large { path, found };
    for item in &module.items {
        visitor.visit_item(item);
    }
    for inner in &module.modules {
        add_of_crate(crate_name, inner, found);
    }
}

/// Collects functions and traits that are too large.
struct Large<'a> {
    path: String,
    found: &'a mut Excess,
}

impl Large<'_> {
    fn function(&mut self, signature: &Signature, body: &Block) {
        let lines = lines(signature.span(), body.span());
        if lines > LINES_OF_A_FUNCTION {
            self.found
                .insert(format!("lines of {}::{}", self.path, signature.ident), lines);
        }
    }
}

impl<'ast> Visit<'ast> for Large<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.function(&function.sig, body);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let methods = item
            .items
            .iter()
            .filter(|item| matches!(item, TraitItem::Fn(_)))
            .count();
        if methods > METHODS_OF_A_TRAIT {
            self.found
                .insert(format!("methods of {}::{}", self.path, item.ident), methods);
        }
        visit::visit_item_trait(self, item);
    }
}

fn lines(from: Span, to: Span) -> usize {
    to.end().line + 1 - from.start().line
}

/// Adds the Rust files below a folder that are too long.
pub(crate) fn add_of_files(root: &Path, folder: &Path, found: &mut Excess) {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            add_of_files(root, &path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            let lines = text.lines().count();
            if lines > LINES_OF_A_FILE {
                let path = path.strip_prefix(root).expect("a path of the workspace");
                found.insert(format!("lines of {}", path.display()), lines);
            }
        }
    }
}

/// Reads a list with a line `number what of place` for each excess that is left.
pub(crate) fn read(list: &str) -> Excess {
    let rows = list.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let (number, place) = row.split_once(' ').expect("a number and a place");
        (place.to_owned(), number.parse().expect("a number"))
    })
    .collect()
}

/// What is larger than its line of the list says or has no line, and the lines that nothing needs any more.
pub(crate) fn compare(found: &Excess, listed: &Excess) -> Vec<String> {
    let new = found
        .iter()
        .filter(|(place, number)| listed.get(*place).is_none_or(|most| most < number))
        .map(|(place, number)| format!("{number} {place}"));
    let gone = listed
        .keys()
        .filter(|place| !found.contains_key(*place))
        .map(|place| format!("{place}: delete its line, it is small now"));
    new.chain(gone).collect()
}
