//! `cargo xtask site`: the documents as a site, made by mdBook.

mod command_line;
mod http_api;
mod links;
mod tree;

use crate::requirement::{self, RequirementError};
use harness::{
    process::{self, ProcessError},
    workspace,
};
use serde_json::json;
use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The pages of `docs`, in their order.
const GUIDE: [&str; 28] = [
    "install.md",
    "first-task.md",
    "hosts.md",
    "tools.md",
    "tool-runs.md",
    "confirmation.md",
    "secrets.md",
    "artifacts.md",
    "cookbook.md",
    "http-jobs.md",
    "resources.md",
    "schedules.md",
    "calls.md",
    "upstreams.md",
    "upstream-jobs.md",
    "upstream-traffic.md",
    "client.md",
    "client-calls.md",
    "client-tasks.md",
    "client-library.md",
    "durable-tools.md",
    "running-durable-tools.md",
    "service.md",
    "operating.md",
    "troubleshooting.md",
    "nodes.md",
    "node-failures.md",
    "upgrading.md",
];
const REFERENCE: [&str; 6] = [
    "configuration.md",
    "limits.md",
    "monitoring.md",
    "security.md",
    "listening.md",
    "audit.md",
];
const DESIGN: [&str; 29] = [
    "promises.md",
    "threats.md",
    "performance.md",
    "performance-parts.md",
    "scaling.md",
    "glossary.md",
    "design/rules.md",
    "design/server.md",
    "design/streams.md",
    "design/questions.md",
    "design/runtime.md",
    "design/time.md",
    "design/schedules.md",
    "design/store.md",
    "design/sqlite.md",
    "design/plain-calls.md",
    "design/postgresql.md",
    "design/nodes.md",
    "design/node-local-state.md",
    "design/durable-execution.md",
    "design/commands.md",
    "design/backups.md",
    "design/client.md",
    "design/client-journal.md",
    "design/gateway.md",
    "design/auth.md",
    "design/admin.md",
    "design/rmcp.md",
    "design/testing.md",
];
/// The most that a page has, so that it can be read at once.
const MOST_WORDS: usize = 2_500;
const BOOK: &str = r#"[book]
title = "Longhaul"
language = "en"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
playground.runnable = false
fold.enable = true
"#;

/// `cargo xtask site`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program whose commands are described, instead of a development build
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Why there is no site.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SiteError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the description of the API cannot be read: {0}")]
    Api(#[from] serde_json::Error),
    #[error("flaws of pages:\n{}", .0.join("\n"))]
    Flaws(Vec<String>),
}

/// A page of the site.
struct Page {
    /// Where it is in the site.
    path: String,
    text: String,
}

impl Page {
    fn title(&self) -> &str {
        let title = self.text.lines().find_map(|line| line.strip_prefix("# "));
        title.unwrap_or(&self.path)
    }

    /// What is wrong with its length.
    fn flaw(&self) -> Option<String> {
        let words = self.text.split_whitespace().count();
        (words > MOST_WORDS).then(|| format!("{} has {words} words, and may have {MOST_WORDS}", self.path))
    }
}

/// Writes the pages below `target`, and has mdBook make the site of them.
pub(crate) fn run(args: &Args) -> Result<(), SiteError> {
    requirement::mdbook()?;
    let program = workspace::longhaul().or_build(args.program.as_ref())?;
    let stage = workspace::target().join("site-source");
    match fs::remove_dir_all(&stage) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&stage)(error)),
        _ => {}
    }
    let mut pages = tree::pages(&documents()?)?;
    pages.extend(command_line::pages(&program, &stage)?);
    pages.extend(http_api::pages()?);
    let source = stage.join("src");
    for page in &pages {
        write(&source.join(&page.path), &page.text)?;
    }
    let mut flaws: Vec<String> = pages.iter().filter_map(Page::flaw).collect();
    flaws.extend(
        pages
            .iter()
            .flat_map(|page| links::dead(&source, Path::new(&page.path))),
    );
    if !flaws.is_empty() {
        return Err(SiteError::Flaws(flaws));
    }
    write(&source.join("SUMMARY.md"), &summary(&pages))?;
    write(&stage.join("book.toml"), BOOK)?;
    let site = workspace::target().join("site");
    process::run(
        Command::new("mdbook")
            .arg("build")
            .arg(&stage)
            .arg("--dest-dir")
            .arg(&site),
    )?;
    let first = site.join("index.html");
    match args.json {
        true => println!("{}", json!({"site": first, "pages": pages.len()})),
        false => println!("{}: {} pages", first.display(), pages.len()),
    }
    Ok(())
}

/// The pages of `docs`, as paths in it.
fn documents() -> Result<Vec<String>, SiteError> {
    let listed = GUIDE.iter().chain(&REFERENCE).chain(&DESIGN);
    let mut documents: Vec<String> = listed.map(|name| (*name).to_owned()).collect();
    documents.extend(tree::decisions()?);
    Ok(documents)
}

/// The table of contents, which mdBook reads.
fn summary(pages: &[Page]) -> String {
    let mut text = format!("# Summary\n\n[A first task]({})\n", tree::FIRST);
    let entry = |text: &mut String, indent: &str, path: &str| {
        if let Some(page) = pages.iter().find(|page| page.path == path) {
            let _ = writeln!(text, "{indent}- [{}]({path})", page.title());
        }
    };
    let below = |text: &mut String, folder: &str| {
        let first = format!("{folder}/index.md");
        entry(text, "", &first);
        let others = pages
            .iter()
            .filter(|page| page.path.starts_with(folder) && page.path != first);
        for page in others {
            entry(text, "  ", &page.path);
        }
    };
    for (part, own) in [("Guide", &GUIDE[..]), ("Reference", &REFERENCE), ("Design", &DESIGN)] {
        let _ = write!(text, "\n# {part}\n\n");
        if part == "Design" {
            for (_, path) in tree::OF_ROOT {
                entry(&mut text, "", path);
            }
        }
        for path in own {
            entry(&mut text, "", path);
        }
        match part {
            "Reference" => {
                below(&mut text, "command-line");
                entry(&mut text, "", "http-api.md");
                entry(&mut text, "  ", "http-api-tasks.md");
                entry(&mut text, "  ", "http-api-objects.md");
            }
            "Design" => below(&mut text, tree::DECISIONS),
            _ => {}
        }
    }
    text
}

fn write(path: &Path, text: &str) -> Result<(), SiteError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(at(folder))?;
    fs::write(path, text).map_err(at(path))
}

/// For `map_err`: an error with its path.
fn at(path: &Path) -> impl FnOnce(io::Error) -> SiteError {
    let path = path.to_owned();
    |source| SiteError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// For those who work on Longhaul. `cargo xtask coverage` checks it.
    const NO_PAGE: &str = "protocol-coverage.md";

    /// Adds the files below `folder`, as paths below `docs`.
    fn find(docs: &Path, folder: &Path, files: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                find(docs, &path, files);
            } else {
                files.insert(path.strip_prefix(docs).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_document_is_a_page() {
        let docs = workspace::root().join("docs");
        let mut files = BTreeSet::new();
        find(&docs, &docs, &mut files);
        let mut pages = BTreeSet::from_iter(documents().unwrap());
        pages.insert(NO_PAGE.to_owned());
        assert_eq!(files, pages);
    }

    #[test]
    fn pages_are_short() {
        let pages = tree::pages(&documents().unwrap()).unwrap();
        let flaws: Vec<_> = pages
            .iter()
            .chain(&http_api::pages().unwrap())
            .filter_map(Page::flaw)
            .collect();
        assert!(flaws.is_empty(), "{}", flaws.join("\n"));
        let long = Page {
            path: "long.md".to_owned(),
            text: "word ".repeat(MOST_WORDS + 1),
        };
        assert!(long.flaw().is_some());
    }

    #[test]
    fn every_link_leads_somewhere() {
        let mut git = Command::new("git");
        git.current_dir(workspace::root()).args(["ls-files", "*.md"]);
        let files = String::from_utf8(process::read(&mut git).unwrap()).unwrap();
        let dead: Vec<_> = files
            .lines()
            // Links of a page that stands in several folders are of the folder it is written for.
            .filter(|file| !workspace::root().join(file).is_symlink())
            .flat_map(|file| links::dead(workspace::root(), Path::new(file)))
            .collect();
        assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    }
}
