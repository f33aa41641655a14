//! The pages of the site that are files of this repository.

use super::{Page, SiteError, links};
use harness::workspace;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The page that the site begins with.
pub(super) const FIRST: &str = "README.md";
/// Other pages of the repository's first folder, and where they are in the site.
pub(super) const OF_ROOT: [(&str, &str); 2] = [
    ("ARCHITECTURE.md", "architecture.md"),
    ("CONTRIBUTING.md", "contributing.md"),
];
/// The folder of the decisions in `docs`. Its index names them all.
pub(super) const DECISIONS: &str = "design/decisions";
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// A file, and the page that it is in the site.
struct Source {
    path: PathBuf,
    page: Page,
}

/// The pages of these files of `docs`, and of the repository's first folder. Links to what is no page lead to the repository.
pub(super) fn pages(docs: &[String]) -> Result<Vec<Page>, SiteError> {
    let mut sources = vec![source(FIRST, FIRST)?];
    for name in docs {
        sources.push(source(&format!("docs/{name}"), name)?);
    }
    for (path, in_site) in OF_ROOT {
        sources.push(source(path, in_site)?);
    }
    let pages = sources.iter().map(|source| Page {
        path: source.page.path.clone(),
        text: with_links_of_the_site(&sources, source),
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

fn source(path: &str, in_site: &str) -> Result<Source, SiteError> {
    Ok(Source {
        path: path.into(),
        page: Page {
            path: in_site.to_owned(),
            text: read(Path::new(path))?,
        },
    })
}

/// The text of a page with each link as the site has it.
fn with_links_of_the_site(sources: &[Source], source: &Source) -> String {
    let mut text = source.page.text.clone();
    // From the end, so that the places before stay.
    for (place, target) in links::targets(&source.page.text).into_iter().rev() {
        text.replace_range(place, &target_in_site(sources, source, &target));
    }
    text
}

fn target_in_site(sources: &[Source], from: &Source, target: &str) -> String {
    let (file, anchor) = links::resolve(&from.path, target);
    let fragment = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
    let Some(to) = sources.iter().find(|source| source.path == file) else {
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
    if to.page.path == from.page.path {
        return fragment;
    }
    let up = "../".repeat(from.page.path.matches('/').count());
    format!("{up}{}{fragment}", to.page.path)
}
