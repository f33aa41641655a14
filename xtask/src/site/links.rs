//! Headings and links of a page in Markdown.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::{Component, Path, PathBuf},
};

/// What headings can be linked to by, as GitHub and mdBook make it of their text.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|heading| anchor(&heading))),
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.map(|char| if char == ' ' { '-' } else { char })
        .flat_map(char::to_lowercase)
        .collect()
}

/// Where links of a page lead, with the places of that in the text.
pub(super) fn targets(text: &str) -> Vec<(Range<usize>, String)> {
    let links = parser(text)
        .into_offset_iter()
        .filter_map(|(event, range)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some((dest_url, range)),
            _ => None,
        });
    links
        .filter_map(|(target, range)| {
            let start = range.start + text[range].rfind(&*target)?;
            Some((start..start + target.len(), target.into_string()))
        })
        .filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// The file that a link of a page leads to, relative to the same folder as the page, and its anchor.
pub(super) fn resolve<'a>(page: &Path, target: &'a str) -> (PathBuf, Option<&'a str>) {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    if path.is_empty() {
        return (page.to_owned(), anchor);
    }
    let mut resolved = PathBuf::new();
    for component in page.with_file_name(path).components() {
        match component {
            Component::ParentDir if resolved.pop() => {}
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    (resolved, anchor)
}

/// The links of a page that lead nowhere.
pub(super) fn dead(root: &Path, page: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(page)).unwrap_or_default();
    let leads = |target: &str| {
        let (path, anchor) = resolve(page, target);
        let Some(anchor) = anchor.filter(|_| path.extension().is_some_and(|kind| kind == "md")) else {
            return root.join(path).exists();
        };
        fs::read_to_string(root.join(path)).is_ok_and(|text| anchors(&text).contains(anchor))
    };
    let targets = targets(&text).into_iter().map(|(_, target)| target);
    targets
        .filter(|target| !leads(target))
        .map(|target| format!("{}: {target}", page.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_and_to_a_heading() {
        let folder = std::env::temp_dir().join(format!("longhaul-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("docs")).unwrap();
        fs::write(folder.join("README.md"), "# `tools/call` → *acknowledged* task\n").unwrap();
        let page = "[a](../README.md), [b](../README.md#toolscall--acknowledged-task), [c](https://x.example/), `[d](gone)`\n\n\
                    ```text\n[e](gone)\n```\n\n[f](gone.md), [g](../README.md#gone), [h](#gone), [i](..)\n";
        fs::write(folder.join("docs/page.md"), page).unwrap();
        let dead = dead(&folder, Path::new("docs/page.md"));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            dead,
            ["gone.md", "../README.md#gone", "#gone"].map(|target| format!("docs/page.md: {target}"))
        );
    }
}
