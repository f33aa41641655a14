//! The commands and configurations in the documents are those that the program takes.

use crate::{
    args::Cli,
    config::{self, Environment},
};
use clap::Parser as _;
use std::{fs, path::PathBuf};
use toml::{Table, Value};

/// Sections of files of other programs, and of `servers.toml`.
const OTHER_FILES: [&str; 2] = ["mcp_servers", "servers"];

/// A block of code in a page.
struct Block {
    page: String,
    language: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let docs = fs::read_dir(root.join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let pages = docs.filter(is_page).chain([root.join("README.md")]);
    let blocks = pages.flat_map(|page| {
        let text = fs::read_to_string(&page).unwrap();
        let parts: Vec<&str> = text.split("\n```").collect();
        let blocks = parts.iter().skip(1).step_by(2).map(|block| {
            let (language, text) = block.split_once('\n').unwrap();
            Block {
                page: page.file_name().unwrap().to_string_lossy().into_owned(),
                language: language.to_owned(),
                text: text.to_owned(),
            }
        });
        blocks.collect::<Vec<_>>()
    });
    blocks.collect()
}

/// The words of a command line of ours, up to a pipe or a comment. A synopsis is none.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let is_synopsis = line.contains(['[', ';']) || line.contains("...") || line.contains('…');
    let line = line.strip_prefix("longhaul ").filter(|_| !is_synopsis)?;
    let words = shlex::split(line)?;
    let ours = words
        .into_iter()
        .take_while(|word| !["|", "<", ">", "&&"].contains(&word.as_str()));
    Some(ours.collect())
}

#[test]
fn each_command_in_the_documents_is_one() {
    let mut seen = 0;
    for block in blocks()
        .iter()
        .filter(|block| ["sh", "text", "console"].contains(&&*block.language))
    {
        // A synopsis has its explanations beside it.
        let lines = block
            .text
            .lines()
            .filter(|line| block.language != "text" || !line.contains("    "));
        for (line, words) in lines.filter_map(|line| Some((line, words(line)?))) {
            seen += 1;
            let parsed = Cli::try_parse_from(["longhaul".to_owned()].into_iter().chain(words));
            assert!(parsed.is_ok(), "{}: {line}\n{}", block.page, parsed.unwrap_err());
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn each_configuration_in_the_documents_is_accepted() {
    let environment = Environment {
        home: Some("/home/me".into()),
        state_home: None,
        cores: 2,
        path: None,
        now: longhaul_core::UnixMillis(1_800_000_000_000),
        variable: |name| (!name.starts_with("LONGHAUL_")).then(|| "x".to_owned()),
        needs_variables: true,
    };
    let mut seen = 0;
    for block in blocks().iter().filter(|block| block.language == "toml") {
        let mut written: Table = toml::from_str(&block.text).unwrap();
        if OTHER_FILES.iter().any(|section| written.contains_key(*section)) {
            continue;
        }
        seen += 1;
        // A page shows what it is about.
        if written.values().all(|value| !value.is_table() && !value.is_array()) {
            written = Table::from_iter([("server".to_owned(), Value::Table(written))]);
        }
        let server = written.entry("server").or_insert_with(|| Table::new().into());
        server
            .as_table_mut()
            .unwrap()
            .entry("name")
            .or_insert_with(|| "x".into());
        if !["tool", "upstream", "resource", "prompt"]
            .iter()
            .any(|section| written.contains_key(*section))
        {
            let tool =
                toml::from_str("[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"/bin/true\"]").unwrap();
            let tool: Table = tool;
            written.extend(tool);
        }
        let text = toml::to_string(&written).unwrap();
        let checked = config::load_generated(&PathBuf::from("jobs.toml"), text, &environment);
        // What it names is not on this machine.
        let is_absent = |message: &str| message.contains("cannot read") || message.contains("there is no folder");
        let problems = checked.map_or_else(|error| error.problems, |_| Vec::new());
        let wrong: Vec<_> = problems
            .iter()
            .map(|problem| &problem.message)
            .filter(|message| !is_absent(message))
            .collect();
        assert!(wrong.is_empty(), "{}:\n{}\n{wrong:?}", block.page, block.text);
    }
    assert!(seen > 12, "{seen}");
}
