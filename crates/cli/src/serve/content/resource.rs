//! Files as resources. Each request reads the file anew.

use super::shown;
use crate::{
    config::{ContainedFolder, FOLDER_VARIABLE, ResourceConfig, ResourceSource, media_type::media_type},
    output::amounts::size,
};
use longhaul::ResourceContents;
use longhaul_core::{BoxFuture, Json, RpcFailure, uri_path};
use longhaul_runtime::{
    Catalog, Completer, HandlerError, Ports, RequestContext, Resource, ResourceHandler, ResourceTemplate, UriTemplate,
};
use serde_json::json;
use std::{
    fs::File,
    io::{self, Read as _},
    sync::Arc,
};

/// How many paths complete what somebody types.
const MAX_COMPLETIONS: usize = 100;

/// An entry of `resources/list` or `resources/templates/list`.
#[derive(PartialEq)]
pub(super) struct Entry {
    uri: Arc<str>,
    config: Arc<ResourceConfig>,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    File,
    /// A listed file of a folder, by its path from there.
    InFolder(String),
    Template(ContainedFolder),
}

/// What the sections offer. The files of their folders are listed now.
pub(super) fn entries(resources: &[ResourceConfig]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for config in resources {
        let config = Arc::new(config.clone());
        let entry = |uri: &str, kind| Entry {
            uri: uri.into(),
            config: Arc::clone(&config),
            kind,
        };
        let ResourceSource::Folder(folder) = &config.source else {
            entries.push(entry(&config.uri, Kind::File));
            continue;
        };
        entries.push(entry(&config.uri, Kind::Template(folder.clone())));
        let listing = folder.list().unwrap_or_else(|error| {
            tracing::warn!(resource = config.name, folder = %folder.path().display(), %error, "the files of a resource cannot be listed");
            Default::default()
        });
        for path in listing.files {
            let uri = config.uri.replace(&format!("{{+{FOLDER_VARIABLE}}}"), &uri_path(&path));
            entries.push(entry(&uri, Kind::InFolder(path)));
        }
    }
    entries
}

impl Entry {
    pub(super) fn uri(&self) -> &Arc<str> {
        &self.uri
    }

    /// The name of the section that it is of.
    pub(super) fn section(&self) -> &str {
        &self.config.name
    }

    pub(super) fn is_template(&self) -> bool {
        matches!(self.kind, Kind::Template(_))
    }

    pub(super) fn remove_from(&self, catalog: &Catalog) {
        match self.is_template() {
            true => catalog.remove_template(&self.uri),
            false => catalog.remove_resource(&self.uri),
        };
    }

    pub(super) fn put_into(&self, catalog: &Catalog, ports: &Ports) {
        let config = &self.config;
        let read = |source| {
            Arc::new(FileReader {
                config: Arc::clone(config),
                source,
                ports: ports.clone(),
            })
        };
        let (name, file) = match (&self.kind, &config.source) {
            (Kind::InFolder(path), _) => (path.as_str(), path.as_str()),
            (_, ResourceSource::File(path)) => (config.name.as_str(), path.to_str().unwrap_or_default()),
            _ => (config.name.as_str(), ""),
        };
        let mime_type = config.mime_type.as_deref().or_else(|| media_type(file));
        // A title and a description of a folder are not those of each file.
        let description = config
            .description
            .as_deref()
            .filter(|_| !matches!(self.kind, Kind::InFolder(_)));
        let texts = [("description", description), ("mimeType", mime_type)];
        let mut display = config.display.clone();
        if let Kind::InFolder(_) = self.kind {
            display.title = None;
        }
        match &self.kind {
            Kind::Template(folder) => match UriTemplate::new(Arc::clone(&self.uri)) {
                Ok(uri_template) => catalog.put_template(ResourceTemplate {
                    uri_template,
                    shown: shown(json!({"uriTemplate": &*self.uri, "name": name}), &display, texts),
                    handler: read(None),
                    completer: Some(Arc::new(PathCompleter {
                        folder: folder.clone(),
                        ports: ports.clone(),
                    })),
                }),
                // It was checked with the configuration.
                Err(error) => tracing::error!(%error, "a resource is not offered"),
            },
            Kind::File | Kind::InFolder(_) => catalog.put_resource(Resource {
                uri: Arc::clone(&self.uri),
                shown: shown(json!({"uri": &*self.uri, "name": name}), &display, texts),
                handler: read(match &self.kind {
                    Kind::InFolder(path) => Some(path.clone()),
                    _ => None,
                }),
            }),
        }
    }
}

struct FileReader {
    config: Arc<ResourceConfig>,
    /// The path in the folder, unless the URI has it.
    source: Option<String>,
    ports: Ports,
}

/// Why a file is not sent.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("there is none")]
    NotFound,
    #[error("it has more than {}, the most that this server sends of it (`max_size` of its [[resource]])", size(*.0))]
    TooLarge(u64),
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl FileReader {
    /// The content, and the name that says its type.
    fn read_now(&self, path: Option<&str>) -> Result<(Vec<u8>, String), ReadError> {
        let (file, name) = match (&self.config.source, path) {
            (ResourceSource::File(path), _) => {
                let opened = longhaul_private_dir::open_named(path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => ReadError::NotFound,
                    _ => error.into(),
                })?;
                (opened, path.to_string_lossy().into_owned())
            }
            (ResourceSource::Folder(folder), Some(path)) => {
                (folder.open(path)?.ok_or(ReadError::NotFound)?, path.to_owned())
            }
            (ResourceSource::Folder(_), None) => return Err(ReadError::NotFound),
        };
        Ok((read_up_to(file, self.config.max_size)?, name))
    }
}

fn read_up_to(file: File, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(ReadError::TooLarge(limit)),
        false => Ok(bytes),
    }
}

impl ResourceHandler for FileReader {
    fn read(
        self: Arc<Self>,
        uri: String,
        variables: Vec<(String, String)>,
        _: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let named = variables.into_iter().find(|(name, _)| name == FOLDER_VARIABLE);
            let path = self.source.clone().or(named.map(|(_, path)| path));
            let reader = Arc::clone(&self);
            let read = self.ports.blocking(move || reader.read_now(path.as_deref())).await;
            let (bytes, name) = match read.ok_or(HandlerError::NotFound)? {
                Ok(read) => read,
                Err(ReadError::NotFound) => return Err(HandlerError::NotFound),
                Err(why) => {
                    tracing::warn!(resource = self.config.name, uri, %why, "a resource was not sent");
                    return Err(HandlerError::Rpc(RpcFailure {
                        code: -32603,
                        message: format!("The resource {uri} is not sent: {why}").into(),
                        data: None,
                    }));
                }
            };
            let known = self.config.mime_type.as_deref().or_else(|| media_type(&name));
            let contents = match String::from_utf8(bytes) {
                Ok(text) => ResourceContents::text(uri, text).mime_type(known.unwrap_or("text/plain")),
                Err(error) => ResourceContents::blob(uri, error.into_bytes())
                    .mime_type(known.unwrap_or("application/octet-stream")),
            };
            Ok(Json::from(json!({"contents": [contents]})))
        })
    }
}

/// Completes the path of a file.
struct PathCompleter {
    folder: ContainedFolder,
    ports: Ports,
}

impl Completer for PathCompleter {
    fn complete(
        self: Arc<Self>,
        _: String,
        value: String,
        _: Json,
        _: RequestContext,
    ) -> BoxFuture<'static, Result<Vec<String>, HandlerError>> {
        Box::pin(async move {
            let completer = Arc::clone(&self);
            let listed = self.ports.blocking(move || completer.folder.list()).await;
            let files = listed.and_then(Result::ok).unwrap_or_default().files;
            let fitting = files.into_iter().filter(|path| path.starts_with(&value));
            Ok(fitting.take(MAX_COMPLETIONS).collect())
        })
    }
}
