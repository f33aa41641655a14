//! Server-sent events.

use crate::json;

/// A comment that keeps proxies from closing an idle stream. Clients ignore it.
pub const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// One event.
#[derive(Debug, Clone, Copy, Default)]
pub struct SseEvent<'a> {
    /// Its name. Without one it is a message. Clients ignore the data of an event whose name they do not know.
    pub name: Option<&'a str>,
    /// The id a legacy client can resume from. Left out if it holds a line break or NUL. Modern streams have no ids.
    pub id: Option<&'a str>,
    /// How many milliseconds the client should wait before it reconnects.
    pub retry_ms: Option<u64>,
    /// The message; empty to prime a stream.
    pub data: &'a str,
}

impl SseEvent<'_> {
    /// Appends the event. Each line of the data becomes a `data:` line.
    ///
    /// ```
    /// use longhaul_wire::sse::SseEvent;
    /// let mut out = String::new();
    /// SseEvent { data: "{\n}", ..SseEvent::default() }.write(&mut out);
    /// assert_eq!(out, "data: {\ndata: }\n\n");
    /// ```
    pub fn write(&self, out: &mut String) {
        if let Some(name) = self.name {
            push_field(out, "event", name);
        }
        if let Some(id) = self.id.filter(|id| !id.contains(['\n', '\r', '\0'])) {
            push_field(out, "id", id);
        }
        if let Some(retry) = self.retry_ms {
            out.push_str("retry: ");
            json::push_int(out, retry);
            out.push('\n');
        }
        let mut rest = self.data;
        while let Some(at) = rest.find(['\n', '\r']) {
            push_field(out, "data", &rest[..at]);
            let line_break = if rest[at..].starts_with("\r\n") { 2 } else { 1 };
            rest = &rest[at + line_break..];
        }
        push_field(out, "data", rest);
        out.push('\n');
    }
}

fn push_field(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str(": ");
    out.push_str(value);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parses an event as the HTML standard says: data lines joined by line feeds, one leading space of each removed.
    fn read(event: &str) -> String {
        let lines = event.split(['\n', '\r']).filter_map(|line| line.strip_prefix("data:"));
        lines
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    proptest! {
        #[test]
        fn data_round_trips_and_cannot_end_the_event(data in "[ -~\n\r\u{e9}:]{0,40}") {
            let mut out = String::new();
            SseEvent { data: &data, ..SseEvent::default() }.write(&mut out);
            prop_assert_eq!(read(&out), data.replace("\r\n", "\n").replace('\r', "\n"));
            prop_assert!(out.ends_with("\n\n") && !out[..out.len() - 2].contains("\n\n"));
        }
    }

    #[test]
    fn fields_are_in_order_and_an_id_cannot_inject_fields() {
        let mut out = String::new();
        SseEvent {
            name: Some("ready"),
            id: Some("s7-0"),
            retry_ms: Some(2_000),
            data: "",
        }
        .write(&mut out);
        assert_eq!(out, "event: ready\nid: s7-0\nretry: 2000\ndata: \n\n");
        out.clear();
        SseEvent {
            id: Some("a\ndata: x"),
            data: "1",
            ..SseEvent::default()
        }
        .write(&mut out);
        assert_eq!(out, "data: 1\n\n");
    }
}
