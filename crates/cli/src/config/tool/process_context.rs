//! What a tool's command gets besides its command line: variables and a folder.

use super::{
    command,
    template::{Rules, TemplateUse},
};
use crate::config::{
    paths::{Environment, is_permitted_to_others},
    section::{Entry, Section},
    tool::schema,
    variables::{escape, expand_in_template, mask_variables},
};
use longhaul_command::{HarmlessValues, Template, parse_env_file, placeholder_in_code_variable};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

const VARIABLES: &str = "a table of strings such as { LC_ALL = \"C\" }";
const NOT_CHOSEN: &str = "`cwd_within` is for a `cwd` with a placeholder, such as \"{folder}\": leave it out";

/// The keys, each `None` after a problem.
pub(super) struct ProcessContextConfig {
    pub(super) env: Option<Variables>,
    pub(super) env_from: Option<BTreeSet<String>>,
    pub(super) env_file: Option<Option<PathBuf>>,
    pub(super) cwd: Option<Folder>,
}

/// The key `env`.
#[derive(Default)]
pub(super) struct Variables {
    /// Those without placeholders.
    pub(super) literal: BTreeMap<String, String>,
    pub(super) templates: BTreeMap<String, String>,
}

/// The folder that the command runs in.
pub(super) struct Folder {
    /// It, or the one that it lies in.
    pub(super) path: PathBuf,
    /// The template of a folder within that.
    pub(super) template: Option<String>,
}

impl ProcessContextConfig {
    pub(super) fn read(section: &Section<'_>, rules: &Rules<'_>, environment: &Environment) -> Self {
        let env = section.get_or("env", Variables::default(), |entry| {
            read_variables(entry, rules, environment)
        });
        Self {
            env_from: section.get_or("env_from", BTreeSet::new(), |entry| {
                read_env_from(entry, section, environment)
            }),
            env_file: section.optional("env_file", |entry| read_env_file(entry, environment)),
            cwd: read_folder(section, rules, environment),
            env,
        }
    }

    /// The templates among them; `None` after a problem.
    pub(super) fn templates(&self) -> Option<Vec<&str>> {
        let variables = self.env.as_ref()?.templates.values();
        let folder = self.cwd.as_ref()?.template.iter();
        Some(variables.chain(folder).map(String::as_str).collect())
    }

    /// Warns about a program that is not there.
    pub(super) fn warn_if_program_is_missing(&self, entry: &Entry<'_>, program: &str, environment: &Environment) {
        let path = self.env.as_ref().and_then(|env| env.literal.get("PATH"));
        let (path, folder) = (path.map(String::as_str), self.folder_of(program));
        command::warn_if_program_is_missing(entry, program, path, folder, environment);
    }

    /// Where the program is looked for; `None` if the caller decides that.
    fn folder_of(&self, program: &str) -> Option<&Path> {
        let folder = self.cwd.as_ref()?;
        let is_relative = program.contains('/') && !program.starts_with('/');
        (folder.template.is_none() || !is_relative).then_some(folder.path.as_path())
    }
}

/// Reports placeholders in variables by which programs load code.
pub(super) fn check_code_variables(env: &Entry<'_>, harmless: &HarmlessValues) {
    for (name, entry) in env.pairs(VARIABLES).unwrap_or_default() {
        let masked = entry.text_if_any().and_then(|value| mask_variables(value).ok());
        if let Some(found) = masked.and_then(|text| placeholder_in_code_variable(name, &text, harmless)) {
            entry.report(format!("`{}`: {found}", entry.key()));
        }
    }
}

/// The variables of an upstream, in which the caller replaces `${VAR}`.
pub(crate) fn read_env(entry: &Entry<'_>) -> Option<BTreeMap<String, String>> {
    let values = named_values(entry)?.into_iter();
    Some(
        values
            .map(|(name, _, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    )
}

/// The folder of an upstream.
pub(crate) fn read_cwd(section: &Section<'_>, environment: &Environment) -> Option<PathBuf> {
    let folder = section.file().folder();
    section.get_or("cwd", folder.to_owned(), |entry| {
        resolve_folder(entry, entry.text()?, environment)
    })
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// The names and values of a table of variables; `None` if one of them is none.
fn named_values<'a>(entry: &Entry<'a>) -> Option<Vec<(&'a str, Entry<'a>, &'a str)>> {
    let read = |(name, entry): (&'a str, Entry<'a>)| {
        // The value may be secret, so no message shows it.
        let Some(value) = entry.text_if_any() else {
            entry.report(format!("`{}` must be a string; put it in quotes", entry.key()));
            return None;
        };
        if !is_variable_name(name) || value.contains('\0') {
            entry.report(format!(
                "{name:?} is not an environment variable: its name must not be empty or contain `=`, and neither name nor value may contain a NUL"
            ));
            return None;
        }
        Some((name, entry, value))
    };
    // All of them first, so that every mistake is reported.
    let values: Vec<_> = entry.pairs(VARIABLES)?.into_iter().map(read).collect();
    values.into_iter().collect()
}

fn read_variables(entry: &Entry<'_>, rules: &Rules<'_>, environment: &Environment) -> Option<Variables> {
    let mut variables = Variables::default();
    let mut is_sound = true;
    for (name, entry, value) in named_values(entry)? {
        let Some(text) = read_template(&entry, value, (rules, TemplateUse::Value), |name| {
            environment.value_of(name)
        }) else {
            is_sound = false;
            continue;
        };
        match Template::parse(&text) {
            Ok(template) if template.properties().next().is_some() => {
                variables.templates.insert(name.to_owned(), text);
            }
            _ => drop(variables.literal.insert(name.to_owned(), unescape(&text))),
        }
    }
    is_sound.then_some(variables)
}

/// Checks a template, and replaces the variables in it. What is said about it shows no values.
fn read_template(
    entry: &Entry<'_>,
    text: &str,
    (rules, usage): (&Rules<'_>, TemplateUse),
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let key = entry.key();
    let known = rules.input_schema.map(schema::property_names).unwrap_or_default();
    let meant = known.iter().find(|name| text.contains(&format!("${{{name}}}")));
    let hint = meant.map(|name| format!("; for the argument write `{{{name}}}` without `$`"));
    let report = |why: String| entry.report(format!("`{key}`: {why}{}", hint.as_deref().unwrap_or_default()));
    let expanded = expand_in_template(text, variable).map_err(report).ok();
    // A `${` without its end is reported above.
    let is_sound = mask_variables(text).is_ok_and(|masked| rules.check(entry, &masked, usage));
    expanded.filter(|_| is_sound)
}

/// The text that a template without placeholders gives.
fn unescape(template: &str) -> String {
    template.replace("{{", "{").replace("}}", "}")
}

fn read_env_from(entry: &Entry<'_>, section: &Section<'_>, environment: &Environment) -> Option<BTreeSet<String>> {
    let env = section
        .get("env")
        .and_then(|env| env.pairs(VARIABLES))
        .unwrap_or_default();
    let mut is_sound = true;
    let mut names = BTreeSet::new();
    for (entry, name) in entry.texts()? {
        let mistake = if !is_variable_name(name) {
            Some(format!("{name:?} is not the name of a variable"))
        } else if env.iter().any(|(own, _)| *own == name) {
            Some(format!("`env` sets {name}, too: leave one of them out"))
        } else if environment.value_of(name).is_none() {
            Some(format!(
                "the variable {name} is not set where this runs, or is not UTF-8: set it for the server, or leave it out"
            ))
        } else {
            None
        };
        if let Some(mistake) = mistake {
            entry.report(format!("`env_from`: {mistake}"));
            is_sound = false;
        }
        names.insert(name.to_owned());
    }
    is_sound.then_some(names)
}

fn read_env_file(entry: &Entry<'_>, environment: &Environment) -> Option<PathBuf> {
    let path = environment.resolve(entry.text()?, entry.file().folder());
    let path = path
        .map_err(|error| entry.report(format!("`env_file`: {error}")))
        .ok()?;
    let shown = path.display();
    if path.to_str().is_none() {
        entry.report(format!("`env_file`: {shown} is not UTF-8: give it another name"));
        return None;
    }
    let text = longhaul_private_dir::read_named_text(&path);
    let text = text.map_err(|error| entry.report(format!("`env_file`: {shown} cannot be read: {error}")));
    let parsed = parse_env_file(&text.ok()?);
    parsed
        .map_err(|error| entry.report(format!("`env_file`: {shown}, {error}")))
        .ok()?;
    if is_permitted_to_others(&path, 0o006) {
        entry.warn(format!(
            "`env_file`: every user of this machine can read or replace {shown}: take the permission away with `chmod o-rw`"
        ));
    }
    Some(path)
}

/// The folder of a tool, which the caller may choose within another one.
fn read_folder(section: &Section<'_>, rules: &Rules<'_>, environment: &Environment) -> Option<Folder> {
    let cwd = section.get("cwd");
    let within_entry = section.get("cwd_within");
    let within = within_entry
        .as_ref()
        .map(|entry| resolve_folder(entry, entry.text()?, environment));
    let Some(entry) = cwd else {
        if let Some(entry) = within_entry {
            entry.report(NOT_CHOSEN.to_owned());
            return None;
        }
        let folder = section.file().folder().to_owned();
        return Some(Folder {
            path: folder,
            template: None,
        });
    };
    let text = read_template(
        &entry,
        entry.text()?,
        (rules, TemplateUse::Folder),
        environment.variable,
    )?;
    let has_placeholder = Template::parse(&text).is_ok_and(|template| template.properties().next().is_some());
    match (has_placeholder, within) {
        (false, None) => Some(Folder {
            path: resolve_folder(&entry, &unescape(&text), environment)?,
            template: None,
        }),
        (true, Some(within)) => {
            let template = match text.strip_prefix("~/") {
                Some(rest) => {
                    let home = environment.expand_path("~");
                    let home = home.map_err(|error| entry.report(format!("`cwd`: {error}"))).ok()?;
                    format!("{}/{rest}", escape(&home))
                }
                None => text,
            };
            Some(Folder {
                path: within?,
                template: Some(template),
            })
        }
        (true, None) => {
            entry.report(
                "`cwd`: a caller chooses the folder, so name the one that it has to lie in: cwd_within = \"/srv/repos\"".to_owned(),
            );
            None
        }
        (false, Some(_)) => {
            if let Some(entry) = within_entry {
                entry.report(NOT_CHOSEN.to_owned());
            }
            None
        }
    }
}

fn resolve_folder(entry: &Entry<'_>, text: &str, environment: &Environment) -> Option<PathBuf> {
    let key = entry.key();
    let path = environment.resolve(text, entry.file().folder());
    let path = path.map_err(|error| entry.report(format!("`{key}`: {error}"))).ok()?;
    // It may be on a disk that comes later, and other tools need nothing of it.
    if !path.is_dir() {
        entry.warn(format!(
            "`{key}`: {} is not a folder, so every call would fail",
            path.display()
        ));
    }
    if path.to_str().is_none() {
        entry.report(format!(
            "`{key}`: {} is not UTF-8, and commands cannot run there",
            path.display()
        ));
        return None;
    }
    Some(path)
}
