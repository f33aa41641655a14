//! Texts as people read them: without control characters, without secrets, and not too long.

pub(crate) mod excerpt;
pub(crate) mod masking;
pub(crate) mod media_type;
pub(crate) mod plain_text;
pub(crate) mod terminal_text;
pub(crate) mod uri_path;
