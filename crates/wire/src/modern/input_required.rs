//! Asking the client before answering it: a round of questions on the request itself (MRTR, U-10).

use crate::{
    identity::Identity,
    json,
    splice::{Edit, splice},
};

/// Appends the InputRequiredResult, which `tools/call`, `prompts/get` and `resources/read` may be answered with and nothing else.
/// `requests` are the questions by key, each `{"method":…,"params":…}` without `jsonrpc` and `id` (U-15), and only of kinds the client
/// declared (U-13). `state` comes back with the retry, possibly tampered with (U-12). Without either there is an empty map of questions,
/// since one of the two must be there; the client then retries at once.
pub fn write<'a>(
    out: &mut String,
    requests: impl IntoIterator<Item = (&'a str, &'a str)>,
    state: Option<&str>,
    identity: &Identity,
) {
    out.push_str(r#"{"resultType":"input_required""#);
    let mut requests = requests.into_iter().peekable();
    if requests.peek().is_some() || state.is_none() {
        push_requests(out, requests);
    }
    if let Some(state) = state {
        out.push_str(r#","requestState":"#);
        json::push_string(out, state);
    }
    identity.push_meta(out);
    out.push('}');
}

/// Appends `,"inputRequests":{…}`.
pub(super) fn push_requests<'a>(out: &mut String, requests: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push_str(r#","inputRequests":{"#);
    for (nth, (key, request)) in requests.enumerate() {
        out.push_str(if nth == 0 { "" } else { "," });
        json::push_string(out, key);
        out.push(':');
        push_request(out, request);
    }
    out.push('}');
}

/// Appends the question, without the id that earlier revisions give the flow behind a URL (C-32).
fn push_request(out: &mut String, request: &str) {
    let edits = [Edit::Within("params", &[Edit::Remove("elicitationId")])];
    if splice(out, request, &edits).is_err() {
        out.push_str(request);
    }
}
