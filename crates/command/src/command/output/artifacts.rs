//! What a result says of the files that an attempt has left.

use super::tool_result::{ArtifactDigest, ArtifactLink, ContentBlock, LinkMeta};
use longhaul_core::{TaskId, plain_line, uri_path};
use longhaul_runtime::{Artifact, ArtifactList, Requestor};
use std::borrow::Cow;

/// The first revision that has links to resources.
const FIRST_WITH_LINKS: &str = "2025-06-18";

/// The files that an attempt has left, for a caller who can read them.
pub(in crate::command) struct ShownArtifacts {
    pub(in crate::command) task: TaskId,
    pub(in crate::command) list: ArtifactList,
    /// Whether the caller knows links to resources.
    pub(in crate::command) as_links: bool,
}

/// Whether a caller knows links to resources. Of a caller that is no client nothing is known.
pub(in crate::command) fn knows_links(requestor: &Requestor) -> bool {
    requestor.modern || requestor.version.is_empty() || *requestor.version >= *FIRST_WITH_LINKS
}

impl ShownArtifacts {
    /// The blocks that follow the output.
    pub(super) fn blocks<'a>(&'a self) -> impl Iterator<Item = ContentBlock<'a>> {
        let links = self.list.kept.iter().filter(|_| self.as_links);
        let links = links.map(|artifact| ContentBlock::ResourceLink(self.link(artifact)));
        let texts = [self.lines(), self.problems()].into_iter().flatten();
        links.chain(texts.map(|text| ContentBlock::Text { text: Cow::Owned(text) }))
    }

    /// Where they are, for a status message.
    pub(super) fn sentence(&self) -> Option<String> {
        let task = self.task.as_str();
        let files = match self.list.kept.len() {
            0 => return None,
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        Some(format!(
            " It left {files}: longhaul://task/{task}/artifacts (longhaul task {task} --artifact)."
        ))
    }

    fn link(&self, artifact: &Artifact) -> ArtifactLink {
        ArtifactLink {
            uri: self.uri(artifact),
            name: plain_line(&artifact.name),
            mime_type: artifact.media_type(),
            size: artifact.size,
            meta: LinkMeta {
                artifact: ArtifactDigest {
                    sha256: artifact.sha256.clone(),
                },
            },
        }
    }

    fn uri(&self, artifact: &Artifact) -> String {
        format!(
            "longhaul://task/{}/artifacts/{}",
            self.task.as_str(),
            uri_path(&artifact.name)
        )
    }

    /// In place of links.
    fn lines(&self) -> Option<String> {
        let line = |artifact: &Artifact| {
            let (name, uri) = (plain_line(&artifact.name), self.uri(artifact));
            format!("{name} ({} bytes, SHA-256 {}): {uri}", artifact.size, artifact.sha256)
        };
        let lines: Vec<String> = self.list.kept.iter().map(line).collect();
        (!self.as_links && !lines.is_empty()).then(|| format!("[longhaul: files of this call]\n{}", lines.join("\n")))
    }

    fn problems(&self) -> Option<String> {
        let problems = &self.list.problems;
        (!problems.is_empty()).then(|| {
            format!(
                "[longhaul: not all files are kept as they were]\n{}",
                problems.join("\n")
            )
        })
    }
}
