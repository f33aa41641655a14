//! URLs with placeholders, whose values cannot change the host or the structure of the path.

use longhaul_client::Url;
use longhaul_command::{ArgumentTexts, Arguments, Template, TemplatePart};
use longhaul_core::Json;
use std::{collections::BTreeSet, fmt::Write as _};

use crate::remote_job::states::text_at;

/// What placeholders stand for.
pub(super) struct Values<'a> {
    pub(super) arguments: &'a Arguments<'a>,
    pub(super) optional: &'a BTreeSet<String>,
    pub(super) integers: &'a BTreeSet<String>,
    /// What `submit` has answered: `{/id}` is a place in it.
    pub(super) answer: Option<&'a Json>,
}

impl Values<'_> {
    pub(super) fn texts(&self, name: &str) -> Result<ArgumentTexts, String> {
        if let Some(answer) = self.answer.filter(|_| name.starts_with('/')) {
            let found = text_at(answer, name).filter(|text| !text.is_empty());
            return match found {
                Some(text) => Ok(ArgumentTexts::One(text)),
                None => Err(format!("the answer has no text or number at {name:?}")),
            };
        }
        let texts = self.arguments.texts(name, self.integers);
        match texts.map_err(|error| error.to_string())? {
            ArgumentTexts::Absent if !self.optional.contains(name) => Err(format!("`{name}` is required")),
            texts => Ok(texts),
        }
    }

    pub(super) fn one(&self, name: &str) -> Result<Option<String>, String> {
        match self.texts(name)? {
            ArgumentTexts::Absent => Ok(None),
            ArgumentTexts::One(text) => Ok(Some(text)),
            ArgumentTexts::Many(_) => Err(format!("`{name}` must be a single value here, not an array")),
        }
    }

    /// A text in which what is absent leaves nothing behind.
    pub(super) fn text(&self, template: &Template) -> Result<String, String> {
        let mut text = String::new();
        for part in template.parts() {
            match part {
                TemplatePart::Literal(literal) => text.push_str(literal),
                TemplatePart::Placeholder(name) => text.push_str(&self.one(name)?.unwrap_or_default()),
            }
        }
        Ok(text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum UrlPart {
    Literal(String),
    Value(String),
}

/// A URL with placeholders in its path and its query, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlTemplate {
    /// Scheme and host, and no path.
    origin: String,
    segments: Vec<Vec<UrlPart>>,
    /// What is between the `&` of the query.
    pairs: Vec<Vec<UrlPart>>,
    has_query: bool,
}

impl UrlTemplate {
    /// Parses a URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str, optional: &BTreeSet<String>) -> Result<Self, String> {
        let after_scheme = text.find("://").map_or(0, |at| at + 3);
        let end = text[after_scheme..].find(['/', '?', '#']);
        let (origin, rest) = text.split_at(end.map_or(text.len(), |end| after_scheme + end));
        if origin.contains(['{', '}']) {
            return Err("no placeholder can stand in the host: write the host itself".to_owned());
        }
        origin_of(origin)?;
        let template = Template::parse(rest).map_err(|error| error.to_string())?;
        let mut lists = [Vec::new(), Vec::new()];
        let (mut list, mut current) = (0, Vec::new());
        for part in template.parts() {
            match part {
                TemplatePart::Placeholder(name) => {
                    if list == 0 && optional.contains(name) {
                        return Err(format!(
                            "`{{{name}}}` is optional, and cannot stand in the path of a URL: make it required, or put it into the query"
                        ));
                    }
                    current.push(UrlPart::Value(name.to_owned()));
                }
                TemplatePart::Literal(literal) => {
                    let mut text = String::new();
                    for char in literal.chars() {
                        let begins = match (list, char) {
                            (_, '#') => return Err("a URL with `#` is none for a server: leave it out".to_owned()),
                            (0, '?') => Some(1),
                            (0, '/') => Some(0),
                            (1, '&') => Some(1),
                            _ => None,
                        };
                        match begins {
                            Some(next) => {
                                if !text.is_empty() {
                                    current.push(UrlPart::Literal(std::mem::take(&mut text)));
                                }
                                lists[list].push(std::mem::take(&mut current));
                                list = next;
                            }
                            None => text.push(char),
                        }
                    }
                    if !text.is_empty() {
                        current.push(UrlPart::Literal(text));
                    }
                }
            }
        }
        lists[list].push(current);
        let [mut segments, pairs] = lists;
        // What is before the first slash.
        segments.remove(0);
        Ok(Self {
            origin: origin.to_owned(),
            segments,
            pairs,
            has_query: list == 1,
        })
    }

    /// The scheme and the host.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The names in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let parts = self.segments.iter().chain(&self.pairs).flatten();
        parts.filter_map(|part| match part {
            UrlPart::Value(name) => Some(name.as_str()),
            UrlPart::Literal(_) => None,
        })
    }

    /// The URL with these values.
    ///
    /// # Errors
    /// Which value cannot stand where it would, for the caller to read.
    pub(super) fn expand(&self, values: &Values<'_>) -> Result<Url, String> {
        let mut text = self.origin.clone();
        for segment in &self.segments {
            text.push('/');
            let begin = text.len();
            for part in segment {
                match part {
                    UrlPart::Literal(literal) => text.push_str(literal),
                    UrlPart::Value(name) => {
                        let value = values.one(name)?.filter(|value| !value.is_empty());
                        let value = value.ok_or_else(|| format!("`{name}` must not be empty here"))?;
                        encode(&value, &mut text);
                    }
                }
            }
            // These would leave the folder they stand in.
            let plain = text[begin..].to_ascii_lowercase().replace("%2e", ".");
            if let (true, Some(name)) = (matches!(plain.as_str(), "." | ".."), name_in(segment)) {
                return Err(format!("`{name}` must not be `.` or `..` here"));
            }
        }
        let mut separator = '?';
        for pair in self.has_query.then_some(&self.pairs).into_iter().flatten() {
            for pair in expand_pair(pair, values)? {
                text.push(separator);
                text.push_str(&pair);
                separator = '&';
            }
        }
        let url = Url::parse(&text).map_err(|error| error.to_string())?;
        let segments = url.path_segments().map_or(0, Iterator::count);
        match segments == self.segments.len().max(1) {
            true => Ok(url),
            false => Err("the arguments must not change the path of the URL".to_owned()),
        }
    }
}

fn name_in(parts: &[UrlPart]) -> Option<&str> {
    parts.iter().find_map(|part| match part {
        UrlPart::Value(name) => Some(name.as_str()),
        UrlPart::Literal(_) => None,
    })
}

/// A pair of the query: none if a value in it is absent, one for each element of an array.
fn expand_pair(pair: &[UrlPart], values: &Values<'_>) -> Result<Vec<String>, String> {
    let mut texts = vec![String::new()];
    let several = pair.iter().filter(|part| matches!(part, UrlPart::Value(_))).count() > 1;
    for part in pair {
        match part {
            UrlPart::Literal(literal) => texts.iter_mut().for_each(|text| text.push_str(literal)),
            UrlPart::Value(name) if several => match values.one(name)? {
                Some(value) => texts.iter_mut().for_each(|text| encode(&value, text)),
                None => return Ok(Vec::new()),
            },
            UrlPart::Value(name) => {
                let before = texts.pop().unwrap_or_default();
                let values = match values.texts(name)? {
                    ArgumentTexts::Absent => return Ok(Vec::new()),
                    ArgumentTexts::One(value) => vec![value],
                    ArgumentTexts::Many(values) => values,
                };
                texts = values
                    .iter()
                    .map(|value| {
                        let mut text = before.clone();
                        encode(value, &mut text);
                        text
                    })
                    .collect();
            }
        }
    }
    Ok(texts)
}

/// Percent-encodes all but the unreserved characters (RFC 3986, 2.3).
fn encode(value: &str, text: &mut String) {
    for byte in value.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => text.push(char::from(byte)),
            // Writing to a string does not fail.
            false => drop(write!(text, "%{byte:02X}")),
        }
    }
}

/// A URL's origin.
///
/// # Errors
/// It is none of an HTTP server.
pub(super) fn origin_of(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || !text.contains("://") {
        return Err("a URL must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user name or password in a URL is not supported: put it into `headers`".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expand(text: &str, arguments: &str, answer: Option<&str>) -> Result<String, String> {
        let optional = BTreeSet::from(["o".to_owned()]);
        let integers = BTreeSet::from(["n".to_owned()]);
        let arguments = Arguments::parse(arguments).unwrap();
        let answer = answer.map(|answer| Json::parse(answer).unwrap());
        let values = Values {
            arguments: &arguments,
            optional: &optional,
            integers: &integers,
            answer: answer.as_ref(),
        };
        UrlTemplate::parse(text, &optional)?.expand(&values).map(String::from)
    }

    #[test]
    fn values_stand_where_they_are_put() {
        for (text, arguments, expected) in [
            ("http://h", "{}", "http://h/"),
            (
                "http://h/a/{x}.json",
                r#"{"x":"a b/c?d"}"#,
                "http://h/a/a%20b%2Fc%3Fd.json",
            ),
            ("http://h/{n}", r#"{"n":5.0}"#, "http://h/5"),
            (
                "http://h/a?x={x}&o={o}&z=1",
                r#"{"x":"&=#","o":null}"#,
                "http://h/a?x=%26%3D%23&z=1",
            ),
            ("http://h?o={o}", r#"{"o":["a","b"]}"#, "http://h/?o=a&o=b"),
            ("http://h/a?o={o}", "{}", "http://h/a"),
        ] {
            assert_eq!(expand(text, arguments, None).unwrap(), expected, "{text}");
        }
        let answered = expand("http://h/{/job/id}/x", "{}", Some(r#"{"job":{"id":"../7"}}"#));
        assert_eq!(answered.unwrap(), "http://h/..%2F7/x");
    }

    #[test]
    fn what_would_change_a_url_is_refused() {
        for (text, arguments, expected) in [
            ("http://{x}/a", "{}", "no placeholder can stand in the host"),
            ("http://h{x}", "{}", "no placeholder can stand in the host"),
            ("http://u:p@h/", "{}", "a user name or password"),
            ("ftp://h/", "{}", "http:// or https://"),
            ("http://h/{o}", "{}", "optional"),
            ("http://h/a#{x}", "{}", "`#`"),
            ("http://h/{x}", r#"{"x":""}"#, "must not be empty"),
            ("http://h/{x}/a", r#"{"x":".."}"#, "`.` or `..`"),
            ("http://h/%2E{x}/a", r#"{"x":"."}"#, "`.` or `..`"),
            ("http://h/{x}", "{}", "`x` is required"),
        ] {
            let said = expand(text, arguments, None).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn no_value_changes_host_path_or_query(x in "(\\PC|[./?#%&@:\\\\]){1,6}", y in "\\PC{0,6}") {
            let arguments = serde_json::json!({"x": x, "y": y}).to_string();
            if let Ok(url) = expand("http://h:81/a/{x}/b?y={y}&z=1", &arguments, None) {
                let url = Url::parse(&url).unwrap();
                prop_assert_eq!(url.origin().ascii_serialization(), "http://h:81");
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!((segments.len(), segments[0], segments[2]), (3, "a", "b"));
                let pairs: Vec<_> = url.query_pairs().collect();
                prop_assert_eq!(pairs, [("y".into(), y.into()), ("z".into(), "1".into())]);
            } else {
                prop_assert!(matches!(x.as_str(), "." | ".."));
            }
        }
    }
}
