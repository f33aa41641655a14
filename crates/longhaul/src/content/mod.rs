//! Content blocks: the parts of results and messages.

pub(crate) mod message;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One block of content.
///
/// ```
/// use longhaul::{Role, Content};
/// let chart = Content::image("image/png", b"\x89PNG...").for_audience([Role::User]).priority(0.8);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    #[serde(flatten)]
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Map<String, Value>>,
}

/// The kinds of content blocks in MCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Kind {
    Text {
        text: String,
    },
    Image {
        data: String,
        mime_type: String,
    },
    Audio {
        data: String,
        mime_type: String,
    },
    ResourceLink {
        uri: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    Resource {
        resource: ResourceContents,
    },
    ToolUse {
        id: String,
        name: String,
        input: Map<String, Value>,
    },
    ToolResult {
        tool_use_id: String,
        content: Vec<Content>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// Who a block is for, how important it is, and when it last changed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Annotations {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) audience: Vec<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_modified: Option<String>,
}

/// A role of MCP: who content is for, or who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// The content of a resource: text, or bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceContents {
    pub(crate) uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
    #[serde(flatten)]
    body: Body,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Body {
    Text(String),
    Blob(String),
}

impl ResourceContents {
    /// Text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            body: Body::Text(text.into()),
        }
    }

    /// Bytes, which are sent in base64.
    pub fn blob(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            body: Body::Blob(BASE64_STANDARD.encode(bytes)),
        }
    }

    /// Its media type, as `text/plain`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

impl Content {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            annotations: None,
            meta: None,
        }
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Kind::Text { text: text.into() })
    }

    /// A picture; `mime_type` as `image/png`. The bytes are sent in base64.
    pub fn image(mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::of(Kind::Image {
            data: BASE64_STANDARD.encode(bytes),
            mime_type: mime_type.into(),
        })
    }

    /// Sound; `mime_type` as `audio/wav`. The bytes are sent in base64.
    pub fn audio(mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::of(Kind::Audio {
            data: BASE64_STANDARD.encode(bytes),
            mime_type: mime_type.into(),
        })
    }

    /// A link to a resource that the client may read, listed or not.
    pub fn resource_link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::of(Kind::ResourceLink {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
        })
    }

    /// A resource with its content.
    pub fn resource(contents: ResourceContents) -> Self {
        Self::of(Kind::Resource { resource: contents })
    }

    /// The result of a tool that a model called in a [sampling answer](crate::RequestContext::sample): for the block whose
    /// [`as_tool_use`](Self::as_tool_use) has this id.
    pub fn tool_result(tool_use_id: impl Into<String>, content: Vec<Content>) -> Self {
        Self::of(Kind::ToolResult {
            tool_use_id: tool_use_id.into(),
            content,
            is_error: false,
        })
    }

    /// As [`tool_result`](Self::tool_result), for a tool that failed.
    pub fn tool_failure(tool_use_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of(Kind::ToolResult {
            tool_use_id: tool_use_id.into(),
            content: vec![Self::text(text)],
            is_error: true,
        })
    }

    /// The display name of a resource link; other blocks do not change.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        if let Kind::ResourceLink { title: slot, .. } = &mut self.kind {
            *slot = Some(title.into());
        }
        self
    }

    /// The description of a resource link; other blocks do not change.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        if let Kind::ResourceLink { description: slot, .. } = &mut self.kind {
            *slot = Some(description.into());
        }
        self
    }

    /// The media type of what a resource link points to; other blocks do not change.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        if let Kind::ResourceLink { mime_type: slot, .. } = &mut self.kind {
            *slot = Some(mime_type.into());
        }
        self
    }

    /// The size in bytes of what a resource link points to; other blocks do not change.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        if let Kind::ResourceLink { size, .. } = &mut self.kind {
            *size = Some(bytes);
        }
        self
    }

    /// Who it is for.
    #[must_use]
    pub fn for_audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
        self.annotations.get_or_insert_default().audience = audience.into_iter().collect();
        self
    }

    /// Its importance, from 0 (least) to 1 (required). Other numbers are clamped.
    #[must_use]
    pub fn priority(mut self, priority: f64) -> Self {
        self.annotations.get_or_insert_default().priority = Some(priority.clamp(0.0, 1.0));
        self
    }

    /// When it last changed, as ISO 8601: `2026-11-20T11:30:00Z`.
    #[must_use]
    pub fn last_modified(mut self, time: impl Into<String>) -> Self {
        self.annotations.get_or_insert_default().last_modified = Some(time.into());
        self
    }

    /// `_meta` of the block. Names need a prefix of your own, such as `com.example/unit`.
    #[must_use]
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.meta = Some(meta);
        self
    }

    /// The text, if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text { text } => Some(text),
            _ => None,
        }
    }

    /// The tool call of a model in a [sampling answer](crate::RequestContext::sample), if it is one: id, name, arguments.
    pub fn as_tool_use(&self) -> Option<(&str, &str, &Map<String, Value>)> {
        match &self.kind {
            Kind::ToolUse { id, name, input } => Some((id, name, input)),
            _ => None,
        }
    }

    /// The tool call that it is the result of, if it is one.
    pub(crate) fn answered_tool_use(&self) -> Option<&str> {
        match &self.kind {
            Kind::ToolResult { tool_use_id, .. } => Some(tool_use_id),
            _ => None,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// An icon of a server, a tool, a prompt or a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    src: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    theme: Option<String>,
}

impl Icon {
    /// An icon at an `https:` or `data:` URL.
    pub fn new(src: impl Into<String>) -> Self {
        Self {
            src: src.into(),
            mime_type: None,
            sizes: Vec::new(),
            theme: None,
        }
    }

    /// Its media type, as `image/png`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// The sizes it has, as `48x48`; `any` for one that scales.
    #[must_use]
    pub fn sizes<T: Into<String>>(mut self, sizes: impl IntoIterator<Item = T>) -> Self {
        self.sizes = sizes.into_iter().map(Into::into).collect();
        self
    }

    /// For a `light` or a `dark` background.
    #[must_use]
    pub fn theme(mut self, theme: impl Into<String>) -> Self {
        self.theme = Some(theme.into());
        self
    }
}

/// Icons as MCP lists them; `None` if there are none.
pub(crate) fn icons_json(icons: &[Icon]) -> Option<Value> {
    (!icons.is_empty()).then(|| serde_json::to_value(icons).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_have_the_members_of_the_schema() {
        let blocks = [
            (Content::text("hi"), json!({"type": "text", "text": "hi"})),
            (
                Content::image("image/png", [1, 2, 3]).priority(7.0),
                json!({"type": "image", "data": "AQID", "mimeType": "image/png", "annotations": {"priority": 1.0}}),
            ),
            (
                Content::audio("audio/wav", []).for_audience([Role::User]),
                json!({"type": "audio", "data": "", "mimeType": "audio/wav", "annotations": {"audience": ["user"]}}),
            ),
            (
                Content::resource_link("file:///a", "a").title("A").size(3),
                json!({"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "size": 3}),
            ),
            (
                Content::resource(ResourceContents::text("x://y", "z").mime_type("text/plain")),
                json!({"type": "resource", "resource": {"uri": "x://y", "mimeType": "text/plain", "text": "z"}}),
            ),
        ];
        for (block, shown) in blocks {
            assert_eq!(serde_json::to_value(&block).unwrap(), shown);
            assert_eq!(serde_json::from_value::<Content>(shown).unwrap(), block);
        }
    }
}
