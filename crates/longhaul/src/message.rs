//! Messages of a conversation: what prompts are made of, and what a model is asked.

use crate::{Audience, Content};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One message: who says it, and what.
///
/// ```
/// use longhaul::Message;
/// let talk = [Message::user("What is 2+2?"), Message::assistant("4")];
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Audience,
    /// What: one block or several.
    #[serde(serialize_with = "write_blocks", deserialize_with = "read_blocks")]
    pub content: Vec<Content>,
}

impl Message {
    /// Something the user says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self {
            role: Audience::User,
            content: vec![content.into()],
        }
    }

    /// Something the model says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self {
            role: Audience::Assistant,
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
    /// Something the user says.
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    /// Something the user says.
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

/// One block stands by itself: lists of them are younger than the protocol's first revisions.
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
        One(Box<Content>),
        Several(Vec<Content>),
    }
    Ok(match Blocks::deserialize(source)? {
        Blocks::One(block) => vec![*block],
        Blocks::Several(blocks) => blocks,
    })
}
