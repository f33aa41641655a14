//! Messages that a server has not written as one line each: two on a line, behind words for people, or over several lines.

use crate::transport::stream::unreadable::{Outline, number_of};
use longhaul_wire::Message;
use serde_json::{Deserializer, value::RawValue};

/// Places in a line at which a message may begin.
const MOST_BEGINNINGS: usize = 20;
/// How much of a message over several lines is searched for whose it is, in bytes.
const LONGEST_HEAD: usize = 1024;

/// What is found in a line that is no message itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Within<'a> {
    Nothing,
    /// Messages, with nothing before them, and what is behind them.
    Messages(Vec<&'a [u8]>, &'a [u8]),
    /// Responses behind words for people, which may be about something else.
    Mentioned(Vec<&'a [u8]>),
    /// What may be a response that cannot be read, behind words for people.
    Unreadable(&'a [u8]),
}

/// Looks for messages in a line that is none itself. Within an object, such as a record of a log, there is none.
pub(crate) fn messages_in(line: &[u8]) -> Within<'_> {
    let line = line.trim_ascii();
    let is_message = |text: &[u8]| Message::parse(text).is_ok();
    let (found, rest) = objects(line, is_message);
    match (found.is_empty(), rest) {
        (false, rest) => return Within::Messages(found, rest),
        (true, []) => return Within::Nothing,
        (true, _) => {}
    }
    let is_response = |text: &[u8]| matches!(Message::parse(text), Ok(Message::Response(_)));
    let begins = |at: &usize| line[*at] == b'{' && line[at + 1..].trim_ascii_start().starts_with(b"\"");
    let beginnings = || (0..line.len()).filter(begins).take(MOST_BEGINNINGS);
    let mut mentioned = beginnings().map(|at| objects(&line[at..], is_response).0);
    if let Some(found) = mentioned.find(|found| !found.is_empty()) {
        return Within::Mentioned(found);
    }
    let may_respond = |text: &&[u8]| Outline::of(text).is_some_and(|outline| outline.is_response());
    let unreadable = beginnings()
        .filter(|at| *at > 0)
        .map(|at| &line[at..])
        .find(may_respond);
    unreadable.map_or(Within::Nothing, Within::Unreadable)
}

/// Whether a text that has no end of a line yet is messages up to its end.
pub(crate) fn is_complete(text: &[u8]) -> bool {
    let mut parts = text
        .split(|byte| *byte == b'\r')
        .filter(|part| !part.trim_ascii().is_empty());
    parts
        .next_back()
        .map(<[u8]>::trim_ascii)
        .is_some_and(|last| match messages_in(last) {
            Within::Messages(_, rest) => rest.is_empty(),
            Within::Mentioned(responses) => responses.last().is_some_and(|response| last.ends_with(response)),
            // It cannot be read, and is an object all the same.
            Within::Nothing => {
                last.starts_with(b"{") && last.ends_with(b"}") && NestingState::default().after(last).depth == 0
            }
            Within::Unreadable(_) => false,
        })
}

/// Those of the objects at the beginning of a text, one behind the other, that count, and what is behind the objects.
fn objects(text: &[u8], counts: impl Fn(&[u8]) -> bool) -> (Vec<&[u8]>, &[u8]) {
    if !text.starts_with(b"{") {
        return (Vec::new(), text);
    }
    let mut values = Deserializer::from_slice(text).into_iter::<&RawValue>();
    let mut found = Vec::new();
    let mut end = 0;
    while let Some(Ok(value)) = values.next() {
        end = values.byte_offset();
        found.push(value.get().as_bytes());
    }
    found.retain(|value| counts(value));
    (found, text[end..].trim_ascii())
}

/// The beginning of an object, of which more lines may come.
#[derive(Debug, Default)]
pub(crate) struct PartialMessage {
    text: Vec<u8>,
    nesting: NestingState,
    lines: usize,
    /// Its lines are not indented.
    is_flat: bool,
    /// The request that it answers, once its lines have told.
    answers: Option<u64>,
}

/// How deep within objects and arrays a text has come.
#[derive(Debug, Default, Clone, Copy)]
struct NestingState {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl NestingState {
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

impl PartialMessage {
    /// If the line begins an object and does not end it.
    pub(crate) fn begun_by(line: &[u8]) -> Option<Self> {
        let mut unfinished = Self::default();
        unfinished.add(line);
        let NestingState {
            depth, is_in_string, ..
        } = unfinished.nesting;
        let begins = line.trim_ascii_start().starts_with(b"{");
        (begins && depth > 0 && !is_in_string).then_some(unfinished)
    }

    /// The id of the request that it answers, if its first lines tell it.
    pub(crate) fn answers(&mut self) -> Option<u64> {
        if self.answers.is_none() && self.text.len() < LONGEST_HEAD {
            let outline = Outline::of(&self.text).filter(Outline::is_whole_response);
            self.answers = outline.and_then(|outline| outline.id.and_then(number_of));
        }
        self.answers
    }

    /// Whether a line can be a part of it: within an object lines are indented, or none is.
    pub(crate) fn takes(&self, line: &[u8]) -> bool {
        match line.first() {
            Some(b'{') => self.is_flat,
            Some(first) if b" \t\"}]".contains(first) => true,
            Some(b'[') => self.is_flat && line.trim_ascii_end().len() == 1,
            Some(first) => self.is_flat && (first.is_ascii_digit() || b"-tfn,".contains(first)),
            None => false,
        }
    }

    /// Adds a line. The whole text, if that has ended the object.
    pub(crate) fn add(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        self.nesting = self.nesting.after(line);
        self.lines += 1;
        self.is_flat |= self.lines == 2 && line.starts_with(b"\"");
        self.text.extend_from_slice(line);
        self.text.push(b' ');
        (self.nesting.depth == 0).then(|| std::mem::take(&mut self.text))
    }

    /// Whether this line would end the object.
    pub(crate) fn is_ended_by(&self, line: &[u8]) -> bool {
        self.takes(line) && self.nesting.after(line).depth == 0
    }

    pub(crate) fn len(&self) -> usize {
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
        let cut = r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#;
        for (line, found) in [
            (
                format!("{RESPONSE}{PING}"),
                Within::Messages(vec![RESPONSE.as_bytes(), PING.as_bytes()], b""),
            ),
            (
                format!("{PING} {RESPONSE} {{"),
                Within::Messages(vec![PING.as_bytes(), RESPONSE.as_bytes()], b"{"),
            ),
            (
                format!("{PING}{cut}"),
                Within::Messages(vec![PING.as_bytes()], cut.as_bytes()),
            ),
            (
                format!("DEBUG: {RESPONSE}"),
                Within::Mentioned(vec![RESPONSE.as_bytes()]),
            ),
            (
                format!("set {{1}} of {{\"a\": 1}}: {RESPONSE}"),
                Within::Mentioned(vec![RESPONSE.as_bytes()]),
            ),
            (format!("DEBUG: {cut}"), Within::Unreadable(cut.as_bytes())),
            (format!("{{\"level\":20,\"out\":{RESPONSE}}}"), Within::Nothing),
            (format!("got {PING}"), Within::Nothing),
            ("ready {\"a\":1}".to_owned(), Within::Nothing),
            ("ready".to_owned(), Within::Nothing),
        ] {
            assert_eq!(messages_in(line.as_bytes()), found, "{line}");
        }
        for (text, complete) in [
            (format!("{PING}{RESPONSE}"), true),
            (format!("> {RESPONSE}"), true),
            (format!("10%\r{PING}\r{RESPONSE}\r"), true),
            (format!("{PING}{}", &RESPONSE[..30]), false),
            (format!("> {RESPONSE} {{"), false),
            ("ready".to_owned(), false),
        ] {
            assert_eq!(is_complete(text.as_bytes()), complete, "{text}");
        }
    }

    /// With notes of the server between its lines.
    #[test]
    fn lines_that_are_no_part_of_an_object_are_told() {
        for (pretty, noise) in [
            ("{\n  \"a\": [\n    { \"id\": 1 },\n    2\n  ]\n}", "INFO 5\" disk"),
            ("{\n\"a\": [\n{\n\"id\": 1\n},\n2,\ntrue\n]\n}", "INFO 5\" disk"),
        ] {
            let mut lines = pretty.lines();
            let mut unfinished = PartialMessage::begun_by(lines.next().unwrap().as_bytes()).unwrap();
            let mut whole = None;
            for line in lines {
                assert!(
                    !unfinished.takes(noise.as_bytes()) && unfinished.takes(line.as_bytes()),
                    "{line}"
                );
                whole = unfinished.add(line.as_bytes());
            }
            let read: serde_json::Value = serde_json::from_slice(&whole.unwrap()).unwrap();
            assert_eq!(read["a"][0]["id"], 1);
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
            let mut unfinished = PartialMessage::begun_by(lines.next().unwrap().as_bytes()).unwrap();
            let whole: Vec<_> = lines.map(|line| unfinished.add(line.as_bytes())).collect();
            let (last, before) = whole.split_last().unwrap();
            prop_assert!(before.iter().all(Option::is_none));
            let read: serde_json::Value = serde_json::from_slice(last.as_ref().unwrap()).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
