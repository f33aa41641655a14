//! `cargo xtask size`: the lines of code of each crate, held to a table.

use clap::Parser;
use harness::workspace;
use proc_macro2::Span;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};
use syn::{Attribute, Item, Meta, spanned::Spanned};

const TABLE: &str = "xtask/size.txt";
const HEADING: &str = "\
# The most lines of code that each crate may have: neither blank nor comments; product and tests.
# Examples and the programs that test are product. `cargo xtask size --write` writes today's figures.
# A figure rises only in a commit that says why.
";

/// Arguments of `cargo xtask size`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Write today's figures into the table
    #[arg(long)]
    pub(crate) write: bool,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why the check failed or could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SizeError {
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    #[error("{0}: {1}")]
    Source(PathBuf, syn::Error),
    #[error("{TABLE}, line {0}: a line is `crate product tests`")]
    Table(usize),
    #[error(
        "larger than {TABLE} allows: {}; delete as much elsewhere in the crate, or raise the figure in a commit that says why",
        .0.join(", ")
    )]
    Larger(Vec<String>),
}

/// Lines of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct CodeLines {
    product: usize,
    tests: usize,
}

type CrateSizes = BTreeMap<String, CodeLines>;

/// Counts, prints, and compares with the table.
pub(crate) fn run(args: &Args) -> Result<(), SizeError> {
    let found = measure(workspace::root())?;
    print(&found, args.json);
    let table = workspace::root().join(TABLE);
    if args.write {
        return fs::write(&table, format!("{HEADING}{}", lines(&found))).map_err(|why| SizeError::Io(table, why));
    }
    let allowed = parse(&read(&table)?)?;
    let larger = larger(&found, &allowed);
    if larger.is_empty() {
        Ok(())
    } else {
        Err(SizeError::Larger(larger))
    }
}

fn print(sizes: &CrateSizes, json: bool) {
    if json {
        println!("{}", serde_json::json!({"crates": sizes, "total": total(sizes)}));
    } else {
        let CodeLines { product, tests } = total(sizes);
        println!("{}{:22}{product:8}{tests:8}", lines(sizes), "total");
    }
}

fn total(sizes: &CrateSizes) -> CodeLines {
    sizes.values().fold(CodeLines::default(), |sum, one| CodeLines {
        product: sum.product + one.product,
        tests: sum.tests + one.tests,
    })
}

fn lines(sizes: &CrateSizes) -> String {
    let line = |(name, CodeLines { product, tests }): (&String, &CodeLines)| format!("{name:22}{product:8}{tests:8}\n");
    sizes.iter().map(line).collect()
}

fn parse(table: &str) -> Result<CrateSizes, SizeError> {
    let rows = (1..).zip(table.lines()).filter(|(_, line)| !line.starts_with('#'));
    rows.map(|(number, line)| {
        let row = || {
            let (name, figures) = line.split_once(' ')?;
            let (product, tests) = figures.trim().split_once(' ')?;
            let size = CodeLines {
                product: product.parse().ok()?,
                tests: tests.trim().parse().ok()?,
            };
            Some((name.to_owned(), size))
        };
        row().ok_or(SizeError::Table(number))
    })
    .collect()
}

/// Where a figure is above the table's. A crate that is not in the table may have no line.
fn larger(found: &CrateSizes, allowed: &CrateSizes) -> Vec<String> {
    let mut larger = Vec::new();
    for (name, size) in found {
        let most = allowed.get(name).copied().unwrap_or_default();
        for (what, size, most) in [
            ("product", size.product, most.product),
            ("tests", size.tests, most.tests),
        ] {
            if size > most {
                larger.push(format!("{name}: {size} lines of {what}, {most} allowed"));
            }
        }
    }
    larger
}

/// Counts each folder of `crates`, and the folders beside it.
fn measure(root: &Path) -> Result<CrateSizes, SizeError> {
    let mut sizes = CrateSizes::new();
    for folder in entries(root)?.into_iter().filter(|path| path.is_dir()) {
        let name = name_of(&folder);
        if name == "crates" {
            for folder in entries(&folder)?.into_iter().filter(|path| path.is_dir()) {
                sizes.insert(name_of(&folder), measure_crate(&folder)?);
            }
        } else if name != "target" && !name.starts_with('.') {
            sizes.insert(name, measure_crate(&folder)?);
        }
    }
    sizes.retain(|_, size| *size != CodeLines::default());
    Ok(sizes)
}

fn measure_crate(folder: &Path) -> Result<CodeLines, SizeError> {
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let mut sources = Vec::new();
    let mut tests = BTreeSet::new();
    for file in files {
        let text = read(&file)?;
        let parsed = syn::parse_file(&text).map_err(|why| SizeError::Source(file.clone(), why))?;
        let ranges = test_ranges(&file, &parsed.items, &mut tests);
        sources.push((file, text, ranges));
    }
    let mut size = CodeLines::default();
    for (file, text, ranges) in sources {
        let is_test = file.ancestors().any(|path| tests.contains(path))
            || file
                .strip_prefix(folder)
                .is_ok_and(|path| path.iter().any(|part| part == "tests" || part == "benches"));
        for (number, _) in code(&text) {
            if is_test || ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)) {
                size.tests += 1;
            } else {
                size.product += 1;
            }
        }
    }
    Ok(size)
}

/// The numbered lines of a text that are neither blank nor only a comment.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"))
}

/// The lines of the items that are compiled for tests only. Modules in files of their own are added to `files`: the file, and the folder of its modules.
fn test_ranges(file: &Path, items: &[Item], files: &mut BTreeSet<PathBuf>) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    for item in items {
        match item {
            Item::Mod(module) if is_test(&module.attrs) && module.content.is_none() => {
                let folder = folder_of_modules(file).join(module.ident.to_string());
                files.insert(folder.with_extension("rs"));
                files.insert(folder);
            }
            Item::Mod(module) if is_test(&module.attrs) => ranges.push(range(module.span())),
            Item::Fn(function) if is_test(&function.attrs) => ranges.push(range(function.span())),
            Item::Impl(block) if is_test(&block.attrs) => ranges.push(range(block.span())),
            Item::Use(import) if is_test(&import.attrs) => ranges.push(range(import.span())),
            _ => {}
        }
    }
    ranges
}

fn range(span: Span) -> (usize, usize) {
    (span.start().line, span.end().line)
}

/// Where the files of a file's modules are.
fn folder_of_modules(file: &Path) -> PathBuf {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| file.ends_with(root));
    if is_root {
        file.with_file_name("")
    } else {
        file.with_extension("")
    }
}

/// Whether an item is compiled for tests only: with `test`, or `all(test, …)`, or `any(test, …)`, as the contract of stores is.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,") || condition.starts_with("any(test,")
        }
        meta => meta.path().is_ident("test"),
    })
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), SizeError> {
    for path in entries(folder)? {
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                rust_files(&path, files)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, SizeError> {
    let failed = |why| SizeError::Io(folder.to_owned(), why);
    let entries = fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn read(file: &Path) -> Result<String, SizeError> {
    fs::read_to_string(file).map_err(|why| SizeError::Io(file.to_owned(), why))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_are_no_code() {
        let text = "//! A page.\n\nfn a() {\n    // Why.\n    b();\n}\n";
        assert_eq!(Vec::from_iter(code(text)), [(3, "fn a() {"), (5, "b();"), (6, "}")]);
    }

    #[test]
    fn what_is_compiled_for_tests_only_is_found() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod c {\n}\n#[cfg(all(test, unix))]\nfn d() {}\n#[cfg(unix)]\nfn e() {}\n";
        let items = syn::parse_file(text).expect("Rust").items;
        let mut files = BTreeSet::new();
        let ranges = test_ranges(Path::new("src/x.rs"), &items, &mut files);
        assert_eq!(ranges, [(4, 6), (7, 8)]);
        assert_eq!(files, ["src/x/b", "src/x/b.rs"].map(PathBuf::from).into());
        assert_eq!(folder_of_modules(Path::new("src/x/mod.rs")), Path::new("src/x/"));
    }

    #[test]
    fn only_growth_is_refused() {
        let sizes = |product, tests| CrateSizes::from([("core".to_owned(), CodeLines { product, tests })]);
        let table = parse(&format!("{HEADING}{}", lines(&sizes(10, 5)))).expect("a table");
        assert_eq!(table, sizes(10, 5));
        assert!(larger(&sizes(10, 4), &table).is_empty());
        assert_eq!(larger(&sizes(10, 6), &table), ["core: 6 lines of tests, 5 allowed"]);
        assert_eq!(
            larger(&sizes(1, 0), &CrateSizes::new()),
            ["core: 1 lines of product, 0 allowed"]
        );
        assert!(matches!(parse("# a\ncore 10\n"), Err(SizeError::Table(2))));
    }
}
