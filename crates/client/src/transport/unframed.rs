//! Messages that a server has not written as one line each: two on a line, behind words for people, in UTF-16, or over several lines.

use longhaul_wire::Message;
use serde_json::{Deserializer, value::RawValue};

/// The messages in a line that is none itself. Behind words for people only a response counts: they may be about what was received.
pub(super) fn messages_in(line: &[u8]) -> Vec<Vec<u8>> {
    let narrow: Vec<u8>;
    let line = match line.contains(&0) {
        true => {
            // Of UTF-16, in which ASCII has such a byte beside each.
            narrow = line.iter().copied().filter(|byte| *byte != 0).collect();
            narrow
                .strip_prefix(b"\xff\xfe")
                .or_else(|| narrow.strip_prefix(b"\xfe\xff"))
                .unwrap_or(&narrow)
        }
        false => line,
    };
    let Some(begin) = line.iter().position(|byte| *byte == b'{') else {
        return Vec::new();
    };
    let is_alone = line[..begin].trim_ascii().is_empty();
    Deserializer::from_slice(&line[begin..])
        .into_iter::<&RawValue>()
        .map_while(Result::ok)
        .map(|value| value.get().as_bytes())
        .filter(|text| match Message::parse(text) {
            Ok(Message::Response(_)) => true,
            parsed => is_alone && parsed.is_ok(),
        })
        .map(<[u8]>::to_vec)
        .collect()
}

/// The beginning of an object, of which more lines may come.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    text: Vec<u8>,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Unfinished {
    /// If the line begins an object and does not end it.
    pub(super) fn begun_by(line: &[u8]) -> Option<Self> {
        let mut unfinished = Self::default();
        unfinished.add(line);
        let begins = line.trim_ascii_start().starts_with(b"{");
        (begins && unfinished.depth > 0 && !unfinished.is_in_string).then_some(unfinished)
    }

    /// Adds a line. The whole text, if that has ended the object.
    pub(super) fn add(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        for byte in line {
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
        self.text.extend_from_slice(line);
        self.text.push(b' ');
        (self.depth == 0).then(|| std::mem::take(&mut self.text))
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
        for (line, found) in [
            (format!("{RESPONSE}{PING}").into_bytes(), &[RESPONSE, PING][..]),
            (format!("{PING} {RESPONSE} {{").into_bytes(), &[PING, RESPONSE]),
            (format!("DEBUG: {RESPONSE}").into_bytes(), &[RESPONSE]),
            (format!("got {PING}").into_bytes(), &[]),
            (wide(b"", RESPONSE), &[RESPONSE]),
            (wide(b"\xff\xfe", RESPONSE), &[RESPONSE]),
            (b"ready {\"a\":1}".to_vec(), &[]),
            (b"ready".to_vec(), &[]),
        ] {
            let messages = messages_in(&line);
            assert!(messages.iter().eq(found.iter().map(|text| text.as_bytes())), "{line:?}");
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
