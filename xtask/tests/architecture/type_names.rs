//! What types may be called.

use crate::source::Module;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Ident, Item, Visibility};

/// Words that end like participles and are nouns, or idioms of Rust: the inner state of a handle, and a sealed trait.
const NOUNS: [&str; 8] = [
    "Binding", "Ending", "Finding", "Meaning", "Naming", "Offering", "Sealed", "Shared",
];
/// Participles that do not end like one.
const IRREGULAR: [&str; 24] = [
    "Begun", "Bound", "Broken", "Built", "Chosen", "Drawn", "Driven", "Found", "Given", "Gone", "Heard", "Held",
    "Hidden", "Kept", "Known", "Left", "Lost", "Made", "Said", "Seen", "Sent", "Shown", "Taken", "Told",
];

/// Private types whose name says only what happened to them, and not what they are.
pub(crate) fn participles(module: &Module) -> Vec<String> {
    let private = types(module).filter(|(_, visibility)| !matches!(visibility, Visibility::Public(_)));
    let mut found: Vec<String> = private
        .filter(|(name, _)| is_participle(&name.to_string()))
        .map(|(name, _)| format!("{}: {name}", module.file))
        .collect();
    found.extend(module.modules.iter().flat_map(participles));
    found
}

/// The names of the public types of a crate.
pub(crate) fn public(module: &Module) -> BTreeSet<String> {
    let found = types(module).filter(|(_, visibility)| matches!(visibility, Visibility::Public(_)));
    let mut found: BTreeSet<String> = found.map(|(name, _)| name.to_string()).collect();
    found.extend(module.modules.iter().flat_map(public));
    found
}

/// The names that more than one crate gives to a public type, with those crates.
pub(crate) fn shared(crates: &[(String, BTreeSet<String>)]) -> BTreeMap<&str, Vec<&str>> {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (owner, names) in crates {
        for name in names {
            owners.entry(name).or_default().push(owner);
        }
    }
    owners.retain(|_, owners| owners.len() > 1);
    owners
}

fn types(module: &Module) -> impl Iterator<Item = (&Ident, &Visibility)> {
    module.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some((&item.ident, &item.vis)),
        Item::Enum(item) => Some((&item.ident, &item.vis)),
        Item::Trait(item) => Some((&item.ident, &item.vis)),
        Item::Type(item) => Some((&item.ident, &item.vis)),
        _ => None,
    })
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(char::is_lowercase);
    let ends = name.ends_with("ed") || name.ends_with("ing");
    is_one_word && (ends || IRREGULAR.contains(&name)) && !NOUNS.contains(&name)
}
