//! Files of variables, as systemd reads `EnvironmentFile=`. What systemd and dotenv libraries read differently is refused.

use std::collections::BTreeMap;

/// What is wrong with a file of variables. It shows no values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct EnvFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there, and what would be right.
    pub problem: &'static str,
}

/// The variables in a file: lines `NAME=VALUE`, and comments on lines of their own. Of two values for a name the last one counts.
///
/// A value in single quotes stands as it is; in double quotes a backslash stands before `"`, `\`, `$` and a backquote. Both may have several lines. Nothing else is
/// replaced.
///
/// # Errors
/// [`EnvFileError`] for the first line that is no such assignment.
pub fn parse_env_file(text: &str) -> Result<BTreeMap<String, String>, EnvFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = BTreeMap::new();
    let (mut rest, mut line) = (text, 1);
    while !rest.is_empty() {
        let error = |problem| EnvFileError { line, problem };
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let assignment = rest[..end].trim();
        let mut taken = end;
        if !assignment.is_empty() && !assignment.starts_with(['#', ';']) {
            let (name, value) = assignment
                .split_once('=')
                .ok_or_else(|| error("a line is NAME=VALUE, empty or a comment that begins with `#`"))?;
            let name = name.trim_end();
            if !is_name(name) {
                return Err(error(
                    "a name has letters, digits and `_`, and does not begin with a digit; write NAME=VALUE, without `export`",
                ));
            }
            let value = value.trim_start();
            let value = match value.chars().next().filter(|char| ['\'', '"'].contains(char)) {
                Some(quote) => {
                    // It may go on behind this line.
                    let start = rest.find('=').unwrap_or_default() + 1;
                    let start = start + rest[start..].find(quote).unwrap_or_default() + 1;
                    let (value, length) = quoted(&rest[start..], quote)
                        .ok_or_else(|| error("the quote at the begin of the value is not closed"))?;
                    let behind = &rest[start + length..];
                    let end = behind.find('\n').map_or(behind.len(), |at| at + 1);
                    if !behind[..end].trim().is_empty() {
                        return Err(error(
                            "something stands behind the closing quote: put the whole value in quotes, and a comment on its own line",
                        ));
                    }
                    taken = start + length + end;
                    value
                }
                None if value.contains('\\') || value.contains(" #") || value.contains("\t#") => {
                    return Err(error(
                        "programs read a backslash or ` #` in a value without quotes differently: put the value in single quotes, and a comment on its own line",
                    ));
                }
                None => value.to_owned(),
            };
            if value.contains('\0') {
                return Err(error("NUL cannot stand in a variable"));
            }
            variables.insert(name.to_owned(), value);
        }
        line += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value up to its closing quote, and how many bytes of `text` it takes with that.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            char if char == quote => return Some((value, at + 1)),
            '\\' if quote == '"' => match chars.next_if(|(_, next)| ['"', '\\', '$', '`'].contains(next)) {
                Some((_, next)) => value.push(next),
                None => value.push('\\'),
            },
            char => value.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_systemd_reads() {
        let text = "\u{feff}# a comment\n; another\n\nA=1\r\n B = two words \nC='a \"b\" $c \\'\nD=\"a \\\"b\\\" \\$c \\n\"\nE=\nF=a=b#c\nG=\"two\nlines\"\nA=2\nH=it's\nI=${A}";
        let expected = [
            ("A", "2"),
            ("B", "two words"),
            ("C", "a \"b\" $c \\"),
            ("D", "a \"b\" $c \\n"),
            ("E", ""),
            ("F", "a=b#c"),
            ("G", "two\nlines"),
            ("H", "it's"),
            ("I", "${A}"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse_env_file(text).unwrap(), expected.into());
        assert_eq!(parse_env_file("").unwrap(), BTreeMap::new());
    }

    #[test]
    fn what_programs_read_differently_is_refused_with_its_line_and_without_its_value() {
        for (text, line, said) in [
            ("A='x\ny'\nhunter2", 3, "a line is NAME=VALUE"),
            ("export A=hunter2", 1, "without `export`"),
            ("1A=hunter2", 1, "does not begin with a digit"),
            ("=hunter2", 1, "a name has letters"),
            ("\nA=\"hunter2\n", 2, "is not closed"),
            ("A='hunter2' # mine", 1, "behind the closing quote"),
            ("A=hunter2 # mine", 1, "a comment on its own line"),
            ("A=hunter2\\\nB=1", 1, "in single quotes"),
            ("A=hunter2\0", 1, "NUL"),
        ] {
            let error = parse_env_file(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            let shown = error.to_string();
            assert!(shown.contains(said) && !shown.contains("hunter2"), "{text}: {shown}");
        }
    }
}
