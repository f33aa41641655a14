//! The `[[resource]]` sections: files, and folders of files.

use super::contained_folder::{ContainedFolder, MAX_LISTED};
use crate::config::{
    display::Display,
    media_type::is_media_type,
    paths::{Environment, read_path},
    section::{Entry, Section},
};
use glob::Pattern;
use longhaul_runtime::UriTemplate;
use std::{collections::HashMap, path::PathBuf};

/// The variable that stands for the path of a file in a folder.
pub(crate) const FOLDER_VARIABLE: &str = "path";
const DEFAULT_MAX_SIZE: u64 = 1 << 20;
/// A response is held in memory.
const MAX_SIZE: u64 = 64 << 20;

/// A file, or a folder of files, that clients may read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResourceConfig {
    pub(crate) name: String,
    /// The URI of the file, or the URI template of the folder's files.
    pub(crate) uri: String,
    pub(crate) display: Display,
    pub(crate) description: Option<String>,
    /// The media type, in place of that of the file's extension.
    pub(crate) mime_type: Option<String>,
    /// The largest file that is sent, in bytes.
    pub(crate) max_size: u64,
    pub(crate) source: ResourceSource,
}

/// What is read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResourceSource {
    File(PathBuf),
    Folder(ContainedFolder),
}

/// Reads one section; `None` after a problem.
pub(super) fn read(section: &Section<'_>, name: Option<String>, environment: &Environment) -> Option<ResourceConfig> {
    let display = Display::read(section, environment);
    let description = section.optional_text("description");
    let mime_type = section.optional("mime_type", |entry| {
        let text = entry.text()?;
        if !is_media_type(text) {
            entry.report(format!(
                "`mime_type`: {text:?} is no media type, such as \"text/markdown\""
            ));
            return None;
        }
        Some(text.to_owned())
    });
    let max_size = section.get_or("max_size", DEFAULT_MAX_SIZE, |entry| {
        let size = entry.size()?;
        if size > MAX_SIZE {
            entry.report(format!("`max_size` must be at most \"{}MiB\"", MAX_SIZE >> 20));
            return None;
        }
        Some(size)
    });
    let source = read_source(section, environment);
    let is_folder = section.get("folder").is_some();
    let uri = section.optional("uri", |entry| read_uri(entry, is_folder));
    section.finish();

    let name = name?;
    let derived = match is_folder {
        true => format!("resource://{name}/{{+{FOLDER_VARIABLE}}}"),
        false => format!("resource://{name}"),
    };
    Some(ResourceConfig {
        uri: uri?.unwrap_or(derived),
        name,
        display: display?,
        description: description?,
        mime_type: mime_type?,
        max_size: max_size?,
        source: source?,
    })
}

fn read_source(section: &Section<'_>, environment: &Environment) -> Option<ResourceSource> {
    let (file, folder) = (section.get("file"), section.get("folder"));
    let include = section.get_or("include", Vec::new(), |entry| {
        if folder.is_none() {
            entry.report("`include` chooses the files of a `folder`: name one, or leave it out".to_owned());
        }
        let patterns = entry.texts()?.into_iter().map(|(entry, text)| {
            let pattern = Pattern::new(text);
            pattern
                .map_err(|error| entry.report(format!("`include`: {text:?}: {}", error.msg)))
                .ok()
        });
        patterns.collect::<Vec<_>>().into_iter().collect()
    });
    match (file, folder) {
        (Some(entry), None) => read_file_path(&entry, environment).map(ResourceSource::File),
        (None, Some(entry)) => read_folder(&entry, include, environment).map(ResourceSource::Folder),
        (Some(_), Some(entry)) => {
            entry.report("`folder` and `file` are both there: leave one of them out, or make two resources".to_owned());
            None
        }
        (None, None) => {
            section.report("a resource needs `file = \"PATH\"` or `folder = \"PATH\"`".to_owned());
            None
        }
    }
}

fn read_file_path(entry: &Entry<'_>, environment: &Environment) -> Option<PathBuf> {
    let path = read_path(entry, environment)?;
    match longhaul_private_dir::open_named(&path).and_then(|file| file.metadata()) {
        Ok(found) if found.is_file() => return Some(path),
        Ok(_) => entry.report(format!(
            "`file`: {} is a folder: write `folder` for its files",
            path.display()
        )),
        Err(error) => entry.report(format!("`file`: cannot read {}: {error}", path.display())),
    }
    None
}

fn read_folder(entry: &Entry<'_>, include: Option<Vec<Pattern>>, environment: &Environment) -> Option<ContainedFolder> {
    let path = read_path(entry, environment)?;
    if !path.is_dir() {
        entry.report(format!("`folder`: there is no folder {}", path.display()));
        return None;
    }
    let folder = ContainedFolder::new(path, include?);
    let shown = folder.path().display();
    match folder.list() {
        Err(error) => {
            entry.report(format!("`folder`: cannot read {shown}: {error}"));
            return None;
        }
        Ok(listing) if listing.has_more => entry.warn(format!(
            "`folder`: {shown} has more files than the {MAX_LISTED} that are listed; the others can be read by who knows their path. Choose fewer with `include`"
        )),
        Ok(listing) if listing.files.is_empty() => entry.warn(format!(
            "`folder`: there is no file in {shown} that would be served: hidden ones are not, nor what `include` leaves out"
        )),
        Ok(_) => {}
    }
    Some(folder)
}

fn read_uri(entry: &Entry<'_>, is_folder: bool) -> Option<String> {
    let uri = entry.text()?;
    let has_scheme = uri.split_once(':').is_some_and(|(scheme, rest)| {
        let mut bytes = scheme.bytes();
        !rest.is_empty()
            && bytes.next().is_some_and(|byte| byte.is_ascii_lowercase())
            && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte))
    });
    let is_written = uri.bytes().all(|byte| byte.is_ascii_graphic());
    let mistake = if !has_scheme || !is_written {
        "write a URI with a scheme and without spaces, such as \"docs://handbook\"".to_owned()
    } else if uri.starts_with("longhaul:") {
        "`longhaul:` is for the resources of tasks: choose another scheme, such as \"docs:\"".to_owned()
    } else if !is_folder {
        match uri.contains(['{', '}']) {
            true => "only a `folder` has a template: write the URI of the file".to_owned(),
            false => return Some(uri.to_owned()),
        }
    } else {
        let is_ours = uri.matches('{').count() == 1 && uri.contains(&format!("{{+{FOLDER_VARIABLE}}}"));
        match UriTemplate::new(uri) {
            Ok(_) if is_ours => return Some(uri.to_owned()),
            Ok(_) => format!(
                "the URI of a folder has one variable, {{+{FOLDER_VARIABLE}}}, for the path of a file, such as \"docs://handbook/{{+{FOLDER_VARIABLE}}}\""
            ),
            Err(error) => error.why,
        }
    };
    entry.report(format!("`uri`: {uri:?}: {mistake}"));
    None
}

/// Reports two resources with one URI.
pub(super) fn check_uris(root: &Section<'_>, resources: &[ResourceConfig]) {
    let mut name_of_uri = HashMap::new();
    for resource in resources {
        if let Some(name) = name_of_uri.insert(&resource.uri, &resource.name) {
            root.report(format!(
                "the resources `{name}` and `{}` have one `uri`, {}: change one of them",
                resource.name, resource.uri
            ));
        }
    }
}
