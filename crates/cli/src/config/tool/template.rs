//! Checking the templates in a tool's command and standard input.

use crate::config::{
    section::Entry,
    tool::{
        schema::{self, Kind},
        secrets,
    },
};
use crate::output::nearest;
use longhaul_command::{Placeholder, SHOWN_BY_PS, Template, ValueForm, literal_braces};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a template is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplateUse {
    /// An argument, or several.
    Argument,
    /// An argument of a list, which repeats for each element of an array.
    Group,
    /// Standard input.
    Stdin,
    /// The value of a variable.
    Value,
    /// A folder.
    Folder,
    /// A value that calls are compared by.
    Key,
    /// A value that operators see.
    Label,
    /// A question to a person.
    Question,
}

/// What the templates of a tool are checked against.
pub(crate) struct Rules<'a> {
    /// The schema of the tool's input; without it only the syntax of a template is checked.
    pub(crate) input_schema: Option<&'a Value>,
    /// Properties whose value may begin with `-`.
    pub(crate) allow_leading_dash: &'a BTreeSet<String>,
}

impl Rules<'_> {
    /// Reports every mistake in a template; `false` if there is one.
    pub(crate) fn check(&self, entry: &Entry<'_>, text: &str, usage: TemplateUse) -> bool {
        let key = entry.key();
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(error) => {
                entry.report(format!("`{key}`: {error}"));
                return false;
            }
        };
        let Some(input_schema) = self.input_schema else {
            return true;
        };
        let mut seen = BTreeSet::new();
        let mut is_sound = true;
        for placeholder in template.placeholders() {
            if !seen.insert(placeholder.to_string()) {
                continue;
            }
            let is_variable = text.contains(&format!("${{{}}}", placeholder.name));
            if is_variable && !schema::property_names(input_schema).contains(placeholder.name) {
                let name = placeholder.name;
                entry.report(format!(
                    "`{key}`: variables such as `${{{name}}}` are not replaced, and `{{{name}}}` is not a property of the input: write the value itself, or in a script of a shell `${{{{{name}}}}}`"
                ));
                is_sound = false;
            } else if let Some(mistake) =
                mistake(placeholder, text, input_schema, usage).or_else(|| self.refused_default(placeholder, usage))
            {
                entry.report(format!("`{key}`: {mistake}"));
                is_sound = false;
            } else if let Some(warning) = self.warning(placeholder, input_schema, usage) {
                entry.warn(format!("`{key}`: {warning}"));
            }
        }
        is_sound
    }

    /// Reports a list that would have to repeat for two arrays.
    pub(crate) fn check_arrays(&self, entry: &Entry<'_>, texts: &[String]) -> bool {
        let Some(input_schema) = self.input_schema else {
            return true;
        };
        let templates: Vec<Template> = texts.iter().filter_map(|text| Template::parse(text).ok()).collect();
        let arrays: BTreeSet<&str> = templates
            .iter()
            .flat_map(Template::placeholders)
            .filter(|placeholder| placeholder.form == ValueForm::Word)
            .map(|placeholder| placeholder.name)
            .filter(|name| schema::kind(input_schema, name) == Kind::Array)
            .collect();
        let mut arrays = arrays.iter();
        let (Some(one), Some(other)) = (arrays.next(), arrays.next()) else {
            return true;
        };
        entry.report(format!(
            "`command`: a list repeats for each element of an array, and this one has two arrays, `{one}` and `{other}`: write a list for each of them"
        ));
        false
    }

    /// Whether a value of the placeholder that begins with `-` is refused.
    fn refuses_dash(&self, placeholder: Placeholder<'_>, usage: TemplateUse) -> bool {
        matches!(usage, TemplateUse::Argument | TemplateUse::Group)
            && placeholder.is_first
            && placeholder.form != ValueForm::File
            && !self.allow_leading_dash.contains(placeholder.name)
    }

    /// What is wrong with a default that no call could leave in its place.
    fn refused_default(&self, placeholder: Placeholder<'_>, usage: TemplateUse) -> Option<String> {
        let name = placeholder.name;
        let default = schema::default(self.input_schema?, name)?;
        let text = match (default, placeholder.form) {
            (Value::String(text), ValueForm::Word) => text.clone(),
            (other, _) => other.to_string(),
        };
        (text.starts_with('-') && self.refuses_dash(placeholder, usage)).then(|| {
            format!(
                "the default of `{name}` begins with `-` and would begin an argument here, so each call without `{name}` would be refused: add `{name}` to `allow_leading_dash`, or write `--{name}={placeholder}` if the program accepts that"
            )
        })
    }

    /// Warns about a number that may be negative at the start of an argument, where it would look like an option.
    fn warning(&self, placeholder: Placeholder<'_>, input_schema: &Value, usage: TemplateUse) -> Option<String> {
        let Placeholder { name, is_whole, .. } = placeholder;
        let elements = usage == TemplateUse::Group || is_whole;
        if !self.refuses_dash(placeholder, usage) || !schema::may_be_negative(input_schema, name, elements) {
            return None;
        }
        Some(format!(
            "`{name}` may be negative by its schema and begins an argument here: a number such as -3 is refused, because the program would take it for an option; set `minimum = 0`, write `--{name}={{{name}}}` if the program accepts that, or add it to `allow_leading_dash`"
        ))
    }
}

/// What is wrong with a placeholder in `text` and how to fix it.
fn mistake(placeholder: Placeholder<'_>, text: &str, input_schema: &Value, usage: TemplateUse) -> Option<String> {
    let name = placeholder.name;
    let known = schema::property_names(input_schema);
    if !known.contains(name) {
        let hint = unknown_form(name, &known)
            .or_else(|| all_as_json(placeholder, usage))
            .unwrap_or_else(|| hint_of_unknown(name, &known));
        return Some(format!("`{placeholder}` is not a property of the input; {hint}"));
    }
    if secrets::is_secret(input_schema, name)
        && let Some(why) = exposure(placeholder.form, usage)
    {
        return Some(format!(
            "`{name}` is secret, and {why}: pass it in `env`, in `stdin`, or as a file, `{{{name}:file}}` in an argument"
        ));
    }
    let is_single = matches!(usage, TemplateUse::Key | TemplateUse::Label);
    if is_single && (placeholder.form != ValueForm::Word || schema::kind(input_schema, name) != Kind::Other) {
        return Some(format!(
            "`{placeholder}` is no single value: name a property that is a text, a number or a boolean, without `:json` or `:file`"
        ));
    }
    let shown = match usage {
        TemplateUse::Label => Some("labels"),
        TemplateUse::Question => Some("this question"),
        _ => None,
    };
    if let Some(shown) = shown.filter(|_| schema::is_hidden(input_schema, name)) {
        return Some(format!(
            "the schema of `{name}` says that operators do not see it, and they see {shown}: name another property"
        ));
    }
    if usage == TemplateUse::Question {
        return (placeholder.form == ValueForm::File).then(|| {
            format!("`{placeholder}` is the path of a file, and the question would show that path: write `{{{name}}}`, which shows the beginning of the value")
        });
    }
    let alone = placeholder.is_whole && usage == TemplateUse::Argument;
    match schema::kind(input_schema, name) {
        _ if placeholder.form != ValueForm::Word => None,
        Kind::Object => Some(format!(
            "`{name}` is an object: write `{{{name}:json}}` for it as JSON, or `{{{name}:file}}` for the path of a file that holds it"
        )),
        Kind::ArrayOfObjects => Some(format!(
            "`{name}` has elements that are objects or arrays, which cannot be arguments: write `{{{name}:json}}` for all of it as JSON, or `{{{name}:file}}` for the path of a file that holds it"
        )),
        Kind::Array if matches!(usage, TemplateUse::Stdin | TemplateUse::Value | TemplateUse::Folder) => Some(format!(
            "`{name}` is an array, which has no place in a text: write `{{{name}:json}}` for it as JSON"
        )),
        Kind::Array if usage == TemplateUse::Argument && !alone => Some(format!(
            "`{name}` is an array, which gives one argument for each element: write the list [{text:?}], which repeats for each of them, or make it a whole argument, \"{{{name}}}\""
        )),
        Kind::Array | Kind::Other => None,
    }
}

/// Who would see a secret there.
fn exposure(form: ValueForm, usage: TemplateUse) -> Option<&'static str> {
    match usage {
        TemplateUse::Stdin | TemplateUse::Value => None,
        TemplateUse::Argument | TemplateUse::Group if form == ValueForm::File => None,
        TemplateUse::Argument | TemplateUse::Group => Some(SHOWN_BY_PS),
        TemplateUse::Folder => Some("every user of this machine may see in which folder a command runs"),
        TemplateUse::Key => Some("calls are not compared by secrets"),
        TemplateUse::Label => Some("operators see labels"),
        TemplateUse::Question => Some("who is asked would see it"),
    }
}

/// What to say of `{name:form}` in which only the form is not known.
fn unknown_form(name: &str, known: &BTreeSet<&str>) -> Option<String> {
    let (property, _) = name.split_once(':').filter(|(property, _)| known.contains(property))?;
    Some(format!(
        "write `{{{property}}}`, `{{{property}:json}}` for it as JSON, or `{{{property}:file}}` for the path of a file that holds it"
    ))
}

/// What to say of `{json}` in a standard input.
fn all_as_json(placeholder: Placeholder<'_>, usage: TemplateUse) -> Option<String> {
    let is_meant = usage == TemplateUse::Stdin && placeholder.name.eq_ignore_ascii_case("json");
    is_meant.then(|| "for all arguments as JSON write exactly stdin = \"json\"".to_owned())
}

/// What to say of a placeholder that is none of these properties.
pub(crate) fn unknown_property(name: &str, known: &BTreeSet<&str>) -> String {
    format!(
        "`{{{name}}}` is not a property of the input; {}",
        hint_of_unknown(name, known)
    )
}

fn hint_of_unknown(name: &str, known: &BTreeSet<&str>) -> String {
    literal_braces(name)
        .or_else(|| nearest::suggestion(name, known.iter().copied()))
        .unwrap_or_else(|| format!("declare it: input = {{ {name} = {{ type = \"string\" }} }}"))
}

/// The placeholder in a program's name, if any. The program is not a template, so it would not be replaced.
pub(crate) fn property_in_program(program: &str, input_schema: Option<&Value>) -> Option<String> {
    let known = schema::property_names(input_schema?);
    let template = Template::parse(program).ok()?;
    template
        .properties()
        .find(|name| known.contains(name))
        .map(str::to_owned)
}
