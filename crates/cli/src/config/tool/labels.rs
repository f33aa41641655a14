//! The labels of a tool's tasks.

use super::template::{Rules, TemplateUse};
use crate::config::section::Entry;
use longhaul_core::{Label, Labels};

/// Reads names and templates; `None` after a problem.
pub(super) fn read(entry: &Entry<'_>, rules: &Rules<'_>) -> Option<Vec<(String, String)>> {
    let pairs = entry.pairs("a table of names and values, such as { team = \"{team}\", env = \"prod\" }")?;
    let mut is_sound = true;
    if pairs.len() > Labels::MOST {
        entry.report(format!(
            "`labels`: a task has {} labels at most, and these are {}",
            Labels::MOST,
            pairs.len()
        ));
        is_sound = false;
    }
    let mut labels = Vec::new();
    for (name, value) in pairs {
        if !Label::is_name(name) {
            value.report(format!(
                "`labels`: {name:?} is not the name of a label: use 1 to {} of the characters A-Z a-z 0-9 _ - .",
                Label::LONGEST_NAME
            ));
            is_sound = false;
        }
        let Some(text) = value.filled_text() else {
            is_sound = false;
            continue;
        };
        is_sound &= rules.check(&value, text, TemplateUse::Label);
        labels.push((name.to_owned(), text.to_owned()));
    }
    is_sound.then_some(labels)
}
