//! Asking the client before answering it: a round of questions on the request itself.

use crate::{
    json::{self, Edit, splice::splice},
    result::ServerInfo,
};

/// Appends the InputRequiredResult, a result that only `tools/call`, `prompts/get` and `resources/read` may have. `requests` are the
/// input requests by key, each `{"method":…,"params":…}`; the client must have declared the capability for each. `state` comes back
/// with the retry and may have been tampered with. If both are absent, an empty map of input requests is written, since one of the
/// two is required; the client then retries at once.
pub fn write<'a>(
    out: &mut String,
    requests: impl IntoIterator<Item = (&'a str, &'a str)>,
    state: Option<&str>,
    server_info: &ServerInfo,
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
    server_info.push_meta(out);
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

/// Appends an input request without `elicitationId`, which only legacy revisions have.
fn push_request(out: &mut String, request: &str) {
    let edits = [Edit::Within("params", &[Edit::Remove("elicitationId")])];
    if splice(out, request, &edits).is_err() {
        out.push_str(request);
    }
}
