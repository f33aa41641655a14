//! Messages: the parts of prompts and of sampling requests.

use crate::{Content, Role};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One message of a conversation.
///
/// ```
/// use longhaul::Message;
/// let messages = [Message::user("What is 2+2?"), Message::assistant("4")];
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its role: user or assistant.
    pub role: Role,
    /// One content block or several.
    #[serde(serialize_with = "write_blocks", deserialize_with = "read_blocks")]
    pub content: Vec<Content>,
}

impl Message {
    /// A message of the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self {
            role: Role::User,
            content: vec![content.into()],
        }
    }

    /// A message of the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self {
            role: Role::Assistant,
            content: vec![content.into()],
        }
    }

    /// With one more block.
    #[must_use]
    pub fn with(mut self, block: impl Into<Content>) -> Self {
        self.content.push(block.into());
        self
    }
}

impl From<&str> for Message {
    /// A message of the user.
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    /// A message of the user.
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

/// Writes a single block without a list: older revisions of the protocol allow no list.
fn write_blocks<S: Serializer>(blocks: &[Content], out: S) -> Result<S::Ok, S::Error> {
    match blocks {
        [block] => block.serialize(out),
        blocks => blocks.serialize(out),
    }
}

pub(crate) fn read_blocks<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Content>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Blocks {
        Single(Box<Content>),
        Several(Vec<Content>),
    }
    Ok(match Blocks::deserialize(source)? {
        Blocks::Single(block) => vec![*block],
        Blocks::Several(blocks) => blocks,
    })
}
