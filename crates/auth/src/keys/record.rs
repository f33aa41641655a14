//! What `keys.json` says, and what may happen to a key.

use super::secret::KeyDigest;
use jiff::Timestamp;
use longhaul_core::UnixMillis;
use longhaul_server::auth::ToolPattern;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{collections::HashSet, fmt};

/// The version of the file that this release writes, and the only one it reads.
const VERSION: u32 = 1;
const LONGEST_NAME: usize = 64;

/// A text that is no name for a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name for a key: use 1 to 64 letters, digits, '.', '-' and '_', a letter or digit first")]
pub struct InvalidKeyName(pub String);

/// The name of a key. It is what the key's principal is called, so it outlives rotations and is used once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyName(String);

impl KeyName {
    /// A name as people write it.
    ///
    /// ```
    /// # use longhaul_auth::keys::KeyName;
    /// assert_eq!(KeyName::new("ci-main")?.as_str(), "ci-main");
    /// assert!(KeyName::new("two words").is_err());
    /// # Ok::<(), longhaul_auth::keys::InvalidKeyName>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidKeyName`].
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidKeyName> {
        let name = name.into();
        let is_fine = name.len() <= LONGEST_NAME
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        match is_fine {
            true => Ok(Self(name)),
            false => Err(InvalidKeyName(name)),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for KeyName {
    type Error = InvalidKeyName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

impl From<KeyName> for String {
    fn from(name: KeyName) -> Self {
        name.0
    }
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    version: u32,
    pub(crate) keys: Vec<Record>,
}

/// One key, also after it was revoked: its name stays taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) name: KeyName,
    #[serde(with = "patterns")]
    pub(crate) tools: Vec<ToolPattern>,
    /// Keys of earlier releases do not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) resources: bool,
    pub(crate) created: Date,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked: Option<Date>,
    /// The current one last; those before it were rotated and are still accepted for some time. Those of a revoked key are kept so that their use is
    /// recognised; none is accepted.
    #[serde(default)]
    pub(crate) secrets: Vec<Secret>,
}

impl Record {
    /// Whether it may use resources that are not those of tasks, and prompts: a key for every tool is one for everything.
    pub(crate) fn may_use_resources(&self) -> bool {
        self.resources || self.tools.iter().any(ToolPattern::is_any)
    }
}

/// What is kept of the text of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Secret {
    pub(crate) sha256: KeyDigest,
    pub(crate) created: Date,
    /// When it ends because another one has taken its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Date>,
}

/// A time, written as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date(pub(crate) UnixMillis);

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = Timestamp::from_millisecond(self.0.0).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&time)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.parse::<Timestamp>() {
            Ok(time) => Ok(Self(UnixMillis(time.as_millisecond()))),
            Err(error) => Err(D::Error::custom(format_args!(
                "{text:?} is no time such as \"2026-01-31T12:00:00Z\": {error}"
            ))),
        }
    }
}

/// Patterns as texts.
mod patterns {
    use super::{Deserialize, Deserializer, Serializer, ToolPattern};
    use serde::de::Error as _;

    pub(super) fn serialize<S: Serializer>(patterns: &[ToolPattern], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(patterns.iter().map(ToolPattern::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolPattern>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let parse = |text: String| {
            text.parse().map_err(|_| {
                D::Error::custom(format_args!(
                    "{text:?} is no pattern of tool names: use a name, with '*' for any text, as in \"build*\""
                ))
            })
        };
        texts.into_iter().map(parse).collect()
    }
}

impl Document {
    /// No keys.
    pub(crate) fn empty() -> Self {
        Self {
            version: VERSION,
            keys: Vec::new(),
        }
    }

    pub(crate) fn find(&self, name: &KeyName) -> Option<&Record> {
        self.keys.iter().find(|key| key.name == *name)
    }

    pub(crate) fn find_mut(&mut self, name: &KeyName) -> Option<&mut Record> {
        self.keys.iter_mut().find(|key| key.name == *name)
    }

    /// What the parser cannot see: whether the parts fit together.
    ///
    /// # Errors
    /// The reason, for people.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "its version is {}, and this release reads {VERSION} only: use the release that wrote it",
                self.version
            ));
        }
        let mut names = HashSet::new();
        let mut digests: Vec<&KeyDigest> = Vec::new();
        for key in &self.keys {
            if !names.insert(&key.name) {
                return Err(format!("two keys have the name {:?}", key.name.as_str()));
            }
            let name = key.name.as_str();
            if key.revoked.is_none() && key.secrets.is_empty() {
                return Err(format!("the key {name:?} is not revoked and has no secret"));
            }
            let rotated = &key.secrets[..key.secrets.len().saturating_sub(1)];
            if rotated.iter().any(|secret| secret.until.is_none()) {
                return Err(format!("a rotated secret of the key {name:?} has no \"until\""));
            }
            digests.extend(key.secrets.iter().map(|secret| &secret.sha256));
        }
        digests.sort_unstable_by_key(|digest| digest.bucket());
        match digests.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err("two keys have the same sha256".to_owned()),
            false => Ok(()),
        }
    }
}
