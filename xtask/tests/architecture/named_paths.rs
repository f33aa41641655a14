//! The files and folders that a page names in backticks.

use super::package::root;
use std::{collections::BTreeSet, fs, path::Path};

/// Those that are not in the tree. A page may leave out the first folders of a path.
pub(crate) fn missing(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).expect("the page can be read");
    let named: BTreeSet<&str> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| is_path(code))
        .collect();
    assert!(named.len() > 100, "the page names only {} paths", named.len());
    let mut tree = Vec::new();
    list(root(), "", &mut tree);
    named
        .into_iter()
        .filter(|name| {
            let end = format!("/{}", name.trim_end_matches('/'));
            !tree.iter().any(|path| path.ends_with(&end))
        })
        .map(str::to_owned)
        .collect()
}

fn is_path(code: &str) -> bool {
    let known = ["crates/", "interop/", "xtask/"]
        .iter()
        .any(|first| code.starts_with(first));
    let ends = ["/", ".rs", ".toml", ".md"].iter().any(|end| code.ends_with(end));
    (known || ends) && !code.contains(char::is_whitespace)
}

/// Adds the paths below `folder`, each with a `/` before it.
fn list(folder: &Path, above: &str, tree: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let entry = entry.expect("a folder can be read");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let path = format!("{above}/{name}");
        if entry.file_type().expect("a file has a type").is_dir() {
            list(&entry.path(), &path, tree);
        }
        tree.push(path);
    }
}
