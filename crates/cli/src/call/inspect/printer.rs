//! Prints messages as they are sent and received.

use super::mask::Mask;
use crate::output;
use http::{HeaderMap, HeaderValue};
use longhaul_client::{SystemClock, WireEvent, WireObserver};
use longhaul_core::{Clock, UnixMillis, masked_session};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Prints to standard output.
pub(super) struct Printer {
    server: String,
    mask: Arc<Mask>,
    json: bool,
    began: UnixMillis,
}

impl Printer {
    pub(super) fn new(server: &str, mask: Arc<Mask>, json: bool) -> Self {
        Self {
            server: mask.text(server).into_owned(),
            mask,
            json,
            began: SystemClock.now(),
        }
    }

    /// A line with time and direction, and the lines below it.
    fn print(&self, head: &str, headers: &[(String, String)], message: Option<&str>) {
        let after = SystemClock.now().0.saturating_sub(self.began.0);
        let mut lines = format!("{:>4}.{:03}  {head}\n", after / 1000, after % 1000);
        for (name, value) in headers {
            lines.push_str(&format!("          {name}: {value}\n"));
        }
        if let Some(message) = message {
            lines.push_str(&format!("          {message}\n"));
        }
        output::text(&lines);
    }

    fn masked(&self, headers: Option<&HeaderMap>) -> Vec<(String, String)> {
        let shown = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = headers.into_iter().flatten();
        headers
            .map(|(name, value)| {
                (
                    name.to_string(),
                    self.mask.header(name.as_str(), &shown(value)).into_owned(),
                )
            })
            .collect()
    }

    fn print_json(&self, direction: &str, headers: &[(String, String)], more: Value) {
        let after = SystemClock.now().0.saturating_sub(self.began.0);
        let mut line = json!({"afterMs": after, "direction": direction});
        if !headers.is_empty() {
            let headers: Map<String, Value> = headers
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().into()))
                .collect();
            line["headers"] = headers.into();
        }
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        output::json_line(&line);
    }
}

impl WireObserver for Printer {
    fn observe(&self, event: WireEvent<'_>) {
        match event {
            WireEvent::Sent { message, headers } => {
                let shown = self.mask.sent(message);
                let verb = if headers.is_some() { "POST " } else { "" };
                let headers = self.masked(headers);
                match self.json {
                    true => self.print_json("sent", &headers, json!({"message": as_value(&shown)})),
                    false => self.print(&format!("--> {verb}{}", self.server), &headers, Some(&shown)),
                }
            }
            WireEvent::Received { message } => {
                let text = String::from_utf8_lossy(message);
                let shown = self.mask.received(&text);
                match self.json {
                    true => self.print_json("received", &[], json!({"message": as_value(&shown)})),
                    false => self.print("<--", &[], Some(&shown)),
                }
            }
            WireEvent::Answered { status, session } => {
                let session = session.and_then(|session| session.to_str().ok()).map(masked_session);
                let headers: Vec<_> = session
                    .into_iter()
                    .map(|id| ("mcp-session-id".to_owned(), id))
                    .collect();
                match self.json {
                    true => self.print_json("answered", &headers, json!({"status": status})),
                    false => self.print(&format!("<-- HTTP status {status}"), &headers, None),
                }
            }
            WireEvent::Listening { headers } | WireEvent::Closing { headers } => {
                let (verb, direction) = match event {
                    WireEvent::Listening { .. } => ("GET", "listening"),
                    _ => ("DELETE", "closing"),
                };
                // Without HTTP, or without a session, nothing is sent.
                let Some(headers) = headers.filter(|headers| headers.contains_key("mcp-session-id")) else {
                    return;
                };
                let headers = self.masked(Some(headers));
                match self.json {
                    true => self.print_json(direction, &headers, json!({})),
                    false => self.print(&format!("--> {verb} {}", self.server), &headers, None),
                }
            }
            WireEvent::Failed { error } => {
                let error = error.to_string();
                let shown = self.mask.text(&error);
                match self.json {
                    true => self.print_json("failed", &[], json!({"error": shown})),
                    false => self.print(&format!("<-- {shown}"), &[], None),
                }
            }
            _ => {}
        }
    }
}

/// What is no JSON is a string.
fn as_value(message: &str) -> Value {
    serde_json::from_str(message).unwrap_or_else(|_| message.into())
}
