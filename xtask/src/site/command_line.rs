//! The pages of the commands, made of what they say of themselves.

use super::{Page, SiteError};
use harness::process;
use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// A page for the program and one for each command.
pub(super) fn pages(program: &Path, stage: &Path) -> Result<Vec<Page>, SiteError> {
    let mut pages = vec![Page {
        path: "command-line/index.md".to_owned(),
        text: format!("# Command line\n\n{}", help(program, &[])?),
    }];
    for words in commands(program, &stage.join("man"))? {
        pages.push(Page {
            path: format!("command-line/{}.md", words.join("-")),
            text: format!("# `longhaul {}`\n\n{}", words.join(" "), help(program, &words)?),
        });
    }
    Ok(pages)
}

fn help(program: &Path, words: &[String]) -> Result<String, SiteError> {
    let help = process::read(Command::new(program).args(words).arg("--help"))?;
    Ok(format!("```text\n{}```\n", String::from_utf8_lossy(&help)))
}

/// The words of each command, those above before those below. Each has a manual page, `longhaul-admin-tasks.1`.
fn commands(program: &Path, folder: &Path) -> Result<Vec<Vec<String>>, SiteError> {
    fs::create_dir_all(folder).map_err(super::at(folder))?;
    process::run(Command::new(program).arg("man").arg("--dir").arg(folder))?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(super::at(folder))? {
        let name = entry
            .map_err(super::at(folder))?
            .file_name()
            .to_string_lossy()
            .into_owned();
        names.extend(name.strip_suffix(".1").map(str::to_owned));
    }
    Ok(names.iter().filter_map(|name| words(&names, name)).collect())
}

/// A hyphen is between two commands, or in the name of one: the longest name of another command is that of the one above.
fn words(names: &BTreeSet<String>, name: &str) -> Option<Vec<String>> {
    let above = |other: &&String| {
        name.strip_prefix(other.as_str())
            .is_some_and(|rest| rest.starts_with('-'))
    };
    let above = names.iter().filter(above).max_by_key(|other| other.len())?;
    let mut words = words(names, above).unwrap_or_default();
    words.push(name[above.len() + 1..].to_owned());
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_divides_commands_or_is_in_a_name() {
        let names = ["longhaul", "longhaul-nodes", "longhaul-nodes-give-up"].map(str::to_owned);
        let words = |name| words(&BTreeSet::from(names.clone()), name);
        assert_eq!(words("longhaul"), None);
        assert_eq!(words("longhaul-nodes-give-up").unwrap(), ["nodes", "give-up"]);
    }
}
