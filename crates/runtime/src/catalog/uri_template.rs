//! Matching URIs with URI templates (RFC 6570): which values of the variables give this URI.
//!
//! Expansion loses information, so only some templates can be matched: those that consist of literal text, `{x}` (one
//! path segment or less), `{+x}` (anything), `{/x}` (one segment with its slash) and, at the end, `{?x,y}` (a query, every part of
//! it optional and in any order).

use percent_encoding::percent_decode_str;
use regex::Regex;
use std::sync::Arc;

/// A template that URIs can be matched with.
#[derive(Debug, Clone)]
pub struct UriTemplate {
    text: Arc<str>,
    path: Regex,
    names: Vec<String>,
    query: Vec<String>,
}

/// A template that URIs cannot be matched with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URI template {template} is not usable: {why}")]
pub struct InvalidTemplate {
    /// The template.
    pub template: Arc<str>,
    /// What is wrong with it.
    pub why: String,
}

impl UriTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// [`InvalidTemplate`] if it is broken or cannot be matched.
    ///
    /// ```
    /// use longhaul_runtime::UriTemplate;
    /// let template = UriTemplate::new("db://{table}/rows{?limit}").unwrap();
    /// let found = template.match_uri("db://users/rows?limit=5").unwrap();
    /// assert_eq!(found, [("table".into(), "users".into()), ("limit".into(), "5".into())]);
    /// assert!(template.match_uri("db://users/columns").is_none());
    /// assert!(UriTemplate::new("db://{table*}").is_err());
    /// ```
    pub fn new(template: impl Into<Arc<str>>) -> Result<Self, InvalidTemplate> {
        let text = template.into();
        let wrong = |why: String| InvalidTemplate {
            template: Arc::clone(&text),
            why,
        };
        let (mut pattern, mut names, mut query) = (String::from("^"), Vec::new(), Vec::new());
        let mut rest = &*text;
        while let Some((literal, expression)) = rest.split_once('{') {
            if !query.is_empty() {
                return Err(wrong("nothing may follow {?…}".to_owned()));
            }
            let (expression, after) = expression
                .split_once('}')
                .ok_or_else(|| wrong("a { is not closed".to_owned()))?;
            pattern.push_str(&regex::escape(literal));
            let (operator, list) = match expression.strip_prefix(['+', '/', '?']) {
                Some(list) => (&expression[..1], list),
                None => ("", expression),
            };
            let variables: Vec<String> = list.split(',').map(str::to_owned).collect();
            if let Some(bad) = variables.iter().find(|name| !is_name(name)) {
                return Err(wrong(format!(
                    "{{{bad}}} is none of {{x}}, {{+x}}, {{/x}} and {{?x,y}}"
                )));
            }
            match (operator, &*variables) {
                ("?", _) => query = variables,
                (_, [one]) => {
                    pattern.push_str(match operator {
                        "+" => "(.+)",
                        "/" => "/([^/?#]+)",
                        _ => "([^/?#]+)",
                    });
                    names.push(one.clone());
                }
                _ => return Err(wrong("only {?…} may hold several variables".to_owned())),
            }
            rest = after;
        }
        if !query.is_empty() && !rest.is_empty() {
            return Err(wrong("nothing may follow {?…}".to_owned()));
        }
        if rest.contains('}') {
            return Err(wrong("a } closes nothing".to_owned()));
        }
        pattern.push_str(&regex::escape(rest));
        pattern.push('$');
        let mut all: Vec<&String> = names.iter().chain(&query).collect();
        all.sort();
        if let Some(twice) = all.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("{} occurs twice", twice[0])));
        }
        let path = Regex::new(&pattern).map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            text,
            path,
            names,
            query,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &Arc<str> {
        &self.text
    }

    /// Whether it has a variable of this name.
    pub fn has(&self, variable: &str) -> bool {
        self.names.iter().chain(&self.query).any(|name| name == variable)
    }

    /// The values of its variables that give `uri`, decoded; `None` if none do. Members of a query that it does not name, or that
    /// are not UTF-8, match nothing.
    pub fn match_uri(&self, uri: &str) -> Option<Vec<(String, String)>> {
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) if !self.query.is_empty() => (path, Some(query)),
            _ => (uri, None),
        };
        let found = self.path.captures(path)?;
        let values = found.iter().skip(1).flatten();
        let mut variables = Vec::with_capacity(self.names.len() + self.query.len());
        for (name, value) in self.names.iter().zip(values) {
            variables.push((name.clone(), decoded(value.as_str())?));
        }
        for part in query.into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let known = self.query.iter().find(|known| *known == name)?;
            if variables.iter().any(|(taken, _)| taken == known) {
                return None;
            }
            variables.push((known.clone(), decoded(value)?));
        }
        Some(variables)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn decoded(value: &str) -> Option<String> {
    percent_decode_str(value).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(template: &str, uri: &str) -> Option<Vec<String>> {
        let found = UriTemplate::new(template).unwrap().match_uri(uri)?;
        Some(found.into_iter().map(|(_, value)| value).collect())
    }

    #[test]
    fn each_expression_takes_what_is_its() {
        assert_eq!(
            values("test://{id}/data", "test://1%2F2/data"),
            Some(vec!["1/2".into()])
        );
        assert_eq!(values("test://{id}/data", "test://1/2/data"), None);
        assert_eq!(
            values("file:///{+path}", "file:///a/b.txt"),
            Some(vec!["a/b.txt".into()])
        );
        assert_eq!(values("x:{/a}{/b}", "x:/1/2"), Some(vec!["1".into(), "2".into()]));
        assert_eq!(values("x:a{?p,q}", "x:a?q=2&p=1"), Some(vec!["2".into(), "1".into()]));
        assert_eq!(values("x:a{?p,q}", "x:a"), Some(vec![]));
        assert_eq!(values("x:a{?p,q}", "x:a?r=1"), None);
        assert_eq!(values("x:a{?p}", "x:a?p=1&p=2"), None);
        assert_eq!(values("x:{a}", "x:%ff"), None);
        assert_eq!(values("x:a.c", "x:abc"), None, "literal text is literal");
    }

    #[test]
    fn what_cannot_be_read_backwards_is_refused() {
        for broken in [
            "x:{",
            "x:{}",
            "x:}",
            "x:{a*}",
            "x:{a:3}",
            "x:{;a}",
            "x:{a,b}",
            "x:{?a}/b",
            "x:{?a}{b}",
            "x:{a}{a}",
        ] {
            assert!(UriTemplate::new(broken).is_err(), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(template in "\\PC{0,30}", uri in "\\PC{0,30}") {
            if let Ok(template) = UriTemplate::new(template) {
                let _ = template.match_uri(&uri);
            }
        }
    }
}
