//! Editing members of a JSON object in its text. Every other byte stays unchanged.

use std::{borrow::Cow, ops::Range};

/// A change to one member of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Edit<'a> {
    /// Sets the member to this value (JSON text).
    Set(&'a str, &'a str),
    /// Adds the member with this value (JSON text) if it is absent.
    Default(&'a str, &'a str),
    /// Removes the member.
    Remove(&'a str),
    /// Removes the member unless it is an object.
    RemoveUnlessObject(&'a str),
    /// Edits the object in this member. If the member is absent or not an object, it becomes an object with what the edits add.
    Within(&'a str, &'a [Edit<'a>]),
}

/// The text is not an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object")]
pub(crate) struct NotAnObject;

/// Appends `object` with `edits` to `out`. On an error `out` is unchanged.
///
/// `object` must be valid JSON. For other text the result is unspecified, but the function neither panics nor loops. Every
/// occurrence of a duplicate member is edited.
pub(crate) fn splice(out: &mut String, object: &str, edits: &[Edit<'_>]) -> Result<(), NotAnObject> {
    let length = out.len();
    let spliced = Splice::new(out, object, edits).and_then(Splice::run);
    if spliced.is_err() {
        out.truncate(length);
    }
    spliced
}

impl<'a> Edit<'a> {
    fn key(&self) -> &'a str {
        match *self {
            Self::Set(key, _)
            | Self::Default(key, _)
            | Self::Remove(key)
            | Self::RemoveUnlessObject(key)
            | Self::Within(key, _) => key,
        }
    }

    /// Whether the edit adds the member to an object that lacks it.
    fn adds(&self) -> bool {
        match self {
            Self::Set(..) | Self::Default(..) => true,
            Self::Remove(_) | Self::RemoveUnlessObject(_) => false,
            Self::Within(_, edits) => edits.iter().any(Self::adds),
        }
    }
}

/// The state of a splice.
struct Splice<'o, 's> {
    out: &'o mut String,
    source: &'s str,
    edits: &'s [Edit<'s>],
    scan: Scan<'s>,
    /// The source before this offset has been copied to `out` or dropped.
    copied: usize,
    /// The end of the last kept member, or of the opening brace.
    kept_until: usize,
    /// Whether any member was kept.
    any_kept: bool,
    /// A leading member was dropped, so its comma must be dropped too.
    drop_to_next: bool,
    /// Bit n: edit n has found its member.
    met: u64,
}

impl<'o, 's> Splice<'o, 's> {
    fn new(out: &'o mut String, source: &'s str, edits: &'s [Edit<'s>]) -> Result<Self, NotAnObject> {
        debug_assert!(edits.len() <= 64, "one bit an edit");
        let mut scan = Scan {
            text: source.as_bytes(),
            at: 0,
        };
        scan.skip_blanks();
        scan.expect(b'{')?;
        let opened = scan.at;
        Ok(Self {
            out,
            source,
            edits,
            scan,
            copied: 0,
            kept_until: opened,
            any_kept: false,
            drop_to_next: false,
            met: 0,
        })
    }

    fn run(mut self) -> Result<(), NotAnObject> {
        while let Some(member) = self.scan.member()? {
            if std::mem::take(&mut self.drop_to_next) {
                self.copied = member.start;
            }
            self.member(&member)?;
        }
        self.add_missing();
        self.copy_until(self.source.len());
        Ok(())
    }

    fn member(&mut self, member: &Member) -> Result<(), NotAnObject> {
        let key = decoded(&self.source[member.key.clone()]);
        let edits = self.edits;
        let found = edits.iter().enumerate().find(|(_, edit)| edit.key() == key);
        let Some((nth, edit)) = found else {
            self.keep(member);
            return Ok(());
        };
        self.met |= 1 << nth;
        let value = &self.source[member.value.clone()];
        let is_object = value.starts_with('{');
        match edit {
            Edit::Remove(_) => self.omit(member),
            Edit::RemoveUnlessObject(_) if !is_object => self.omit(member),
            Edit::Set(_, new) => self.replace(member).push_str(new),
            Edit::Within(_, edits) if is_object || edit.adds() => {
                let within = if is_object { value } else { "{}" };
                splice(self.replace(member), within, edits)?;
            }
            Edit::Default(..) | Edit::RemoveUnlessObject(_) | Edit::Within(..) => self.keep(member),
        }
        Ok(())
    }

    /// Keeps the member's key. The caller appends the new value.
    fn replace(&mut self, member: &Member) -> &mut String {
        self.copy_until(member.value.start);
        self.copied = member.value.end;
        self.keep(member);
        self.out
    }

    fn keep(&mut self, member: &Member) {
        self.kept_until = member.value.end;
        self.any_kept = true;
    }

    fn omit(&mut self, member: &Member) {
        // Drop the comma before the member if a member is kept before it, else the comma after it.
        self.copy_until(self.kept_until);
        self.copied = member.value.end;
        self.drop_to_next = !self.any_kept;
    }

    fn add_missing(&mut self) {
        for (nth, edit) in self.edits.iter().enumerate() {
            if self.met & (1 << nth) != 0 || !edit.adds() {
                continue;
            }
            self.copy_until(self.kept_until);
            if std::mem::replace(&mut self.any_kept, true) {
                self.out.push(',');
            }
            crate::json::push_string(self.out, edit.key());
            self.out.push(':');
            match edit {
                Edit::Set(_, value) | Edit::Default(_, value) => self.out.push_str(value),
                Edit::Within(_, edits) => {
                    // The literal is an object, so this cannot fail.
                    let _ = splice(self.out, "{}", edits);
                }
                Edit::Remove(_) | Edit::RemoveUnlessObject(_) => {}
            }
        }
    }

    fn copy_until(&mut self, end: usize) {
        if let Some(piece) = self.source.get(self.copied..end) {
            self.out.push_str(piece);
            self.copied = end;
        }
    }
}

/// Decodes a key. A key with invalid escapes matches no edit and is returned unchanged.
fn decoded(key: &str) -> Cow<'_, str> {
    if !key.contains('\\') {
        return Cow::Borrowed(key);
    }
    serde_json::from_str(&format!("\"{key}\"")).map_or(Cow::Borrowed(key), Cow::Owned)
}

/// The position of a member in the text.
struct Member {
    /// The key's opening quote.
    start: usize,
    /// The key without its quotes.
    key: Range<usize>,
    value: Range<usize>,
}

/// A scanner over JSON text. It finds where values end and does not validate them.
struct Scan<'s> {
    text: &'s [u8],
    at: usize,
}

impl Scan<'_> {
    /// The next member; `None` at the closing brace.
    fn member(&mut self) -> Result<Option<Member>, NotAnObject> {
        self.skip_blanks();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_blanks();
        }
        if self.peek() == Some(b'}') {
            return Ok(None);
        }
        let start = self.at;
        let quoted = self.string()?;
        self.skip_blanks();
        self.expect(b':')?;
        self.skip_blanks();
        let value = self.value()?;
        Ok(Some(Member {
            start,
            key: quoted.start + 1..quoted.end - 1,
            value,
        }))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotAnObject> {
        if self.peek() != Some(byte) {
            return Err(NotAnObject);
        }
        self.at += 1;
        Ok(())
    }

    /// A string with its quotes.
    fn string(&mut self) -> Result<Range<usize>, NotAnObject> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            match self.peek().ok_or(NotAnObject)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(start..self.at)
    }

    fn value(&mut self) -> Result<Range<usize>, NotAnObject> {
        match self.peek().ok_or(NotAnObject)? {
            b'"' => self.string(),
            b'{' | b'[' => self.nested(),
            _ => self.scalar(),
        }
    }

    /// Skips an array or object by counting brackets, so deep nesting uses no stack.
    fn nested(&mut self) -> Result<Range<usize>, NotAnObject> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek().ok_or(NotAnObject)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(start..self.at);
            }
        }
    }

    fn scalar(&mut self) -> Result<Range<usize>, NotAnObject> {
        let start = self.at;
        while !matches!(
            self.peek(),
            None | Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
        ) {
            self.at += 1;
        }
        if self.at == start {
            Err(NotAnObject)
        } else {
            Ok(start..self.at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn spliced(object: &str, edits: &[Edit<'_>]) -> String {
        let mut out = String::new();
        splice(&mut out, object, edits).unwrap();
        out
    }

    #[test]
    fn a_member_at_any_position_can_be_removed() {
        for (text, without) in [
            (r#"{"x":1}"#, "{}"),
            (r#"{ "x" : 1 , "b":2 }"#, r#"{"b":2 }"#),
            (r#"{"a":1, "x":[{"x":"}"}]}"#, r#"{"a":1}"#),
            (r#"{"a":1,"x":1 , "b":2}"#, r#"{"a":1 , "b":2}"#),
            (r#"{"x":1,"x":2,"a":3,"x":4}"#, r#"{"a":3}"#),
            (r#"{"\u0078":1,"y":"\\"}"#, r#"{"y":"\\"}"#),
        ] {
            assert_eq!(spliced(text, &[Edit::Remove("x")]), without, "{text}");
        }
    }

    #[test]
    fn edits_set_add_and_nest() {
        let edits = [
            Edit::Set("a", "0"),
            Edit::Default("b", "1"),
            Edit::Within("m", &[Edit::Set("k", "2")]),
        ];
        assert_eq!(spliced("{ }", &edits), r#"{"a":0,"b":1,"m":{"k":2} }"#);
        assert_eq!(
            spliced(r#"{"m":{"k":9,"l":8},"b":null,"a":7}"#, &edits),
            r#"{"m":{"k":2,"l":8},"b":null,"a":0}"#
        );
        assert_eq!(spliced(r#"{"m":null}"#, &edits), r#"{"m":{"k":2},"a":0,"b":1}"#);
        assert_eq!(
            spliced(r#"{"z":1}"#, &[Edit::Within("m", &[Edit::Remove("k")])]),
            r#"{"z":1}"#
        );
        assert_eq!(
            spliced(
                r#"{"s":[1],"t":{}}"#,
                &[Edit::RemoveUnlessObject("s"), Edit::RemoveUnlessObject("t")]
            ),
            r#"{"t":{}}"#
        );
        assert_eq!(
            spliced(r#"{"x":1}"#, &[Edit::Remove("x"), Edit::Set("y", "2")]),
            r#"{"y":2}"#
        );
    }

    #[test]
    fn text_that_is_not_an_object_is_refused_and_nothing_is_appended() {
        let mut out = String::from("before");
        // The last ones fail after something has been written.
        for text in [
            "",
            "[]",
            "5",
            "null",
            "{",
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":"\"#,
            r#"{"a":[}"#,
            r#"{"k":0,"a"#,
            r#"{"k":0,5}"#,
        ] {
            assert_eq!(
                splice(&mut out, text, &[Edit::Set("k", "1")]),
                Err(NotAnObject),
                "{text}"
            );
            assert_eq!(out, "before");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z\"\\\\{}\\[\\],: \u{e9}\n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map("[a-e_\"\\\\]{0,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = serde_json::Map<String, Value>> {
        proptest::collection::hash_map("[a-e_\"\\\\]{0,3}", value(), 0..6)
            .prop_map(|members| members.into_iter().collect())
    }

    proptest! {
        #[test]
        fn splicing_text_equals_editing_the_tree(members in object(), pretty in any::<bool>()) {
            let source = Value::Object(members.clone());
            let text = if pretty { format!("{source:#}") } else { source.to_string() };
            let edits = [Edit::Set("a", "[1]"), Edit::Default("b", "2"), Edit::Remove("c"), Edit::Within("d", &[Edit::Set("a", "3"), Edit::Remove("b")])];
            let mut expected = members;
            expected.insert("a".into(), json!([1]));
            expected.entry("b").or_insert(json!(2));
            expected.remove("c");
            let mut inner = expected.get("d").and_then(Value::as_object).cloned().unwrap_or_default();
            inner.insert("a".into(), json!(3));
            inner.remove("b");
            expected.insert("d".into(), Value::Object(inner));
            prop_assert_eq!(serde_json::from_str::<Value>(&spliced(&text, &edits)).unwrap(), Value::Object(expected));
        }

        #[test]
        fn without_edits_every_byte_is_unchanged(members in object(), pretty in any::<bool>()) {
            let source = Value::Object(members);
            let text = if pretty { format!(" {source:#}\n") } else { source.to_string() };
            prop_assert_eq!(spliced(&text, &[Edit::Remove("not there")]), text);
        }

        #[test]
        fn no_text_panics(text in "[{}\\[\\]\",:\\\\a1 \u{e9}]{0,40}") {
            let _ = splice(&mut String::new(), &text, &[Edit::Remove("a"), Edit::Set("", "1"), Edit::Within("1", &[Edit::Set("a", "1")])]);
        }
    }
}
