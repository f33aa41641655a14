//! Which child of a module names something of which other child, in whatever way it writes the path.

use crate::{
    names::{Names, ROOT, imports},
    source::Module,
};
use proc_macro2::{TokenStream, TokenTree};
use syn::{ItemUse, Macro, Path, visit::Visit};

/// A path of one module that leads into another one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    /// The child in which it stands.
    pub(crate) from: String,
    /// The one that it names.
    pub(crate) to: String,
    pub(crate) file: String,
    /// As it is written.
    pub(crate) path: String,
}

/// Every use between different children of a module, each once. The crate's root counts as one of its own children, as far as it defines
/// something itself. Any other folder does not: its `mod.rs` declares what its files share, so it and they are expected to name each other.
pub(crate) fn between_children(root: &Module, folder: &Module) -> Vec<Use> {
    let mut reader = Reader {
        root: Names::of(root),
        folder_names: Names::of(folder),
        folder: &folder.path,
        module: folder,
        found: Vec::new(),
    };
    reader.read(folder);
    if !folder.path.is_empty() {
        reader.found.retain(|used| used.from != ROOT && used.to != ROOT);
    }
    reader.found.sort();
    reader.found.dedup();
    reader.found
}

struct Reader<'a> {
    root: Names,
    folder_names: Names,
    folder: &'a [String],
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
        let Some(inside) = self.after_folder(path) else {
            return;
        };
        let Some(name) = inside.first() else { return };
        let to = self.folder_names.child(name);
        let from = self.module.path.get(self.folder.len()).map_or(ROOT, String::as_str);
        if to != from {
            self.found.push(Use {
                from: from.to_owned(),
                to: to.to_owned(),
                file: self.module.file.clone(),
                path: path.join("::"),
            });
        }
    }

    /// What of a path follows the folder's; `None` if it does not lead there.
    fn after_folder(&self, path: &[String]) -> Option<Vec<String>> {
        let here = &self.module.path;
        let absolute = match path.first()?.as_str() {
            "crate" => self.past_reexports(&path[1..]),
            "self" => [here, &path[1..]].concat(),
            "super" => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                self.past_reexports(&[&here[..here.len().checked_sub(up)?], &path[up..]].concat())
            }
            // In the module that declares it, a module's name alone is a path.
            name if self
                .module
                .modules
                .iter()
                .any(|inner| inner.path.last().is_some_and(|last| last == name)) =>
            {
                [&**here, path].concat()
            }
            _ => return None,
        };
        absolute.strip_prefix(self.folder).map(<[String]>::to_vec)
    }

    /// A path from the crate's root; for a folder below it, past what the root re-exports.
    fn past_reexports(&self, path: &[String]) -> Vec<String> {
        match self.folder {
            [] => path.to_vec(),
            _ => self.root.expand(path),
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
        // What a folder imports from its children it re-exports, and does not use.
        if self.module.path == self.folder {
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
        let root = crate::source::parse(&text);
        let uses = between_children(&root, &root);
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

#[test]
fn a_use_between_files_of_a_folder_is_found_however_its_path_is_written() {
    let found = |inside: &str| -> Vec<String> {
        let text = format!(
            "mod folder {{
                 mod a {{ pub struct InA; pub mod deep {{ pub struct Deep; }} }}
                 mod b {{ pub struct InB; }}
                 mod user {{ {inside} }}
                 pub use a::InA;
                 pub(crate) use self::a::deep::*;
                 pub struct InFolder;
             }}
             mod other {{ pub struct Other; }}
             pub use folder::{{InA as Renamed, InFolder}};"
        );
        let root = crate::source::parse(&text);
        let uses = between_children(&root, &root.modules[0]);
        uses.iter()
            .filter(|used| used.from == "user")
            .map(|used| used.to.clone())
            .collect()
    };
    for (inside, to) in [
        ("use super::a::InA;", "a"),
        ("use super::{b::InB};", "b"),
        ("use super::InA;", "a"),
        ("use super::Deep;", "a"),
        ("use crate::folder::b::InB;", "b"),
        ("use crate::folder::InA;", "a"),
        ("use crate::Renamed;", "a"),
        ("use super::super::Renamed;", "a"),
        ("mod inner { use super::super::b::InB; }", "b"),
        ("fn f() { drop(super::b::InB) }", "b"),
    ] {
        assert_eq!(found(inside), [to], "{inside}");
    }
    for inside in [
        "use super::InFolder;",
        "use crate::InFolder;",
        "use crate::other::Other;",
        "mod inner { pub struct Own; } use self::inner::Own;",
    ] {
        assert!(found(inside).is_empty(), "{inside}");
    }
}
