//! Files that the work of an attempt leaves for its caller.

use longhaul_core::media_type;
use serde::{Deserialize, Serialize};

/// The most bytes of an artifact that one read returns.
pub const MAX_ARTIFACT_READ: u64 = 1 << 20;

/// A file that an attempt has left, and that is kept with its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The path from the folder in which the attempt has left it. No other artifact of the attempt has it.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 of its content, in lowercase hexadecimal digits.
    pub sha256: String,
}

impl Artifact {
    /// Its media type, by its name.
    pub fn media_type(&self) -> &'static str {
        media_type(&self.name).unwrap_or("application/octet-stream")
    }
}

/// What an attempt has left. Executors may store it in this form.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ArtifactList {
    /// The files.
    pub kept: Vec<Artifact>,
    /// What is not as the author of the tool wanted it, one sentence each: files that are left out, and why. Callers are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What helps the author to find out why a file is not here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A part of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactChunk {
    /// Which one.
    pub artifact: Artifact,
    /// Where the part begins.
    pub offset: u64,
    /// The part. It is empty at the end of the file.
    pub bytes: Vec<u8>,
}

impl ArtifactChunk {
    /// Where the next part begins.
    pub fn next(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}
