//! What ARCHITECTURE.md promises: which crate uses which, and modules without import cycles. Also that the pages for maintainers are short, and name only files
//! that exist.

mod crate_table;
mod cycle;
mod limits;
mod named_paths;
mod names;
mod package;
mod page_limits;
mod pages;
mod published;
mod source;
mod texts;
mod type_names;
mod uses;

use package::Package;
use source::Module;
use std::{collections::BTreeSet, fmt::Write as _};

#[test]
fn crates_use_what_the_table_says_and_no_others() {
    let table = crate_table::read(&package::root().join(pages::ARCHITECTURE));
    let packages = package::all();
    let known: BTreeSet<&str> = packages.iter().map(|package| package.folder.as_str()).collect();
    let mut wrong = String::new();
    for row in &table {
        if !known.contains(row.folder.as_str()) {
            let _ = writeln!(wrong, "`{}` has a row and is no crate", row.folder);
        }
    }
    for package in &packages {
        match table.iter().position(|row| row.folder == package.folder) {
            Some(row) => wrong.push_str(&crate_table::compare(&table[row], &table[..row], &package.uses)),
            None => {
                let _ = writeln!(wrong, "`{}` has no row", package.folder);
            }
        }
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md, \"What lives where\":\n{wrong}");
}

#[test]
fn published_crates_say_what_they_are() {
    let flaws: Vec<String> = package::all().iter().flat_map(published::flaws).collect();
    assert!(flaws.is_empty(), "manifests of published crates:\n{}", flaws.join("\n"));
}

#[test]
fn every_path_in_backticks_exists() {
    let missing = named_paths::missing(&pages::all());
    assert!(missing.is_empty(), "pages name what is not there: {missing:#?}");
}

#[test]
fn pages_for_maintainers_are_short() {
    let flaws: Vec<String> = pages::all().iter().flat_map(page_limits::flaws).collect();
    assert!(flaws.is_empty(), "too long:\n{}", flaws.join("\n"));
}

/// Crates that people link. Their types are named for their users, who do not see what the others call theirs.
const LINKED: [&str; 4] = ["longhaul", "longhaul-client", "longhaul-ledger", "longhaul-rmcp"];

#[test]
fn no_two_inner_crates_give_a_public_type_one_name() {
    let inner = package::all()
        .into_iter()
        .filter(|package| !LINKED.contains(&&*package.name));
    let crates: Vec<_> = inner
        .map(|Package { name, roots, .. }| {
            let names = roots.iter().flat_map(|root| type_names::public(&source::read(root)));
            (name, names.collect())
        })
        .collect();
    let shared = type_names::shared(&crates);
    assert!(shared.is_empty(), "which of them is meant? {shared:#?}");
}

#[test]
fn no_private_type_is_named_by_a_participle_alone() {
    let mut found = Vec::new();
    for Package { name, roots, .. } in package::all() {
        for root in roots {
            let participles = type_names::participles(&source::read(&root));
            found.extend(participles.into_iter().map(|place| format!("{name}, {place}")));
        }
    }
    assert!(found.is_empty(), "what is it? {found:#?}");
}

/// Whoever else reads it would have to guard against everything that anybody may write there.
#[test]
fn the_schema_of_a_form_is_read_in_one_module() {
    let mut found = BTreeSet::new();
    for Package { folder, roots, .. } in package::all() {
        // The programs of others that tests run are no product.
        if folder.starts_with("crates/") {
            let files = roots
                .iter()
                .flat_map(|root| texts::files_with("requestedSchema", &source::read(root)));
            found.extend(files.map(|file| format!("{folder}/src/{file}")));
        }
    }
    let is_of_form = |file: &String| file.starts_with("crates/wire/src/input/form/");
    assert!(
        !found.is_empty() && found.iter().all(is_of_form),
        "use `longhaul_wire::Form`: {found:#?}"
    );
}

#[test]
fn modules_of_a_crate_do_not_import_each_other_in_a_cycle() {
    let mut found = String::new();
    for Package { name, roots, .. } in package::all() {
        for root in roots {
            let root = source::read(&root);
            found.push_str(&cycles(&name, &root, &root));
        }
    }
    assert!(found.is_empty(), "modules that import each other:\n{found}");
}

#[test]
fn folders_functions_traits_and_files_are_small() {
    let mut found = limits::Excess::new();
    for Package {
        name, folder, roots, ..
    } in package::all()
    {
        for root in roots {
            limits::add_of_crate(&name, &source::read(&root), &mut found);
        }
        let sources = package::root().join(folder).join("src");
        if sources.is_dir() {
            limits::add_of_files(package::root(), &sources, &mut found);
        }
    }
    let flaws = limits::compare(&found, &limits::read(include_str!("too_large.txt")));
    assert!(
        flaws.is_empty(),
        "too large, or not any more (too_large.txt):\n{}",
        flaws.join("\n")
    );
}

/// Folders whose files may form a cycle. `ProtocolServer` owns the state of the HTTP endpoints, and their handlers are passed the `ProtocolServer`.
const MUTUAL: [(&str, &str); 1] = [("longhaul-server", "transport")];

#[test]
fn files_of_a_folder_do_not_import_each_other_in_a_cycle() {
    let mut found = String::new();
    for Package { name, roots, .. } in package::all() {
        for root in roots {
            let root = source::read(&root);
            for folder in &root.modules {
                found.push_str(&cycles_below(&name, &root, folder));
            }
        }
    }
    assert!(found.is_empty(), "files of a folder that import each other:\n{found}");
}

/// Folders of a crate that do not know each other. What two of them need is in another one.
const APART: (&str, [&str; 3]) = ("longhaul-cli", ["serve", "call", "operate"]);

#[test]
fn what_serves_what_calls_and_what_operates_do_not_import_each_other() {
    let (name, apart) = APART;
    let packages = package::all();
    let package = packages.iter().find(|package| package.name == name);
    let mut found = String::new();
    for root in &package.expect("the package of the command").roots {
        let root = source::read(root);
        for used in uses::between_children(&root, &root) {
            if [&used.from, &used.to]
                .into_iter()
                .all(|folder| apart.contains(&folder.as_str()))
            {
                let _ = writeln!(found, "{} -> {}: {}", used.file, used.to, used.path);
            }
        }
    }
    assert!(found.is_empty(), "folders that import each other:\n{found}");
}

/// The import cycles among the children of a folder and of the folders in it, for people; empty if there are none.
fn cycles_below(name: &str, root: &Module, folder: &Module) -> String {
    let mut text = match MUTUAL.contains(&(name, &folder.path.join("::"))) {
        true => String::new(),
        false => cycles(name, root, folder),
    };
    for inner in &folder.modules {
        text.push_str(&cycles_below(name, root, inner));
    }
    text
}

/// The import cycles among the children of a module, for people; empty if there are none.
fn cycles(name: &str, root: &Module, folder: &Module) -> String {
    let uses = uses::between_children(root, folder);
    let mut text = String::new();
    for cycle in cycle::find(&uses) {
        let modules = Vec::from_iter(cycle.iter().map(String::as_str)).join(", ");
        let _ = writeln!(text, "{name} {}: {modules}", folder.path.join("::"));
        for used in uses
            .iter()
            .filter(|used| cycle.contains(&used.from) && cycle.contains(&used.to))
        {
            let _ = writeln!(text, "  {} -> {}: {}", used.file, used.to, used.path);
        }
    }
    text
}
