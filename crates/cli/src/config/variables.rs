//! `${VAR}` in the configuration of a server.

/// Replaces `${VAR}`, `${env:VAR}` and `${VAR:-default}` by variables of the environment.
///
/// # Errors
/// What is wrong: a variable that is not set, or a brace that is not closed.
pub(crate) fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    replace(text, |_, inside| value(inside, &variable))
}

/// The same in a template, where `${{` is a `$` before a literal brace. Braces in the values stay literal.
///
/// # Errors
/// As [`expand`].
pub(crate) fn expand_in_template(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    replace_in_template(text, |_, inside| Ok(escape(&value(inside, &variable)?)))
}

/// A template with a filler in place of each variable, so that what is said about it names the right columns and no values.
///
/// # Errors
/// A brace that is not closed.
pub(crate) fn mask_variables(text: &str) -> Result<String, String> {
    replace_in_template(text, |whole, _| Ok("_".repeat(whole.chars().count())))
}

/// The text of a template that gives `text`.
pub(crate) fn escape(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn replace_in_template(text: &str, with: impl Fn(&str, &str) -> Result<String, String>) -> Result<String, String> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        replaced.push_str(&replace(before, &with)?);
        replaced.push_str("${{");
        rest = after;
    }
    replaced.push_str(&replace(rest, &with)?);
    Ok(replaced)
}

/// `with` gets each `${…}` as a whole, and what is inside.
fn replace(text: &str, with: impl Fn(&str, &str) -> Result<String, String>) -> Result<String, String> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after.split_once('}').ok_or("a `${` has no `}` behind it")?;
        replaced.push_str(before);
        let whole = &rest[before.len()..rest.len() - behind.len()];
        replaced.push_str(&with(whole, inside)?);
        rest = behind;
    }
    replaced.push_str(rest);
    Ok(replaced)
}

fn value(inside: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    match variable(name).or_else(|| default.map(str::to_owned)) {
        Some(value) => Ok(value),
        None if name.contains(':') => Err(format!("`${{{inside}}}` is not supported; name a variable: `${{VAR}}`")),
        None => Err(format!("the variable {name} is not set")),
    }
}

#[cfg(test)]
mod tests {
    use super::{expand, expand_in_template, mask_variables};

    fn expanded(text: &str) -> Result<String, String> {
        expand(text, |name| (name == "HOME").then(|| "/h".to_owned()))
    }

    #[test]
    fn variables_are_replaced() {
        assert_eq!(expanded("${HOME}/a${env:HOME}$").unwrap(), "/h/a/h$");
        assert_eq!(expanded("${NONE:-x}${NONE:-}").unwrap(), "x");
        assert_eq!(expanded("${NONE}").unwrap_err(), "the variable NONE is not set");
        assert_eq!(expanded("a${HOME").unwrap_err(), "a `${` has no `}` behind it");
        assert!(expanded("${input:key}").unwrap_err().contains("not supported"));
    }

    #[test]
    fn in_a_template_values_hold_no_placeholders() {
        let variable = |name: &str| (name == "SECRET").then(|| "a{b}".to_owned());
        for (text, expected, masked) in [
            ("${SECRET}{c}", "a{{b}}{c}", "_________{c}"),
            ("${{SECRET}}${SECRET}", "${{SECRET}}a{{b}}", "${{SECRET}}_________"),
            ("${NONE:-x}", "x", "__________"),
            ("{{}}", "{{}}", "{{}}"),
        ] {
            assert_eq!(expand_in_template(text, variable).unwrap(), expected, "{text}");
            assert_eq!(mask_variables(text).unwrap(), masked, "{text}");
        }
        let unset = expand_in_template("${NONE}", variable).unwrap_err();
        assert_eq!(unset, "the variable NONE is not set");
    }
}
