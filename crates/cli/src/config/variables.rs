//! `${VAR}` in the configuration of a server.

/// Replaces `${VAR}`, `${env:VAR}` and `${VAR:-default}` by variables of the environment.
///
/// # Errors
/// What is wrong: a variable that is not set, or a brace that is not closed.
pub(crate) fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after
            .split_once('}')
            .ok_or_else(|| format!("`{text}` has a `${{` without a `}}`"))?;
        expanded.push_str(before);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        match variable(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => expanded.push_str(&value),
            None if name.contains(':') => {
                return Err(format!("`${{{inside}}}` is not supported; name a variable: `${{VAR}}`"));
            }
            None => return Err(format!("the variable {name} is not set")),
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn expanded(text: &str) -> Result<String, String> {
        expand(text, |name| (name == "HOME").then(|| "/h".to_owned()))
    }

    #[test]
    fn variables_are_replaced() {
        assert_eq!(expanded("${HOME}/a${env:HOME}$").unwrap(), "/h/a/h$");
        assert_eq!(expanded("${NONE:-x}${NONE:-}").unwrap(), "x");
        assert_eq!(expanded("${NONE}").unwrap_err(), "the variable NONE is not set");
        assert_eq!(expanded("a${HOME").unwrap_err(), "`a${HOME` has a `${` without a `}`");
        assert!(expanded("${input:key}").unwrap_err().contains("not supported"));
    }
}
