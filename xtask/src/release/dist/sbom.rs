//! The list of the crates in the program, as CycloneDX.

use super::{DistError, VERSION, program, write};
use harness::{process, workspace};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path};

/// Writes `longhaul-VERSION.cdx.json`.
pub(super) fn make(out: &Path) -> Result<(), DistError> {
    let mut tree = workspace::cargo();
    tree.args([
        "tree",
        "--locked",
        "--package",
        "longhaul-cli",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    tree.args(["--format", "{p}|{l}", "--target", &program::target()]);
    let tree = process::read(&mut tree)?;
    let tree = String::from_utf8_lossy(&tree);
    let lines: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let components: Vec<Value> = lines.into_iter().filter_map(component).collect();
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "longhaul", "name": "longhaul", "version": VERSION}},
        "components": components,
    });
    write(
        &out.join(format!("longhaul-{VERSION}.cdx.json")),
        format!("{list:#}\n").as_bytes(),
    )
}

/// A crate, from `name v1.2.3 (where)|license`.
fn component(line: &str) -> Option<Value> {
    let (package, license) = line.split_once('|')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl});
    if !license.is_empty() {
        // Older crates write `MIT/Apache-2.0`, which is no expression of SPDX.
        let expression = license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    Some(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_its_name_version_and_license() {
        let crates = component("alloc v1.2.3 (proc-macro)|MIT/Apache-2.0").unwrap();
        assert_eq!(crates["purl"], "pkg:cargo/alloc@1.2.3");
        assert_eq!(crates["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(component("nothing").is_none());
    }
}
