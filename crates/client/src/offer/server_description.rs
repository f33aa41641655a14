//! What a server says about itself.

use longhaul_core::{Millis, ParsedJson};
use longhaul_wire::{Generation, Version, meta};
use serde_json::Value;

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerDescription {
    /// The protocol revision that is spoken with it, such as `2026-07-28`.
    pub version: &'static str,
    /// Its name and version, if it gives them: `serverInfo`. For display only.
    pub info: ParsedJson,
    /// Its capabilities. Null if a modern server did not tell them.
    pub capabilities: ParsedJson,
    /// Its instructions for the model, if any.
    pub instructions: Option<String>,
}

impl ServerDescription {
    /// Reads the result of `server/discover` or `initialize`.
    pub(crate) fn read(version: Version, result: &ParsedJson) -> Self {
        let in_meta = result
            .member("_meta")
            .filter(|_| version.generation() == Generation::Modern);
        let info = in_meta.and_then(|meta| ParsedJson::from(meta).member(meta::SERVER_INFO));
        let info = info.or_else(|| result.member("serverInfo"));
        Self {
            version: version.as_str(),
            info: info.map(ParsedJson::from).unwrap_or_default(),
            capabilities: result.member("capabilities").map(ParsedJson::from).unwrap_or_default(),
            instructions: result["instructions"].as_str().map(str::to_owned),
        }
    }

    /// Its name, if it gives one. For display only.
    pub fn name(&self) -> Option<&str> {
        self.info["name"].as_str()
    }

    /// Whether a revision of 2026-07-28 or later is spoken with it.
    pub fn is_modern(&self) -> bool {
        Version::parse(self.version).is_some_and(|version| version.generation() == Generation::Modern)
    }

    /// Whether a call that is sent again with the same idempotency key is the same call (an extension of Longhaul).
    pub fn takes_idempotency_keys(&self) -> bool {
        ["extensions", "experimental"]
            .iter()
            .any(|place| self.capabilities[place][meta::IDEMPOTENCY].is_object())
    }

    /// How long such a key is known at least after the end of its call, in milliseconds, if the server says it (an extension of Longhaul). A call that began
    /// longer ago may be another one when it is sent again.
    pub fn idempotency_retention(&self) -> Option<Millis> {
        let mut declared = ["extensions", "experimental"]
            .iter()
            .map(|place| &self.capabilities[place][meta::IDEMPOTENCY]["retentionMs"]);
        declared.find_map(Value::as_u64)
    }

    /// Whether it cancels calls by their idempotency keys (an extension of Longhaul): see
    /// [`Connection::cancel_by_key`](crate::Connection::cancel_by_key).
    pub fn cancels_by_key(&self) -> bool {
        ["extensions", "experimental"]
            .iter()
            .any(|place| self.capabilities[place][meta::IDEMPOTENCY]["cancel"] == true)
    }

    /// Whether its clients may delete their finished tasks (an extension of Longhaul): see [`TaskHandle::delete`](crate::TaskHandle::delete).
    pub fn deletes_tasks(&self) -> bool {
        ["extensions", "experimental"]
            .iter()
            .any(|place| self.capabilities[place][meta::DELETION].is_object())
    }

    /// Whether it may make tasks of the extension: it declares them, or has told no capabilities at all.
    pub(crate) fn may_make_tasks(&self) -> bool {
        self.has_tasks_extension() || self.capabilities.is_null()
    }

    /// Whether it makes tasks of the extension.
    pub(crate) fn has_tasks_extension(&self) -> bool {
        self.capabilities["extensions"][TASKS_EXTENSION].is_object()
    }
}

/// Key of the tasks extension, in `extensions` of either side's capabilities.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
