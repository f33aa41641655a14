//! Results that handlers give as JSON objects: prompts, contents, completions, whatever a method of one's own answers.

use crate::{
    envelope::{RequestId, write_spliced},
    splice::Edit,
};
use longhaul_core::Json;

/// Appends the whole response with `result`, the object a handler gave, without the discriminator that only modern results have. A
/// tool's result goes through [`tools::write_called`](super::tools::write_called).
pub fn write(out: &mut String, id: RequestId<'_>, result: &Json) {
    write_spliced(out, id, result, &[RESULT_TYPE]);
}

/// As [`write`], and without caching hints too: for results that have them in the modern generation. What another method calls `ttlMs`
/// is its own affair (C-16).
pub fn write_cacheable(out: &mut String, id: RequestId<'_>, result: &Json) {
    let edits = [RESULT_TYPE, Edit::Remove("ttlMs"), Edit::Remove("cacheScope")];
    write_spliced(out, id, result, &edits);
}

const RESULT_TYPE: Edit<'static> = Edit::Remove("resultType");
