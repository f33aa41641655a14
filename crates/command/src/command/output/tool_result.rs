//! The `CallToolResult` of a command, as it is sent.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;

/// An embedded resource must have an address. No request reads this one: its bytes are in the result.
const OUTPUT_URI: &str = "longhaul:stdout";

/// A `CallToolResult`.
#[derive(Serialize)]
pub(super) struct ToolResult<'a> {
    pub(super) content: Vec<ContentBlock<'a>>,
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    pub(super) structured_content: Option<&'a RawValue>,
    #[serde(rename = "isError")]
    pub(super) is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Meta>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock<'a> {
    Text {
        text: Cow<'a, str>,
    },
    /// The only block for bytes of any kind.
    Resource {
        resource: BlobResource,
    },
    ResourceLink(ArtifactLink),
}

#[derive(Serialize)]
pub(super) struct BlobResource {
    uri: &'static str,
    #[serde(rename = "mimeType")]
    mime_type: &'static str,
    blob: String,
}

impl ContentBlock<'_> {
    pub(super) fn bytes(bytes: &[u8]) -> Self {
        Self::Resource {
            resource: BlobResource {
                uri: OUTPUT_URI,
                mime_type: "application/octet-stream",
                blob: BASE64_STANDARD.encode(bytes),
            },
        }
    }
}

impl<'a> ToolResult<'a> {
    pub(super) fn of(text: &'a str, is_error: bool) -> Self {
        Self {
            content: vec![ContentBlock::Text { text: text.into() }],
            structured_content: None,
            is_error,
            meta: None,
        }
    }
}

/// A link to an artifact.
#[derive(Serialize)]
pub(super) struct ArtifactLink {
    pub(super) uri: String,
    pub(super) name: String,
    #[serde(rename = "mimeType")]
    pub(super) mime_type: &'static str,
    pub(super) size: u64,
    #[serde(rename = "_meta")]
    pub(super) meta: LinkMeta,
}

#[derive(Serialize)]
pub(super) struct LinkMeta {
    #[serde(rename = "dev.longhaul/artifact")]
    pub(super) artifact: ArtifactDigest,
}

#[derive(Serialize)]
pub(super) struct ArtifactDigest {
    pub(super) sha256: String,
}

/// What programs may want to know of a result.
#[derive(Serialize)]
pub(super) struct Meta {
    /// How a command ended, unless it succeeded with the exit code 0.
    #[serde(rename = "dev.longhaul/exit", skip_serializing_if = "Option::is_none")]
    pub(super) exit: Option<Value>,
    #[serde(rename = "dev.longhaul/incomplete", skip_serializing_if = "Option::is_none")]
    pub(super) incomplete: Option<Incomplete>,
}

/// Why there is, or may be, more output than the result has.
#[derive(Serialize)]
pub(super) struct Incomplete {
    /// Outputs that were still open when reading ended.
    #[serde(rename = "leftOpen", skip_serializing_if = "Vec::is_empty")]
    pub(super) left_open: Vec<&'static str>,
    #[serde(rename = "droppedBytes")]
    pub(super) dropped_bytes: u64,
    /// Where the log is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) log: Option<String>,
}
