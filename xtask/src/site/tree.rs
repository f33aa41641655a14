//! The pages of the site that are files of this repository.

use super::{Page, SiteError, links};
use crate::workspace;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The page that the site begins with.
pub(super) const FIRST: &str = "README.md";
/// The page that is divided at its headings.
pub(super) const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// The folder of the decisions in `docs`. Its index names them all.
pub(super) const DECISIONS: &str = "design/decisions";
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// A file, and where it is in the site: one page, or one for each of its parts.
struct Source {
    path: PathBuf,
    pages: Vec<Page>,
}

/// The pages of these files of `docs`, of the README and of ARCHITECTURE.md. Links to what is no page lead to the repository.
pub(super) fn pages(docs: &[String]) -> Result<Vec<Page>, SiteError> {
    let mut sources = vec![whole(FIRST, FIRST)?];
    for name in docs {
        sources.push(whole(&format!("docs/{name}"), name)?);
    }
    sources.push(Source {
        path: ARCHITECTURE.into(),
        pages: divide(&read(Path::new(ARCHITECTURE))?),
    });
    let pages = sources
        .iter()
        .flat_map(|source| source.pages.iter().map(|page| (&source.path, page)));
    let pages = pages.map(|(path, page)| Page {
        path: page.path.clone(),
        text: with_links_of_the_site(&sources, path, page),
    });
    Ok(pages.collect())
}

/// The index of the decisions, and the decisions in its order, as paths in `docs`.
pub(super) fn decisions() -> Result<Vec<String>, SiteError> {
    let index = format!("{DECISIONS}/index.md");
    let text = read(&Path::new("docs").join(&index))?;
    let named = links::targets(&text)
        .into_iter()
        .map(|(_, target)| format!("{DECISIONS}/{target}"));
    Ok(std::iter::once(index).chain(named).collect())
}

fn read(path: &Path) -> Result<String, SiteError> {
    let path = workspace::root().join(path);
    fs::read_to_string(&path).map_err(super::at(&path))
}

fn whole(path: &str, in_site: &str) -> Result<Source, SiteError> {
    let page = Page {
        path: in_site.to_owned(),
        text: read(Path::new(path))?,
    };
    Ok(Source {
        path: path.into(),
        pages: vec![page],
    })
}

/// Each section is a page, and so is what stands before the first.
fn divide(text: &str) -> Vec<Page> {
    let mut pages = vec![Page {
        path: "architecture/index.md".to_owned(),
        text: String::new(),
    }];
    for line in text.split_inclusive('\n') {
        if let Some(heading) = line.strip_prefix("## ") {
            pages.push(Page {
                path: format!("architecture/{}.md", links::anchor(heading.trim())),
                text: String::new(),
            });
        }
        if let Some(page) = pages.last_mut() {
            // Headings rise by one with their section.
            let is_inside = page.path != "architecture/index.md" && line.starts_with("##");
            page.text.push_str(if is_inside { &line[1..] } else { line });
        }
    }
    pages
}

/// The text of a page with each link as the site has it.
fn with_links_of_the_site(sources: &[Source], path: &Path, page: &Page) -> String {
    let mut text = page.text.clone();
    // From the end, so that the places before stay.
    for (place, target) in links::targets(&page.text).into_iter().rev() {
        text.replace_range(place, &target_in_site(sources, path, page, &target));
    }
    text
}

fn target_in_site(sources: &[Source], path: &Path, page: &Page, target: &str) -> String {
    let (file, anchor) = links::resolve(path, target);
    let fragment = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
    let Some(source) = sources.iter().find(|source| source.path == file) else {
        let kind = if workspace::root().join(&file).is_dir() {
            "tree"
        } else {
            "blob"
        };
        return format!(
            "{REPOSITORY}/{kind}/v{}/{}{fragment}",
            env!("CARGO_PKG_VERSION"),
            file.display()
        );
    };
    let has = |page: &&Page| anchor.is_none_or(|anchor| links::anchors(&page.text).contains(anchor));
    let to = source.pages.iter().find(has).or(source.pages.first());
    let to = to.map_or("", |to| to.path.as_str());
    if to == page.path {
        return fragment;
    }
    let up = "../".repeat(page.path.matches('/').count());
    format!("{up}{to}{fragment}")
}
