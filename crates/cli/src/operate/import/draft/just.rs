//! A `justfile`. Its recipes are run by `just` itself, so that nothing of them is lost.

use super::{Draft, DraftedTool, Element, Property, Source, literal, property_name, text};
use serde_json::json;

pub(super) fn read(source: &Source<'_>) -> Result<Draft, String> {
    let mut draft = Draft::default();
    let (mut comment, mut attributes) = (None::<String>, Vec::new());
    for line in source.text.lines() {
        let trimmed = line.trim_end();
        if trimmed.starts_with([' ', '\t']) {
            continue;
        }
        if let Some(text) = trimmed.strip_prefix('#') {
            comment = Some(text.trim_start_matches('!').trim().to_owned());
        } else if trimmed.starts_with('[') {
            attributes.push(trimmed.to_owned());
        } else {
            if let Some(recipe) = Recipe::parse(trimmed) {
                recipe.draft(source, comment.take(), &attributes, &mut draft);
            }
            comment = None;
            attributes.clear();
        }
    }
    match draft.tools.is_empty() {
        true => Err("it has no recipe that is not private".to_owned()),
        false => Ok(draft),
    }
}

/// The first line of a recipe.
#[derive(Debug, PartialEq)]
struct Recipe {
    name: String,
    parameters: Vec<Parameter>,
}

#[derive(Debug, PartialEq)]
struct Parameter {
    name: String,
    /// `+` or `*`, if it takes several values.
    variadic: Option<char>,
    default: Option<Default>,
}

#[derive(Debug, PartialEq)]
enum Default {
    Text(String),
    /// Known to `just` alone.
    Expression,
}

impl Recipe {
    /// `None` for any other line.
    fn parse(line: &str) -> Option<Self> {
        let line = line.strip_prefix('@').unwrap_or(line);
        let length = line.find(|c: char| !is_name(c)).unwrap_or(line.len());
        let (name, mut rest) = line.split_at(length);
        // `set shell := …`, `alias b := build`, `import 'x'` and the like have no colon of a recipe.
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let mut parameters = Vec::new();
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix(':') {
                let is_assignment = after.starts_with('=');
                return (!is_assignment).then(|| Self {
                    name: name.to_owned(),
                    parameters,
                });
            }
            let (parameter, behind) = Parameter::parse(rest)?;
            parameters.push(parameter);
            rest = behind;
        }
    }

    fn draft(self, source: &Source<'_>, comment: Option<String>, attributes: &[String], draft: &mut Draft) {
        let has = |word: &str| attributes.iter().any(|line| line.contains(word));
        let is_for = |system: &str| {
            attributes
                .iter()
                .any(|line| !line.contains('(') && line.contains(system))
        };
        let is_for_others = ["macos", "windows", "openbsd", "android"].into_iter().any(is_for);
        let is_foreign = is_for_others && !is_for("linux") && !is_for("unix");
        if self.name.starts_with('_') || has("[private") || is_foreign {
            return;
        }
        let said = attributes.iter().find_map(|line| argument_of(line, "doc"));
        let description = said
            .or(comment)
            .unwrap_or_else(|| format!("The recipe `{}` of just", self.name));
        let mut tool = DraftedTool::new(&self.name, description);
        let file = source.path.display().to_string();
        for word in ["just", "--yes", "--justfile", &file, &self.name] {
            tool.word(word);
        }
        for parameter in &self.parameters {
            parameter.draft(&mut tool);
        }
        tool.allow_plain_texts("just", |_| true);
        for property in &mut tool.properties {
            // just has a default of its own, which is not plain.
            property.is_optional |= self.has_default(&property.name) && property.schema.get("default").is_none();
        }
        tool.keys
            .push(("cwd", text::quoted(&literal(&source.folder().display().to_string()))));
        if has("[confirm") {
            let question = attributes.iter().find_map(|line| argument_of(line, "confirm"));
            let question = question.unwrap_or_else(|| format!("Run recipe `{}`?", self.name));
            tool.keys.push(("confirm", text::quoted(&literal(&question))));
        }
        draft.tools.push(tool);
    }
}

impl Recipe {
    fn has_default(&self, property: &str) -> bool {
        let of_property = |parameter: &&Parameter| property_name(&parameter.name) == property;
        (self.parameters.iter().find(of_property)).is_some_and(|parameter| parameter.default.is_some())
    }
}

impl Parameter {
    fn parse(text: &str) -> Option<(Self, &str)> {
        let variadic = text.chars().next().filter(|c| "+*".contains(*c));
        let text = text.strip_prefix(['+', '*']).unwrap_or(text);
        let text = text.strip_prefix('$').unwrap_or(text);
        let length = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(length);
        if name.is_empty() {
            return None;
        }
        let (default, rest) = match rest.trim_start().strip_prefix('=') {
            Some(value) => {
                let (default, rest) = Default::parse(value.trim_start())?;
                (Some(default), rest)
            }
            None => (None, rest),
        };
        let name = name.to_owned();
        Some((
            Self {
                name,
                variadic,
                default,
            },
            rest,
        ))
    }

    fn draft(&self, tool: &mut DraftedTool) {
        let name = property_name(&self.name);
        tool.command.push(Element::Word(format!("{{{name}}}")));
        let mut schema = match self.variadic {
            Some('+') => json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            Some(_) => json!({"type": "array", "items": {"type": "string"}}),
            None => json!({"type": "string"}),
        };
        let is_optional = match &self.default {
            Some(Default::Text(text)) if self.variadic.is_none() => {
                schema["default"] = text.as_str().into();
                false
            }
            Some(default) => {
                if *default == Default::Expression {
                    tool.left_out.push(format!(
                        "the default of `{}` is an expression; without a value, those behind it must have none either",
                        self.name
                    ));
                }
                true
            }
            None => self.variadic == Some('*'),
        };
        tool.property(Property {
            name,
            schema,
            is_optional,
        });
    }
}

impl Default {
    /// A value, and what is behind it.
    fn parse(text: &str) -> Option<(Self, &str)> {
        for quote in ["'''", "\"\"\"", "'", "\"", "`"] {
            if let Some(inside) = text.strip_prefix(quote) {
                let (value, rest) = inside.split_once(quote)?;
                let is_text = quote != "`" && !(quote.starts_with('"') && value.contains('\\'));
                let ends = rest.is_empty() || rest.starts_with([' ', '\t', ':']);
                return Some(match is_text && ends {
                    true => (Self::Text(value.to_owned()), rest),
                    false => (
                        Self::Expression,
                        rest.trim_start_matches(|c: char| !c.is_whitespace() && c != ':'),
                    ),
                });
            }
        }
        if text.starts_with('(') {
            let end = text.rfind(')')?;
            return Some((Self::Expression, &text[end + 1..]));
        }
        let end = text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len());
        Some((Self::Expression, &text[end..]))
    }
}

/// What an attribute such as `[doc("…")]` is given.
fn argument_of(line: &str, attribute: &str) -> Option<String> {
    let after = line.split_once(attribute)?.1.trim_start_matches(['(', ':', ' ']);
    let quote = after.chars().next().filter(|c| "'\"".contains(*c))?;
    let (text, _) = after[1..].split_once(quote)?;
    Some(text.to_owned())
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
