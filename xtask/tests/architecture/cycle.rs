//! Modules that import each other.

use crate::uses::Use;
use std::collections::{BTreeMap, BTreeSet};

/// The largest sets of modules in which each reaches each other one.
pub(crate) fn find(uses: &[Use]) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for used in uses {
        next.entry(&used.from).or_default().insert(&used.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|from| (*from, reach(&next, from))).collect();
    let mut cycles = BTreeSet::new();
    for (module, from_here) in &reached {
        let cycle: BTreeSet<String> = from_here
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)))
            .map(|other| (*other).to_owned())
            .collect();
        if cycle.contains(*module) {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

/// Where one comes to from `start` by at least one step.
fn reach<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = next.get(start).into_iter().flatten().copied().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(next.get(module).into_iter().flatten());
        }
    }
    reached
}

#[test]
fn only_modules_that_reach_each_other_are_a_cycle() {
    let used = |from: &str, to: &str| Use {
        from: from.to_owned(),
        to: to.to_owned(),
        file: String::new(),
        path: String::new(),
    };
    let uses = [used("a", "b"), used("b", "c"), used("c", "b"), used("c", "d")];
    assert_eq!(find(&uses), [BTreeSet::from(["b".to_owned(), "c".to_owned()])]);
}
