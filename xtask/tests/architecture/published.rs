//! What the manifests of published crates say to those who find them in a registry.

use super::package::{Package, members, root, text};
use serde_json::Value;
use std::path::Path;

/// The crates that are made for others. All that is stable is in them, and in the command.
const OFFERED: [&str; 5] = [
    "longhaul",
    "longhaul-cli",
    "longhaul-client",
    "longhaul-ledger",
    "longhaul-rmcp",
];
/// The end of the description of all others.
const INNER: &str = "An inner crate of Longhaul.";
/// The file that they all have as their readme, and says the same.
const INNER_README: &str = "../../packaging/inner/README.md";

/// What is wrong with the manifest of a published crate.
pub(crate) fn flaws(package: &Package) -> Vec<String> {
    let manifest = &package.manifest;
    let is_published = manifest["publish"].is_null();
    if !is_published {
        return Vec::new();
    }
    let is_offered = OFFERED.contains(&package.name.as_str());
    let has_inner_description = text(&manifest["description"]).ends_with(INNER);
    let has_inner_readme = manifest["readme"] == INNER_README;
    let readme = Path::new(&package.folder).join(manifest["readme"].as_str().unwrap_or("-"));
    let checks = [
        ("a keyword", is_filled(&manifest["keywords"])),
        ("a category", is_filled(&manifest["categories"])),
        ("a repository", manifest["repository"].is_string()),
        ("a readme that exists", root().join(readme).is_file()),
        (
            "all features at docs.rs",
            manifest["metadata"]["docs"]["rs"]["all-features"] == true,
        ),
        (
            "a description that says whether it is inner",
            has_inner_description != is_offered,
        ),
        ("a readme that says whether it is inner", has_inner_readme != is_offered),
    ];
    let missing = checks.into_iter().filter(|(_, holds)| !holds);
    missing
        .map(|(what, _)| format!("{} lacks {what}", package.name))
        .collect()
}

fn is_filled(list: &Value) -> bool {
    members(list).next().is_some()
}
