//! Which top-level module of a crate names something of which other one, in whatever way it writes the path.

use crate::{
    names::{RootNames, imports, top},
    source::Module,
};
use proc_macro2::{TokenStream, TokenTree};
use syn::{ItemUse, Macro, Path, visit::Visit};

/// A path of one module that leads into another one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    /// The top-level module in which it stands.
    pub(crate) from: String,
    /// The one that it names.
    pub(crate) to: String,
    pub(crate) file: String,
    /// As it is written.
    pub(crate) path: String,
}

/// Every use between different top-level modules, each once. The root is one of them, as far as it defines something itself.
pub(crate) fn between_modules(root: &Module) -> Vec<Use> {
    let mut reader = Reader {
        names: RootNames::of(root),
        module: root,
        found: Vec::new(),
    };
    reader.read(root);
    reader.found.sort();
    reader.found.dedup();
    reader.found
}

struct Reader<'a> {
    names: RootNames,
    module: &'a Module,
    found: Vec<Use>,
}

impl<'a> Reader<'a> {
    fn read(&mut self, module: &'a Module) {
        self.module = module;
        for item in &module.items {
            self.visit_item(item);
        }
        for inner in &module.modules {
            self.read(inner);
        }
    }

    fn note(&mut self, path: &[String]) {
        // `pub(crate)` has a path too, which leads nowhere.
        let Some([name, ..]) = self.after_root(path) else {
            return;
        };
        let to = self.names.module(name);
        let from = top(self.module);
        if to != from {
            self.found.push(Use {
                from: from.to_owned(),
                to: to.to_owned(),
                file: self.module.file.clone(),
                path: path.join("::"),
            });
        }
    }

    /// What of a path follows the crate's root; `None` if it does not lead there.
    fn after_root<'p>(&self, path: &'p [String]) -> Option<&'p [String]> {
        let depth = self.module.path.len();
        let first = path.first()?.as_str();
        match first {
            "crate" => Some(&path[1..]),
            "self" if depth == 0 => Some(&path[1..]),
            "super" => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                (up >= depth).then(|| &path[up..])
            }
            // At the root a module's name alone is a path.
            name if depth == 0 && self.module.modules.iter().any(|inner| top(inner) == name) => Some(path),
            _ => None,
        }
    }

    /// Paths in a macro's input, which is no syntax yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.note(&path);
                    path = vec![ident.to_string()];
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.note(&path);
                    path.clear();
                    self.tokens(group.stream());
                }
                _ => {
                    self.note(&path);
                    path.clear();
                    colons = 0;
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        // What the root imports it hands on, and does not use.
        if self.module.path.is_empty() {
            return;
        }
        for import in imports(&item.tree) {
            self.note(&import.path);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&segments);
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, found: &'ast Macro) {
        self.visit_path(&found.path);
        self.tokens(found.tokens.clone());
    }
}

#[test]
fn a_use_is_found_however_its_path_is_written() {
    let found = |inside: &str| -> Vec<String> {
        let text = format!(
            "mod a {{ pub struct InA; pub mod deep {{ pub struct Deep; }} #[macro_export] macro_rules! exported {{ () => {{}} }} }}
             mod b {{ pub struct InB; pub use self::inner::*; mod inner {{ pub struct Inner; }} }}
             mod user {{ {inside} }}
             pub use a::{{InA as Renamed, deep}};
             pub(crate) use crate::b::*;
             pub(crate) struct InRoot;"
        );
        let uses = between_modules(&crate::source::parse(&text));
        uses.iter()
            .filter(|used| used.from == "user")
            .map(|used| used.to.clone())
            .collect()
    };
    let root = crate::names::ROOT;
    for (inside, to) in [
        ("use crate::a::InA;", "a"),
        ("use crate::{b::InB};", "b"),
        ("use crate::Renamed;", "a"),
        ("use crate::deep::Deep;", "a"),
        ("use crate::InB;", "b"),
        ("use crate::Inner;", "b"),
        ("use super::a::InA;", "a"),
        ("use super::InB;", "b"),
        ("mod inner { use super::super::Renamed; }", "a"),
        ("fn f() -> crate::InB { todo!() }", "b"),
        ("fn f() { drop(super::a::InA) }", "a"),
        ("fn f() { println!(\"{:?}\", [crate::b::InB]) }", "b"),
        ("macro_rules! m { () => { $crate::a::InA } }", "a"),
        ("fn f() { crate::exported!() }", "a"),
        ("use crate::InRoot;", root),
        ("use super::*;", root),
    ] {
        assert_eq!(found(inside), [to], "{inside}");
    }
    for inside in [
        "pub(crate) struct Own;",
        "use std::fmt; mod inner { use super::Own; } struct Own;",
        "#[cfg(test)] mod tests { use crate::a::InA; }",
    ] {
        assert!(found(inside).is_empty(), "{inside}");
    }
}
