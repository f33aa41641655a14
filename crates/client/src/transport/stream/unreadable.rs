//! What can be told of a message that is no JSON: a server that writes `NaN`, a control character or another encoding has still answered a request.

/// The members of a message that say what it is, as far as they can be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline<'a> {
    pub(crate) id: Option<&'a [u8]>,
    has_method: bool,
    has_outcome: bool,
    /// It says that it is of JSON-RPC.
    is_marked: bool,
    /// It is in the notation of a language such as Python.
    is_foreign: bool,
}

impl<'a> Outline<'a> {
    /// `None` for what is no object, such as a line for people.
    pub(crate) fn of(message: &'a [u8]) -> Option<Self> {
        let message = message.trim_ascii();
        if message.first() != Some(&b'{') {
            return None;
        }
        let (mut outline, mut depth, mut at) = (Self::default(), 0_usize, 0);
        while let Some(byte) = message.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                // Of a server that writes its own language's notation.
                b'"' | b'\'' => {
                    let end = end_of_string(message, at);
                    let rest = message[end..].trim_ascii_start();
                    if depth == 1
                        && let Some(value) = rest.strip_prefix(b":")
                    {
                        outline.is_foreign |= *byte == b'\'';
                        outline.note(
                            message.get(at + 1..end - 1).unwrap_or_default(),
                            value.trim_ascii_start(),
                        );
                        at = message.len() - value.len();
                        continue;
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        Some(outline)
    }

    /// Notes the id of a response that has it last, from the end of its message. Its beginning had no id.
    pub(crate) fn note_last_id(&mut self, end: &'a [u8]) {
        if self.id.is_none() && self.has_outcome && !self.has_method {
            self.id = last_id(end);
        }
    }

    fn note(&mut self, key: &[u8], value: &'a [u8]) {
        match key {
            b"id" => {
                let end = match value.first() {
                    Some(b'"' | b'\'') => end_of_string(value, 0),
                    _ => value
                        .iter()
                        .position(|byte| b",} \t".contains(byte))
                        .unwrap_or(value.len()),
                };
                self.id = Some(&value[..end]);
            }
            b"jsonrpc" => self.is_marked = true,
            b"method" => self.has_method = true,
            b"result" | b"error" => self.has_outcome = true,
            _ => {}
        }
    }

    /// Whether it may answer any request: it is of JSON-RPC, and has no id that another request could have.
    pub(crate) fn may_be_anyones(&self) -> bool {
        let could_be_others = |id: &[u8]| {
            id.starts_with(b"\"")
                || id
                    .first()
                    .is_some_and(|first| b"'-".contains(first) || first.is_ascii_digit())
        };
        self.is_marked && !self.id.is_some_and(could_be_others)
    }

    /// Whether it is a request or a notification.
    pub(crate) fn has_method(&self) -> bool {
        self.has_method
    }

    /// Whether it can be a response. Programs print objects of their own, and records of their logs.
    pub(crate) fn is_response(&self) -> bool {
        let has_one = self.has_outcome || self.id.is_some();
        self.is_marked && !self.has_method && has_one || self.is_whole_response() && !self.is_foreign
    }

    /// Whether it has all that a response has.
    pub(crate) fn is_whole_response(&self) -> bool {
        !self.has_method && self.has_outcome && self.id.is_some()
    }
}

/// The value of `id`, if that is the last member of the object that ends here. It is a string or a number, so the last brace is that of the object.
pub(crate) fn last_id(end: &[u8]) -> Option<&[u8]> {
    let members = end.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let is_of_value = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let begin = match members.strip_suffix(b"\"") {
        Some(text) => text.iter().rposition(|byte| *byte == b'"')?,
        None => members.iter().rposition(|byte| !is_of_value(byte))? + 1,
    };
    let (before, id) = members.split_at(begin);
    let before = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before = before.strip_suffix(b"\"id\"")?.trim_ascii_end();
    before.ends_with(b",").then_some(id)
}

/// Behind the string that begins at `from`.
fn end_of_string(text: &[u8], from: usize) -> usize {
    let (mut at, quote) = (from + 1, text.get(from));
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if Some(byte) == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len().max(from + 1)
}

/// The number that an id of another type stands for: `"7"` and `7.0` for 7.
pub(crate) fn number_of(id: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(id).ok()?.trim_matches(['"', '\'']);
    let text = text
        .split_once('.')
        .map_or(text, |(whole, rest)| match rest.bytes().all(|byte| byte == b'0') {
            true => whole,
            false => text,
        });
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outline(message: &[u8]) -> (Option<u64>, bool) {
        let outline = Outline::of(message).unwrap();
        (outline.id.and_then(number_of), outline.is_response())
    }

    #[test]
    fn the_id_and_the_kind_of_a_message_that_is_no_json_are_found() {
        let cases: [(&[u8], Option<u64>, bool); 14] = [
            (
                b"{'id': '7', 'result': {'text': 'it\\'s {'}, 'jsonrpc': '2.0'}",
                Some(7),
                true,
            ),
            (b"{'id': 7, 'error': None}", Some(7), false),
            (br#"{"id":7,"title":"a"}"#, Some(7), false),
            (br#"{"level":"error","error":"x"}"#, None, false),
            (br#"{"jsonrpc":"2.0","id":7}"#, Some(7), true),
            (
                br#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN,"method":"a"}}"#,
                Some(7),
                true,
            ),
            (br#"{"result":{"id":1,"x":[NaN]},"id":7}"#, Some(7), true),
            (
                b"{\"id\": \"7\" , \"result\":{\"text\":\"a\x01\xe9\\\"}\"}}",
                Some(7),
                true,
            ),
            (br#"{"id":7.0,"error":{"code":1e999}}"#, Some(7), true),
            (br#"{"id":null,"error":{"code":Infinity}}"#, None, true),
            (
                br#"{"method":"notifications/progress","params":{"id":7,"result":NaN}}"#,
                None,
                false,
            ),
            (br#"{"id":7,"method":"ping","params":NaN}"#, Some(7), false),
            (br#"{"id":7,"result":{"cut"#, Some(7), true),
            (br#"{"level":"info","n":NaN}"#, None, false),
        ];
        for (message, id, is_response) in cases {
            assert_eq!(
                outline(message),
                (id, is_response),
                "{}",
                String::from_utf8_lossy(message)
            );
        }
        assert_eq!(Outline::of(b"caf\xe9 {\"id\":7}"), None);
    }

    #[test]
    fn the_id_at_the_end_of_a_response_is_found() {
        let found = |begin: &str, end: &str| {
            let mut outline = Outline::of(begin.as_bytes()).unwrap_or_default();
            outline.note_last_id(end.as_bytes());
            outline.id.and_then(number_of)
        };
        let begin = r#"{"result":{"id":1,"content":[{"type":"text","text":"xx"#;
        for (end, id) in [
            (r#"xx"}]},"jsonrpc":"2.0","id":7}"#, Some(7)),
            (r#"xx"}]},"jsonrpc":"2.0","id":"7"}"#, Some(7)),
            ("xx\"}]} , \"id\" :\t7 } \r", Some(7)),
            (r#"xx"}]},"jsonrpc":"2.0","id":7.0}"#, Some(7)),
            // Of an object in the result, of a text, and of another name.
            (r#"xx"}],"id":7}}"#, None),
            (r#"xx"}],"x":{"a":1,"id":7}}"#, None),
            (r#"xx"}]},"x":",\"id\":7}"}"#, None),
            (r#"xx"}]},"x":",\"id\":\"7"}"#, None),
            (r#"xx"}]},"id":7,"jsonrpc":"2.0"}"#, None),
            (r#"xx"}]},"x.id":7}"#, None),
            (r#"xx"}]},"id":null}"#, None),
            (r#"xx"}]},"id":7"#, None),
            (r#"xx"}]},"id":7}]"#, None),
            (r#""}"#, None),
            ("", None),
        ] {
            assert_eq!(found(begin, end), id, "{end}");
        }
        let end = r#"xx","id":7}"#;
        assert_eq!(found(r#"{"params":{"x":"xx"#, end), None, "perhaps a request");
        assert_eq!(found(r#"{"id":6,"result":{"x":"xx"#, end), Some(6));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Outline::of(&[b"{", &bytes[..]].concat()), last_id(&[&bytes[..], b"}"].concat()));
        }

        /// Whatever is in the result.
        #[test]
        fn the_id_of_any_result_is_found(id in any::<u64>(), text in any::<String>(), depth in 0..200_usize) {
            let result = format!("{}{}{}", "[".repeat(depth), serde_json::json!({"id": 1, "method": text}), "]".repeat(depth));
            for message in [format!(r#"{{"id":{id},"result":{result},"x":NaN}}"#), format!(r#"{{"result":{result},"x":NaN,"id":{id}}}"#)] {
                prop_assert_eq!(outline(message.as_bytes()), (Some(id), true));
            }
        }
    }
}
