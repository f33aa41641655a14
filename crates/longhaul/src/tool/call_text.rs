//! Texts that are made of the arguments of a call: the values of `unique` and `concurrency_key`, and labels.

use super::Tool;
use longhaul_command::Template;
use longhaul_core::{Label, Labels};
use longhaul_runtime::{CallValue, LabelsOf};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Tool {
    /// Limits the calls with each value of `template`, in which `{name}` stands for an argument, to the tool's [`concurrency`](Self::concurrency), by default 1. The
    /// tool as a whole has no limit then. A call counts until it is over, also while it is suspended; others with its value wait in the queue. So a task that starts
    /// another one of its tool with the same value waits for itself.
    ///
    /// ```
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Deploy { branch: String }
    /// let tool = longhaul::Tool::new("deploy", async |args: Deploy| args.branch).concurrency_key("{branch}");
    /// ```
    #[must_use]
    pub fn concurrency_key(mut self, template: impl Into<String>) -> Self {
        self.concurrency_key = Some(template.into());
        self
    }

    /// Lets at most one task of this tool be live with each value of `template`, in which `{name}` stands for an argument; a template without any lets one
    /// task of the tool be live. The same call of the same principal joins the live task: it gets its id, or waits for its result. Another call with the
    /// value is refused. A call of such a tool is not cancelled when its caller goes.
    ///
    /// ```
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Deploy {
    ///     branch: String,
    /// }
    /// let tool = longhaul::Tool::new("deploy", async |args: Deploy| args.branch).unique("{branch}");
    /// ```
    #[must_use]
    pub fn unique(mut self, template: impl Into<String>) -> Self {
        self.unique = Some(template.into());
        self
    }

    /// A label of its tasks, by which operators find and count them; may be called several times, for up to 8 names. The value is a template of arguments. A task
    /// has no label whose template names an argument that its call has not.
    ///
    /// ```
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Deploy {
    ///     team: Option<String>,
    /// }
    /// let tool = longhaul::Tool::new("deploy", async |_: Deploy| "deployed").label("team", "{team}").label("env", "prod");
    /// ```
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, template: impl Into<String>) -> Self {
        self.labels.push((name.into(), template.into()));
        self
    }

    /// Makes these arguments secret. The store has them encrypted only, with the [cipher](crate::Server::argument_cipher) of the server, and each attempt gets them in
    /// the clear. Their schemas say `"writeOnly": true`, so that hosts and the page of operators hide them. What the function does with them is up to it.
    #[must_use]
    pub fn secrets<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.settings.secrets = names.into_iter().map(Into::into).collect();
        self
    }
}

/// A template of single values, and what stands for those that are left out.
struct CallText {
    template: Template,
    defaults: BTreeMap<String, Value>,
}

impl CallText {
    /// Reads the text of the setting `key`; `schema` is that of the arguments.
    fn read(key: &str, text: &str, schema: &Value, secrets: &BTreeSet<String>) -> Result<Self, String> {
        let template = Template::parse(text).map_err(|error| format!("`{key}`: {error}"))?;
        for name in template.properties() {
            let property = schema["properties"].get(name);
            let property = property.ok_or_else(|| format!("`{key}`: `{{{name}}}` is not one of the arguments"))?;
            if secrets.contains(name) {
                return Err(format!(
                    "`{key}`: `{name}` is secret, and this value is not: name another argument"
                ));
            }
            if matches!(referred(schema, property)["type"].as_str(), Some("array" | "object")) {
                return Err(format!(
                    "`{key}`: `{name}` is an array or an object, which is no single value"
                ));
            }
        }
        let defaults = defaults_of(&template, schema);
        Ok(Self { template, defaults })
    }
}

/// What stands for the arguments of a template that are left out.
pub(super) fn defaults_of(template: &Template, schema: &Value) -> BTreeMap<String, Value> {
    let defaults = template.properties().filter_map(|name| {
        let property = &schema["properties"][name];
        let own = property.get("default");
        let default = own.or_else(|| referred(schema, property).get("default"))?;
        Some((name.to_owned(), default.clone()))
    });
    defaults.collect()
}

/// What the `$ref` of a property names; the property itself if it has none.
fn referred<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let pointer = property["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    let named = pointer.and_then(|pointer| schema.pointer(pointer));
    named.unwrap_or(property)
}

/// The value that calls are compared by for the setting `key`, if it is set.
pub(super) fn call_value(
    key: &str,
    text: Option<&str>,
    schema: &Value,
    secrets: &BTreeSet<String>,
    has_intake: bool,
) -> Result<Option<CallValue>, String> {
    let Some(text) = text else { return Ok(None) };
    if has_intake {
        return Err(format!(
            "`{key}` cannot be combined with `ask_before`, which completes the arguments later"
        ));
    }
    let CallText { template, defaults } = CallText::read(key, text, schema, secrets)?;
    Ok(Some(Arc::new(move |arguments| {
        template.text_of(arguments.as_str(), &defaults)
    })))
}

/// The labels of a call, of their names and templates; `None` without any.
pub(super) fn labels_of(
    labels: &[(String, String)],
    schema: &Value,
    secrets: &BTreeSet<String>,
) -> Result<Option<LabelsOf>, String> {
    if labels.len() > Labels::MOST {
        return Err(format!("it has more than {} labels", Labels::MOST));
    }
    let mut texts = BTreeMap::new();
    for (name, text) in labels {
        if !Label::is_name(name) {
            return Err(format!(
                "{name:?} is not the name of a label: use 1 to {} of the characters A-Z a-z 0-9 _ - .",
                Label::LONGEST_NAME
            ));
        }
        let text = CallText::read(&format!("label {name}"), text, schema, secrets)?;
        texts.insert(name.clone(), text);
    }
    if texts.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(move |arguments| {
        let arguments: Map<String, Value> = serde_json::from_str(arguments.as_str()).unwrap_or_default();
        let label = |(name, text): (&String, &CallText)| {
            let value = text.template.whole_text_of(&arguments, &text.defaults)?;
            Label::new(name, &value)
        };
        Labels::new(texts.iter().filter_map(label))
    })))
}
