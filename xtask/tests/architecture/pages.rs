//! The pages for maintainers.

use super::package::root;
use std::{fs, path::Path};

/// One of them.
pub(crate) struct MaintainerPage {
    /// Relative to the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Where the pages about the design are.
pub(crate) const DESIGN: &str = "docs/design";
pub(crate) const ARCHITECTURE: &str = "ARCHITECTURE.md";
pub(crate) const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// The map, how to contribute, and every page about the design.
pub(crate) fn all() -> Vec<MaintainerPage> {
    let mut pages = vec![page(ARCHITECTURE), page(CONTRIBUTING)];
    add_below(DESIGN, &mut pages);
    assert!(pages.len() > 20, "there are only {} pages", pages.len());
    pages
}

fn add_below(folder: &str, pages: &mut Vec<MaintainerPage>) {
    for entry in fs::read_dir(root().join(folder)).expect("a folder can be read") {
        let entry = entry.expect("a folder can be read");
        let path = format!("{folder}/{}", entry.file_name().to_str().expect("a name in UTF-8"));
        if entry.path().is_dir() {
            add_below(&path, pages);
        } else if Path::new(&path).extension().is_some_and(|kind| kind == "md") {
            pages.push(page(&path));
        }
    }
}

fn page(path: &str) -> MaintainerPage {
    MaintainerPage {
        path: path.to_owned(),
        text: fs::read_to_string(root().join(path)).expect("a page can be read"),
    }
}
