//! Messages that a server has not written as one line each: two on a line, behind words for people, in UTF-16, or over several lines.

use longhaul_wire::Message;
use serde_json::{Deserializer, value::RawValue};

/// Places in a line at which a message may begin.
const MOST_BEGINNINGS: usize = 20;

/// What is found in a line that is no message itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Within {
    Nothing,
    /// Messages, with nothing before them.
    Messages(Vec<Vec<u8>>),
    /// Responses behind words for people, which may be about something else.
    Mentioned(Vec<Vec<u8>>),
}

/// Looks for messages in a line that is none itself.
pub(super) fn messages_in(line: &[u8]) -> Within {
    let narrow: Vec<u8>;
    let line = match line.contains(&0) {
        true => {
            // UTF-16 has such a byte beside each character of ASCII.
            narrow = line.iter().copied().filter(|byte| *byte != 0).collect();
            narrow
                .strip_prefix(b"\xff\xfe")
                .or_else(|| narrow.strip_prefix(b"\xfe\xff"))
                .unwrap_or(&narrow)
        }
        false => line,
    };
    let is_message = |text: &[u8]| Message::parse(text).is_ok();
    let found = objects(line.trim_ascii_start(), is_message);
    if !found.is_empty() {
        return Within::Messages(found);
    }
    let is_response = |text: &[u8]| matches!(Message::parse(text), Ok(Message::Response(_)));
    let begins = |at: &usize| line[*at] == b'{' && line[at + 1..].trim_ascii_start().starts_with(b"\"");
    let beginnings = (0..line.len()).filter(begins).take(MOST_BEGINNINGS);
    let mut mentioned = beginnings.map(|at| objects(&line[at..], is_response));
    match mentioned.find(|found| !found.is_empty()) {
        Some(found) => Within::Mentioned(found),
        None => Within::Nothing,
    }
}

/// Those of the objects at the beginning of a text, one behind the other, that count.
fn objects(text: &[u8], counts: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    if !text.starts_with(b"{") {
        return Vec::new();
    }
    let values = Deserializer::from_slice(text).into_iter::<&RawValue>();
    let values = values.map_while(Result::ok).map(|value| value.get().as_bytes());
    values.filter(|value| counts(value)).map(<[u8]>::to_vec).collect()
}

/// The beginning of an object, of which more lines may come.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    text: Vec<u8>,
    nesting: Nesting,
}

/// How deep within objects and arrays a text has come.
#[derive(Debug, Default, Clone, Copy)]
struct Nesting {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    fn after(mut self, text: &[u8]) -> Self {
        for byte in text {
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' => self.is_escaped = self.is_in_string,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self
    }
}

impl Unfinished {
    /// If the line begins an object and does not end it.
    pub(super) fn begun_by(line: &[u8]) -> Option<Self> {
        let mut unfinished = Self::default();
        unfinished.add(line);
        let Nesting {
            depth, is_in_string, ..
        } = unfinished.nesting;
        let begins = line.trim_ascii_start().starts_with(b"{");
        (begins && depth > 0 && !is_in_string).then_some(unfinished)
    }

    /// Adds a line. The whole text, if that has ended the object.
    pub(super) fn add(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        self.nesting = self.nesting.after(line);
        self.text.extend_from_slice(line);
        self.text.push(b' ');
        (self.nesting.depth == 0).then(|| std::mem::take(&mut self.text))
    }

    /// Whether this line would end the object.
    pub(super) fn is_ended_by(&self, line: &[u8]) -> bool {
        self.nesting.after(line).depth == 0
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"text":"a \" } {"}}"#;
    const PING: &str = r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#;

    #[test]
    fn messages_are_found_wherever_they_stand() {
        let wide = |begin: &[u8], text: &str| -> Vec<u8> {
            let units = text.bytes().flat_map(|byte| [byte, 0]);
            begin.iter().copied().chain(units).collect()
        };
        let messages = |found: &[&str]| Within::Messages(found.iter().map(|text| text.as_bytes().to_vec()).collect());
        let mentioned = || Within::Mentioned(vec![RESPONSE.as_bytes().to_vec()]);
        for (line, found) in [
            (format!("{RESPONSE}{PING}").into_bytes(), messages(&[RESPONSE, PING])),
            (
                format!("{PING} {RESPONSE} {{").into_bytes(),
                messages(&[PING, RESPONSE]),
            ),
            (wide(b"", RESPONSE), messages(&[RESPONSE])),
            (wide(b"\xff\xfe", RESPONSE), messages(&[RESPONSE])),
            (format!("DEBUG: {RESPONSE}").into_bytes(), mentioned()),
            (
                format!("set {{1}} of {{\"a\": 1}}: {RESPONSE}").into_bytes(),
                mentioned(),
            ),
            (format!("got {PING}").into_bytes(), Within::Nothing),
            (b"ready {\"a\":1}".to_vec(), Within::Nothing),
            (b"ready".to_vec(), Within::Nothing),
        ] {
            assert_eq!(messages_in(&line), found, "{}", String::from_utf8_lossy(&line));
        }
    }

    proptest! {
        /// However the text is broken between its members, it is whole at its end.
        #[test]
        fn an_object_over_several_lines_is_whole_at_its_end(text in "[\\PC\"\\\\{}]{0,30}", depth in 0..4_usize) {
            let mut value = serde_json::json!({"text": text});
            for _ in 0..depth {
                value = serde_json::json!({"a": [value], "b": {}});
            }
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let mut lines = pretty.lines();
            let mut unfinished = Unfinished::begun_by(lines.next().unwrap().as_bytes()).unwrap();
            let whole: Vec<_> = lines.map(|line| unfinished.add(line.as_bytes())).collect();
            let (last, before) = whole.split_last().unwrap();
            prop_assert!(before.iter().all(Option::is_none));
            let read: serde_json::Value = serde_json::from_slice(last.as_ref().unwrap()).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
