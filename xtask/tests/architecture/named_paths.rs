//! The files and folders that pages name in backticks.

use super::{package::root, pages::MaintainerPage};
use std::{collections::BTreeSet, fs, path::Path};

/// Those that are not in the tree, with their pages. A page may leave out the first folders of a path.
pub(crate) fn missing(pages: &[MaintainerPage]) -> BTreeSet<String> {
    let named: BTreeSet<(&str, &str)> = pages
        .iter()
        .flat_map(|page| {
            page.text
                .split('`')
                .skip(1)
                .step_by(2)
                .map(|code| (page.path.as_str(), code))
        })
        .filter(|(_, code)| is_path(code))
        .collect();
    assert!(named.len() > 300, "the pages name only {} paths", named.len());
    let mut tree = Vec::new();
    list(root(), "", &mut tree);
    named
        .into_iter()
        .filter(|(_, name)| {
            let end = format!("/{}", name.trim_end_matches('/'));
            !tree.iter().any(|path| path.ends_with(&end))
        })
        .map(|(page, name)| format!("{page}: {name}"))
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
