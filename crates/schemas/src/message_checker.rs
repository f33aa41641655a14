//! Checking a conversation between a client and a server.

use crate::{SchemaViolation, expected};
use serde_json::Value;

/// Checks the messages of a server against the schema of their era. A response has the era of its request, so the checker must see the
/// messages of both sides.
///
/// ```
/// use longhaul_schemas::MessageChecker;
/// use serde_json::json;
///
/// let mut checker = MessageChecker::default();
/// checker.sent(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
/// assert!(checker.received(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})).is_ok());
/// ```
#[derive(Debug, Clone, Default)]
pub struct MessageChecker {
    /// The client's requests that have no response yet.
    open: Vec<Value>,
}

impl MessageChecker {
    /// The client has sent this; of a batch, each message.
    pub fn sent(&mut self, message: &Value) {
        if let Value::Array(batch) = message {
            return batch.iter().for_each(|message| self.sent(message));
        }
        if message.get("method").is_some() && message.get("id").is_some() {
            self.open.push(message.clone());
        }
    }

    /// The client has sent these bytes. Each line is a message; invalid and partial ones are ignored.
    pub fn sent_bytes(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Some(message) = std::str::from_utf8(line).ok().and_then(|line| crate::read(line).ok()) {
                self.sent(&message);
            }
        }
    }

    /// Checks a message of the server; of a batch, each message. A response to an unknown request is only checked to be a response.
    ///
    /// # Errors
    /// How the message violates its schema.
    pub fn received(&mut self, message: &Value) -> Result<(), SchemaViolation> {
        if let Value::Array(batch) = message {
            return batch.iter().try_for_each(|message| self.received(message));
        }
        match (message.get("method"), message.get("id")) {
            (Some(_), Some(_)) => expected::request(message),
            (Some(_), None) if expected::is_of_subscription(message) => expected::of_subscription(message),
            (Some(_), None) => expected::notification(self.belongs_to_modern_request(message), message),
            (None, id) => match self.take_request(id) {
                Some(request) => expected::answer(&request, message),
                None if message.get("error").is_some() => expected::error(false, message),
                None => crate::PublishedSchema::Legacy.check("JSONRPCResultResponse", message),
            },
        }
    }

    /// Removes the newest request with this id: after a cancelled request its id may be used again.
    fn take_request(&mut self, id: Option<&Value>) -> Option<Value> {
        let index = self.open.iter().rposition(|request| request.get("id") == id)?;
        Some(self.open.remove(index))
    }

    /// Whether a notification belongs to an open modern request.
    fn belongs_to_modern_request(&self, message: &Value) -> bool {
        let params = &message["params"];
        let is_about = |request: &Value| match message["method"].as_str() {
            Some("notifications/progress") => request["params"]["_meta"]["progressToken"] == params["progressToken"],
            Some("notifications/message") => {
                let wanted = &request["params"]["_meta"]["io.modelcontextprotocol/logLevel"];
                wanted.is_string()
            }
            Some("notifications/cancelled") => request["id"] == params["requestId"],
            _ => false,
        };
        self.open
            .iter()
            .any(|request| expected::is_modern(request) && is_about(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(request: &Value, message: &Value) -> Result<(), SchemaViolation> {
        let mut checker = MessageChecker::default();
        checker.sent(request);
        checker.received(message)
    }

    fn request(method: &str, meta: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}})
    }

    #[test]
    fn each_response_is_checked_against_the_era_of_its_request() {
        let modern = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let plain = json!({"content": []});
        let typed = json!({
            "content": [],
            "resultType": "complete",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "n", "version": "1"}},
        });
        for (meta, good, bad) in [(json!({}), &plain, &typed), (modern, &typed, &plain)] {
            let call = request("tools/call", &meta);
            let answer = |result: &Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
            check(&call, &answer(good)).unwrap();
            check(&call, &answer(bad)).unwrap_err();
            let mut broken = good.clone();
            broken["content"] = json!([{"type": "text"}]);
            let violation = check(&call, &answer(&broken)).unwrap_err().to_string();
            assert!(
                violation.contains("CallToolResult") && violation.contains("/content/0"),
                "{violation}"
            );
            check(&request("nobody/knows", &meta), &answer(good)).unwrap_err();
        }
    }

    #[test]
    fn notifications_are_checked_by_their_method() {
        let call = request("tools/call", &json!({}));
        let notification = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
        check(
            &call,
            &notification("notifications/progress", json!({"progressToken": 1, "progress": 1})),
        )
        .unwrap();
        check(&call, &notification("notifications/progress", json!({"progress": 1}))).unwrap_err();
        check(&call, &notification("notifications/whatever", json!({}))).unwrap_err();
        let of = json!({"io.modelcontextprotocol/subscriptionId": "s"});
        check(
            &call,
            &notification("notifications/tools/list_changed", json!({"_meta": of})),
        )
        .unwrap();
        check(
            &call,
            &notification(
                "notifications/progress",
                json!({"_meta": of, "progressToken": 1, "progress": 1}),
            ),
        )
        .unwrap_err();
    }
}
