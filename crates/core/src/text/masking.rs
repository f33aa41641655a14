//! Hiding secrets in what is shown to people.

use serde_json::Value;
use std::{borrow::Cow, ops::Range};

/// Shown in place of a secret.
pub const MASK: &str = "***";
/// How the names of secrets end, in lower case and without `-` and `_`.
const SECRETS: [&str; 20] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "signingkey",
    "encryptionkey",
    "licensekey",
    "authkey",
    "sharedkey",
    "connectionstring",
];
/// Names of secrets that are also how other words end: the whole name, or its last word.
const SHORT_SECRETS: [&str; 14] = [
    "pwd", "pw", "pass", "otp", "totp", "pin", "sig", "auth", "jwt", "bearer", "creds", "cvv", "cvc", "dsn",
];
/// Names of secrets in the query of a URL, where other texts have them for something else.
const QUERY_SECRETS: [&str; 2] = ["key", "code"];
/// By one of these an object is taken for a schema.
const OF_SCHEMA: [&str; 7] = ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"];
/// No secrets, although their names are like those of some: the token of a request's progress, and the folder of a process.
const PROGRESS_TOKEN: &str = "progresstoken";
const WORKING_FOLDER: &str = "PWD";
/// How tokens begin that can be known by that.
const TOKENS: [&str; 9] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
];

/// Hides secrets: the values of members and parameters whose names say so, what follows `Bearer`, passwords in URLs, and known kinds of tokens.
///
/// ```
/// let shown = longhaul_core::Masking::default().text("https://example.com/mcp?key=k-1&n=1").into_owned();
/// assert_eq!(shown, "https://example.com/mcp?key=***&n=1");
/// ```
#[derive(Default)]
pub struct Masking {
    /// Hidden wherever they are.
    pub echoes: Vec<String>,
    /// What was hidden.
    pub hidden: Vec<String>,
}

impl Masking {
    fn found(&mut self, secret: &str) {
        self.hidden.push(secret.to_owned());
    }

    /// A message, byte by byte unless there is a secret in it.
    pub fn message<'a>(&mut self, message: &'a str) -> Cow<'a, str> {
        // What cannot be read is shown, to find out what is wrong with it.
        let Ok(mut value) = serde_json::from_str::<Value>(message) else {
            return self.text(message);
        };
        match self.value(&mut value) {
            true => Cow::Owned(value.to_string()),
            false => Cow::Borrowed(message),
        }
    }

    /// Hides the texts and numbers of a value whose name says that it is a secret. A schema, as of a parameter of this name, is shown.
    fn hide(&mut self, value: &mut Value) -> bool {
        match value {
            Value::String(_) | Value::Number(_) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.found(&text);
                *value = MASK.into();
                true
            }
            Value::Array(values) => self.hide_all(values),
            Value::Object(members) if OF_SCHEMA.iter().any(|keyword| members.contains_key(*keyword)) => {
                self.value(value)
            }
            Value::Object(members) => self.hide_all(members.values_mut()),
            Value::Null | Value::Bool(_) => false,
        }
    }

    fn hide_all<'a>(&mut self, values: impl IntoIterator<Item = &'a mut Value>) -> bool {
        let mut found = false;
        for value in values {
            found |= self.hide(value);
        }
        found
    }

    /// Hides the secrets in a value. Whether there were any.
    pub fn value(&mut self, value: &mut Value) -> bool {
        let mut found = false;
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let is_secret = match value {
                        Value::Number(number) => is_secret(name, &number.to_string()),
                        Value::String(text) => is_secret(name, text),
                        _ => is_secret_name(name),
                    };
                    found |= match is_secret {
                        true => self.hide(value),
                        false => self.value(value),
                    };
                }
            }
            Value::Array(values) => {
                for value in values {
                    found |= self.value(value);
                }
            }
            Value::String(shown) => {
                if let Cow::Owned(hidden) = self.text(shown) {
                    *shown = hidden;
                    found = true;
                }
            }
            Value::Number(number) if self.echoes.contains(&number.to_string()) => {
                *value = MASK.into();
                found = true;
            }
            _ => {}
        }
        found
    }

    /// A text without the secrets in it: those of JSON in it, what follows `Bearer`, `token=` or `--token`, the password of a URL, and known tokens.
    pub fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if text.trim_start().starts_with(['{', '['])
            && let Ok(mut value) = serde_json::from_str::<Value>(text)
        {
            return match self.value(&mut value) {
                true => Cow::Owned(format!("{value:#}")),
                false => Cow::Borrowed(text),
            };
        }
        let (mut shown, mut rest) = (String::new(), text);
        while let Some(secret) = first_secret(rest) {
            self.found(&rest[secret.clone()]);
            shown.push_str(&rest[..secret.start]);
            shown.push_str(MASK);
            rest = &rest[secret.end..];
        }
        shown.push_str(rest);
        for echo in &self.echoes {
            if shown.contains(echo) {
                shown = shown.replace(echo, MASK);
            }
        }
        match shown == text {
            true => Cow::Borrowed(text),
            false => Cow::Owned(shown),
        }
    }
}

/// Where the first secret of a text is.
fn first_secret(text: &str) -> Option<Range<usize>> {
    let all = [introduced(text), password_of_url(text), token(text)];
    all.into_iter().flatten().min_by_key(|secret| secret.start)
}

/// What follows `Bearer`, `token=` or `--token`.
fn introduced(text: &str) -> Option<Range<usize>> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    text.match_indices(['=', ' ']).find_map(|(place, sign)| {
        let before = &text[..place];
        let name = &before[before.trim_end_matches(is_name).len()..];
        let is_in_query = || is_secret_in_query(&before[..before.len() - name.len()], name);
        let (is_named, is_secret_else) = match sign {
            "=" => (is_secret_name(name), is_in_query()),
            _ => (
                name.starts_with('-') && is_secret_name(name),
                name.eq_ignore_ascii_case("bearer"),
            ),
        };
        let secret = &text[place + 1..];
        let is_there = secret.starts_with(|first: char| !first.is_whitespace() && (sign == "=" || first != '-'));
        if !(is_named || is_secret_else) || !is_there || secret.starts_with(MASK) {
            return None;
        }
        let quote = secret.chars().next().filter(|first| "\"'".contains(*first));
        let ends = |char: char| match quote {
            Some(quote) => char == quote,
            None => char.is_whitespace() || "&;,\"'<>)`".contains(char),
        };
        let start = place + 1 + quote.map_or(0, char::len_utf8);
        let length = text[start..].find(ends).unwrap_or(text.len() - start);
        let found = start..start + length;
        (is_secret_else || is_secret(name, &text[found.clone()])).then_some(found)
    })
}

/// That of `https://user:password@host`, or `https://token@host`.
fn password_of_url(text: &str) -> Option<Range<usize>> {
    const SIGN: &str = "://";
    text.match_indices(SIGN).find_map(|(place, _)| {
        let start = place + SIGN.len();
        let ends = |char: char| char.is_whitespace() || "/?#\"'<>)`".contains(char);
        let authority = &text[start..];
        let authority = &authority[..authority.find(ends).unwrap_or(authority.len())];
        let user = &authority[..authority.rfind('@')?];
        // A user without a password is often a token.
        let begins = user.find(':').map_or(0, |colon| colon + 1);
        let secret = start + begins..start + user.len();
        (!secret.is_empty() && &text[secret.clone()] != MASK).then_some(secret)
    })
}

/// What follows the beginning of a known kind of tokens.
fn token(text: &str) -> Option<Range<usize>> {
    let is_of_token = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    let found = TOKENS.iter().flat_map(|begins| {
        text.match_indices(begins).filter_map(move |(place, _)| {
            let is_whole = !text[..place].ends_with(is_of_token);
            let start = place + begins.len();
            let length = text[start..]
                .find(|char| !is_of_token(char))
                .unwrap_or(text.len() - start);
            (is_whole && length > 0).then_some(start..start + length)
        })
    });
    found.min_by_key(|secret| secret.start)
}

/// Whether the parameter of this name behind `before` is one of a URL, and a secret there.
fn is_secret_in_query(before: &str, name: &str) -> bool {
    let is_parameter = before.ends_with(['?', '&', ';']);
    is_parameter && QUERY_SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Whether what has this name is a secret, such as `api_key`, `Authorization` or `userPin`, or several of them, such as `passwords`.
pub fn is_secret_name(name: &str) -> bool {
    is_name_of_one(name) || name.strip_suffix(['s', 'S']).is_some_and(is_name_of_one)
}

/// Whether this value of what has this name is a secret. Under the name of several secrets digits alone are how many, as in `max_tokens`.
///
/// ```
/// use longhaul_core::is_secret;
///
/// assert!(is_secret("tokens", "t-1") && is_secret("pin", "1234"));
/// assert!(!is_secret("max_tokens", "1234"));
/// ```
pub fn is_secret(name: &str, value: &str) -> bool {
    let is_count = !value.is_empty() && value.chars().all(|char| char.is_ascii_digit());
    is_name_of_one(name) || (is_secret_name(name) && !is_count)
}

fn is_name_of_one(name: &str) -> bool {
    let whole: String = name.chars().filter(|char| !"-_".contains(*char)).collect();
    let whole = whole.to_lowercase();
    let is_short = || {
        SHORT_SECRETS.iter().any(|secret| {
            let start = name.len().checked_sub(secret.len());
            // In the middle of a letter outside ASCII it cannot begin.
            let Some((before, last)) = start.and_then(|start| name.split_at_checked(start)) else {
                return false;
            };
            // `user_pin` and `userPin`, and not `spin`.
            let is_word = before.ends_with(['-', '_'])
                || (before.ends_with(char::is_lowercase) && last.starts_with(char::is_uppercase));
            last.eq_ignore_ascii_case(secret) && (whole == *secret || is_word)
        })
    };
    whole != PROGRESS_TOKEN
        && name != WORKING_FOLDER
        && (SECRETS.iter().any(|secret| whole.ends_with(secret)) || is_short())
}

/// The letters of a session's id that are shown.
const SHOWN_OF_SESSION: usize = 8;

/// The beginning of a session's id, which tells sessions apart and opens none: who has the whole id can use the session.
///
/// ```
/// assert_eq!(longhaul_core::masked_session("0123456789abcdef"), "01234567…");
/// ```
pub fn masked_session(id: &str) -> String {
    let shown: String = id.chars().take(SHOWN_OF_SESSION).collect();
    format!("{shown}…")
}

/// The words of a command line without the secrets in them. That of `--token` is the next word.
///
/// ```
/// assert_eq!(longhaul_core::masked_words(["curl", "--token", "t-1", "-v"]), ["curl", "--token", "***", "-v"]);
/// ```
pub fn masked_words(words: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let mut option: Option<String> = None;
    let masked = words.into_iter().map(|word| {
        let word = word.as_ref();
        let is_hidden = |name: &String| is_secret(name, word) && !word.starts_with('-');
        let shown = match option.as_ref().is_some_and(is_hidden) {
            true => MASK.to_owned(),
            false => Masking::default().text(word).into_owned(),
        };
        option = word.starts_with('-').then(|| word.trim_start_matches('-').to_owned());
        shown
    });
    masked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In any alphabet.
        #[test]
        fn every_name_is_looked_at(begin in ".{0,8}", end in "(größe|名前|ключ|)") {
            let name = begin + &end;
            is_secret_name(&name);
            let pin = format!("{name}_pin");
            prop_assert!(is_secret_name(&pin));
            Masking::default().text(&name);
            masked_words([&name]);
        }
    }

    fn message(message: &str) -> Cow<'_, str> {
        Masking::default().message(message).into_owned().into()
    }

    fn text(text: &str) -> Cow<'_, str> {
        Masking::default().text(text).into_owned().into()
    }

    #[test]
    fn secrets_in_a_text_are_hidden() {
        for (shown, hidden) in [
            ("a Bearer S3CRET, b", "a Bearer ***, b"),
            ("https://h/?api_key=S3CRET&n=1", "https://h/?api_key=***&n=1"),
            (
                "https://S3CRET@h/?key=S3CRET&code=S3CRET",
                "https://***@h/?key=***&code=***",
            ),
            ("postal code=8001 key=up", "postal code=8001 key=up"),
            (
                "sh -c 'x' --api-key=S3CRET --token S3CRET end",
                "sh -c 'x' --api-key=*** --token *** end",
            ),
            ("--password 'S3 CRET' b", "--password '***' b"),
            ("DB_PASSWD=S3CRET MY_TOKEN=S3CRET", "DB_PASSWD=*** MY_TOKEN=***"),
            ("at https://ann:S3CRET@h/x?a=b@c ok", "at https://ann:***@h/x?a=b@c ok"),
            (
                "https://h/blob?sv=1&sig=S3CRET%3D&se=2",
                "https://h/blob?sv=1&sig=***&se=2",
            ),
            ("with ghp_S3CRET, end", "with ghp_***, end"),
            ("token=ghp_S3CRET ghp_S3CRET", "token=*** ghp_***"),
            ("?tokens=S3CRET max_tokens=512", "?tokens=*** max_tokens=512"),
            (
                "x --api-keys S3CRET --max-tokens 512",
                "x --api-keys *** --max-tokens 512",
            ),
        ] {
            assert_eq!(text(shown), hidden);
            let message = message(&serde_json::json!({"content": [{"text": shown}]}).to_string()).into_owned();
            assert!(!message.contains("S3"), "{message}");
        }
        let environment = serde_json::json!({"MY_TOKEN": "S3CRET", "passwd": "S3CRET", "PATH": "/bin"});
        let shown = text(&environment.to_string()).into_owned();
        assert!(!shown.contains("S3CRET") && shown.contains("/bin"), "{shown}");
    }

    #[test]
    fn short_names_of_secrets_are_whole_words() {
        for name in [
            "pwd",
            "otp",
            "PIN",
            "sig",
            "user_pin",
            "userPin",
            "smtp-pwd",
            "credentials",
            "awsCredentials",
            "auth",
            "basic_auth",
            "dbPass",
            "jwt",
            "mfa-otp",
            "secretKey",
            "SECRET_KEY",
            "signing-key",
            "tokens",
            "passwords",
            "apiKeys",
            "API_KEYS",
            "secrets",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "spin",
            "PWD",
            "OLDPWD",
            "signature",
            "shipping",
            "progressToken",
            "progressTokens",
            "keys",
            "ß",
            "compass",
            "oauth",
            "author",
            "key",
            "forbearer",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn secrets_of_command_lines_are_masked() {
        let shown = |words: &[&str]| masked_words(words).join(" ");
        for (words, expected) in [
            (&["server", "--token", "t-1", "--fast"][..], "server --token *** --fast"),
            (&["server", "--token", "--fast"], "server --token --fast"),
            (
                &["server", "--api-keys", "k-1", "--max-tokens", "512"],
                "server --api-keys *** --max-tokens 512",
            ),
            (&["server", "--api-key=t-1", "x"], "server --api-key=*** x"),
            (
                &["proxy", "https://u:p@h/mcp?key=t-1&n=1"],
                "proxy https://u:***@h/mcp?key=***&n=1",
            ),
        ] {
            assert_eq!(shown(words), expected);
        }
    }
}
