//! A command's definition, as it is stored with each of its tasks, and the same checked and ready to run.

pub(crate) mod argument_error;
pub(crate) mod arguments;
pub(crate) mod element;
pub(crate) mod env_file;
pub(crate) mod files;
pub(crate) mod harmless;
mod json_text;
mod number;
mod question;
pub(crate) mod script;
pub(crate) mod secrets;
pub(crate) mod template;
mod unique_names;
pub(crate) mod variables;

use super::{
    artifact_pattern::{ArtifactPatternError, parse_all},
    attempt_dir::{
        ArgumentFile,
        record::{ArtifactSettings, SuccessCodes, is_default},
        secret_input::SecretInput,
        signal::StopSignal,
    },
    progress::ProgressPattern,
};
use argument_error::CommandArgumentError;
use arguments::Arguments;
use element::{CommandElement, Element, ElementProblem};
use files::ArgumentFiles;
use harmless::HarmlessValues;
use longhaul_core::Millis;
use longhaul_json_schema::{Schema, SchemaAuthor};
use script::{ScriptPlaceholder, StandardInput, placeholders_in_scripts};
use secrets::ExposedSecret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};
use template::{Rules, Template, TemplateError, list_of};
use variables::CodeVariablePlaceholder;

/// The format [`CommandDefinition`] is written in. A newer one is refused, never read in part.
pub const DEFINITION_VERSION: u32 = 1;

/// Where a command's standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// Into a text block, its tail.
    #[default]
    Text,
    /// Into `structuredContent`, whole.
    Json,
    /// Into the content as it is, whole.
    Raw,
}

/// How a command is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopSettings {
    /// The signal that asks it to end.
    #[serde(default)]
    pub signal: StopSignal,
    /// From that signal to SIGKILL, in milliseconds; `None` for what the provider has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<Millis>,
}

/// A tool's command, as the configuration says it. It is stored with every task, so that a queued task runs what it was created
/// for whatever the file says later.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandDefinition {
    /// Format of this record: [`DEFINITION_VERSION`].
    pub version: u32,
    /// The program, taken literally, then its arguments.
    pub command: Vec<CommandElement>,
    /// Environment beside the allow-listed one. May hold secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Templates of further variables, beside `env`, which is literal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_templates: BTreeMap<String, String>,
    /// Variables of the server's environment that the command gets. Their values are read as an attempt starts, and not stored.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub env_from: BTreeSet<String>,
    /// Absolute path of a file with variables, read as an attempt starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_file: Option<PathBuf>,
    /// Absolute folder to run in.
    pub cwd: PathBuf,
    /// Template of a folder within `cwd` to run in; a relative path starts there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd_template: Option<String>,
    /// Template of the standard input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// The standard input is all arguments as JSON, and `stdin` is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin_json: bool,
    /// What stands for properties that a caller leaves out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, Value>,
    /// Properties whose value may begin with `-`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub allow_leading_dash: BTreeSet<String>,
    /// Placeholders may stand in scripts that interpreters run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_placeholders_in_scripts: bool,
    /// Properties that may be absent or null.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional: BTreeSet<String>,
    /// Properties that are secret: they are in no command line, and in no file longer than the command runs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    /// Properties, or elements of them, that are integers: 5.0 becomes the text 5.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub integers: BTreeSet<String>,
    /// What becomes of the standard output.
    #[serde(default)]
    pub output: OutputKind,
    /// JSON Schema the output must satisfy; only with [`OutputKind::Json`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Regular expression with a group `current` and perhaps `total`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Tail of the output kept in the result, in UTF-8 bytes after decoding.
    pub max_output: u64,
    /// Bytes of the log kept on disk.
    pub max_log: u64,
    /// The exit codes that count as success.
    #[serde(default, skip_serializing_if = "is_default")]
    pub success: SuccessCodes,
    /// The longest time of one attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// How an attempt is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop: StopSettings,
    /// Which files its attempts leave for the caller, if they may leave any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<ArtifactSettings>,
}

/// Only the program: environment and arguments may be secret.
impl fmt::Debug for CommandDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandDefinition({:?})", self.program())
    }
}

/// A command cannot be what its definition says.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// There is no program.
    #[error("`command` needs a program: its first element, a text")]
    NoProgram,
    /// The program is a placeholder.
    #[error("`command` element 1: the program is taken literally, so `{0}` would not be replaced; name a program")]
    ProgramTemplate(String),
    /// A NUL in the program's name.
    #[error("`command` element 1: NUL cannot stand in a program's name")]
    ProgramNul,
    /// An argument is not a template.
    #[error("`command` element {element}, {error}")]
    Argument {
        /// Which element, from 1.
        element: usize,
        /// What is wrong with it.
        error: TemplateError,
    },
    /// An element of the command can hardly be meant.
    #[error("`command` element {element}: {problem}")]
    Element {
        /// Which element, from 1.
        element: usize,
        /// What is wrong with it.
        problem: ElementProblem,
    },
    /// The standard input is not a template.
    #[error("`stdin`, {0}")]
    Stdin(TemplateError),
    /// A variable is not a template.
    #[error("`env.{name}`, {error}")]
    EnvTemplate {
        /// The variable.
        name: String,
        /// What is wrong with it.
        error: TemplateError,
    },
    /// The folder is not a template.
    #[error("`cwd`, {0}")]
    CwdTemplate(TemplateError),
    /// A placeholder in a variable that programs load code by.
    #[error("`env.{variable}`: {0}", variable = .0.variable)]
    CodeVariable(CodeVariablePlaceholder),
    /// A name in `optional`, `allow_leading_dash` or a switch that is no property.
    #[error("`{key}` names `{name}`, which is no property of the input; there is {known}")]
    UnknownName {
        /// Which key.
        key: &'static str,
        /// The name.
        name: String,
        /// The properties there are, for people.
        known: String,
    },
    /// A placeholder in a script that the definition does not accept.
    #[error("{place}: {0}", place = place(.0))]
    Script(ScriptPlaceholder),
    /// A secret where others can see it.
    #[error(transparent)]
    ExposedSecret(ExposedSecret),
    /// The folder is relative, or its name is not text.
    #[error("`cwd` must be an absolute path in UTF-8, and `{0}` is not")]
    Cwd(PathBuf),
    /// The file with variables is at a relative path, or its name is not text.
    #[error("`env_file` must be an absolute path in UTF-8, and `{0}` is not")]
    EnvFile(PathBuf),
    /// A name or value the system cannot take.
    #[error("`env`: the name `{0}` or its value holds what no environment can (an empty name, `=` in a name, or NUL)")]
    Env(String),
    /// The progress pattern is no regular expression, or lacks its group.
    #[error("`progress`: {0}")]
    Progress(String),
    /// A pattern of files that are kept is none.
    #[error("`artifacts`: {pattern:?}: {error}")]
    Artifacts {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        error: ArtifactPatternError,
    },
    /// A schema for output that is not JSON.
    #[error("`output_schema` needs `output = \"json\"`")]
    SchemaForText,
    /// The schema is none.
    #[error("`output_schema`: {0}")]
    OutputSchema(String),
    /// Written by a later Longhaul.
    #[error("this definition has format {found}; this Longhaul reads format {DEFINITION_VERSION} and earlier")]
    NewerVersion {
        /// Its format.
        found: u64,
    },
    /// Not a definition.
    #[error("not a command definition: {0}")]
    Malformed(#[source] serde_json::Error),
}

impl CommandDefinition {
    /// Reads a stored definition.
    ///
    /// # Errors
    /// [`DefinitionError::NewerVersion`] before anything else if a later Longhaul wrote it; [`DefinitionError::Malformed`] for a
    /// text that is none, unknown fields included.
    pub fn from_json(json: &str) -> Result<Self, DefinitionError> {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let Version { version } = serde_json::from_str(json).map_err(DefinitionError::Malformed)?;
        if version > u64::from(DEFINITION_VERSION) {
            return Err(DefinitionError::NewerVersion { found: version });
        }
        serde_json::from_str(json).map_err(DefinitionError::Malformed)
    }

    /// Refuses placeholders in scripts and in variables that programs load code by, unless they are allowed or their values are `harmless`. Asked when a tool is offered: a task that an earlier Longhaul accepted runs
    /// as it was accepted.
    ///
    /// # Errors
    /// [`DefinitionError::Script`] or [`DefinitionError::CodeVariable`] with the first of them.
    pub fn check_scripts(&self, harmless: &HarmlessValues) -> Result<(), DefinitionError> {
        if self.allow_placeholders_in_scripts {
            return Ok(());
        }
        let stdin = match self.stdin_json {
            true => StandardInput::Json,
            false => StandardInput::Template(&self.stdin),
        };
        let found = placeholders_in_scripts(&self.command, stdin, &self.allow_leading_dash, harmless);
        found
            .into_iter()
            .next()
            .map_or(Ok(()), |first| Err(DefinitionError::Script(first)))?;
        self.code_variable_placeholder(harmless)
            .map_or(Ok(()), |found| Err(DefinitionError::CodeVariable(found)))
    }

    /// The program; empty if there is none.
    pub fn program(&self) -> &str {
        self.command.first().and_then(CommandElement::text).unwrap_or_default()
    }

    /// The text [`Self::from_json`] reads. Equal definitions have equal texts.
    pub fn to_json(&self) -> String {
        // Only a path that is not UTF-8 could fail, and no checked definition has one.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What to start: the words of the command line, the program first, the standard input, and the files it reads.
#[derive(Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// All of the standard input.
    pub stdin: String,
    /// The variables whose values are made of arguments, without secrets.
    pub env: BTreeMap<String, String>,
    /// The folder that the caller has chosen, if it can choose one: within the definition's, where a relative path starts.
    pub cwd: Option<String>,
    /// Files that the attempt's folder must have.
    pub files: Vec<ArgumentFile>,
    /// What of all that is secret.
    pub secret: SecretInput,
}

/// Arguments may be secret, so a debug print counts them.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Invocation({:?} and {} arguments)",
            self.argv.first(),
            self.argv.len().saturating_sub(1)
        )
    }
}

/// A [`CommandDefinition`], checked, its templates, pattern and schema parsed.
pub struct CommandTool {
    definition: CommandDefinition,
    arguments: Vec<Element>,
    stdin: Template,
    env: BTreeMap<String, Template>,
    cwd: Option<Template>,
    defaults: BTreeMap<String, Box<RawValue>>,
    progress: Option<ProgressPattern>,
    output_schema: Option<Schema>,
}

impl CommandTool {
    /// Checks a definition. With the names of the input's properties given, every name in it must be among them; without
    /// (an input schema that allows any), every name is taken.
    ///
    /// # Errors
    /// [`DefinitionError`]: the key, the place in it, and what would be right.
    pub fn new(definition: CommandDefinition, names: Option<&BTreeSet<String>>) -> Result<Self, DefinitionError> {
        let arguments = parse_arguments(&definition.command, names)?;
        let stdin = Template::parse_with(&definition.stdin, names).map_err(DefinitionError::Stdin)?;
        if let Some(exposed) = definition.exposed_secret() {
            return Err(DefinitionError::ExposedSecret(exposed));
        }
        check_listed("optional", &definition.optional, names)?;
        check_listed("allow_leading_dash", &definition.allow_leading_dash, names)?;
        let defaults = definition.defaults.iter().map(|(name, value)| {
            let text = serde_json::value::to_raw_value(value).map_err(DefinitionError::Malformed)?;
            Ok((name.clone(), text))
        });
        let defaults = defaults.collect::<Result<_, _>>()?;
        if !definition.cwd.is_absolute() || definition.cwd.to_str().is_none() {
            return Err(DefinitionError::Cwd(definition.cwd));
        }
        check_variables(&definition)?;
        let env = parse_variables(&definition.env_templates, names)?;
        let cwd = definition
            .cwd_template
            .as_deref()
            .map(|text| Template::parse_with(text, names).map_err(DefinitionError::CwdTemplate));
        let progress = match &definition.progress {
            Some(pattern) => Some(ProgressPattern::parse(pattern).map_err(DefinitionError::Progress)?),
            None => None,
        };
        if let Some(Err((pattern, error))) =
            (definition.artifacts.as_ref()).map(|artifacts| parse_all(&artifacts.patterns))
        {
            return Err(DefinitionError::Artifacts { pattern, error });
        }
        let output_schema = match (&definition.output_schema, definition.output) {
            (None, _) => None,
            (Some(_), OutputKind::Text | OutputKind::Raw) => return Err(DefinitionError::SchemaForText),
            (Some(schema), OutputKind::Json) => Some(
                Schema::compile(schema, SchemaAuthor::Own)
                    .map_err(|error| DefinitionError::OutputSchema(error.to_string()))?,
            ),
        };
        Ok(Self {
            definition,
            arguments,
            stdin,
            env,
            cwd: cwd.transpose()?,
            defaults,
            progress,
            output_schema,
        })
    }

    /// What it was made from.
    pub fn definition(&self) -> &CommandDefinition {
        &self.definition
    }

    /// The progress pattern.
    pub(super) fn progress(&self) -> Option<&ProgressPattern> {
        self.progress.as_ref()
    }

    /// The schema of the output.
    pub(super) fn output_schema(&self) -> Option<&Schema> {
        self.output_schema.as_ref()
    }

    /// What to start for a call with these arguments, in an attempt with this folder. They are expected to satisfy the tool's input
    /// schema; what could harm is refused here all the same, by the rules of the configuration (a value is never split, and never seen
    /// by a shell).
    ///
    /// # Errors
    /// [`CommandArgumentError`], for the caller to read.
    pub fn expand(&self, arguments: &Arguments<'_>, folder: &Path) -> Result<Invocation, CommandArgumentError> {
        let arguments = &arguments.or_defaults(&self.defaults);
        let secrets = &self.definition.secrets;
        let files = ArgumentFiles::in_folder(folder, secrets);
        let rules = Rules {
            optional: &self.definition.optional,
            allow_leading_dash: &self.definition.allow_leading_dash,
            integers: &self.definition.integers,
            files: &files,
            element: None,
        };
        let mut argv = Vec::with_capacity(self.definition.command.len());
        argv.push(self.definition.program().to_owned());
        for element in &self.arguments {
            element.expand(arguments, &rules, &mut argv)?;
        }
        let cwd = match &self.cwd {
            Some(template) if variables::has_absent(template, arguments) => {
                // What is required is refused here.
                template.expand_text(arguments, &rules)?;
                Some(String::new())
            }
            Some(template) => Some(template.expand_text(arguments, &rules)?),
            None => None,
        };
        let stdin = match self.definition.stdin_json {
            true => arguments.to_json()?,
            false => self.stdin.expand_text(arguments, &rules)?,
        };
        let is_secret = |name: &String| self.env.get(name).is_some_and(|text| self.definition.has_secret(text));
        let (secret_env, env) = variables::expand(&self.env, arguments, &rules)?
            .into_iter()
            .partition(|(name, _)| is_secret(name));
        let (files, secret_files) = files.into_files();
        let is_stdin_secret = match self.definition.stdin_json {
            true => !secrets.is_empty(),
            false => self.definition.has_secret(&self.stdin),
        };
        let (stdin, secret_stdin) = match is_stdin_secret {
            true => (String::new(), Some(stdin)),
            false => (stdin, None),
        };
        Ok(Invocation {
            argv,
            stdin,
            env,
            cwd,
            files,
            secret: SecretInput {
                env: secret_env,
                stdin: secret_stdin,
                files: (secret_files.into_iter())
                    .map(|file| (file.name, file.contents))
                    .collect(),
            },
        })
    }
}

fn place(script: &ScriptPlaceholder) -> String {
    match script.element {
        Some(element) => format!("`command` element {}", element + 1),
        None => "`stdin`".to_owned(),
    }
}

fn parse_arguments(
    command: &[CommandElement],
    names: Option<&BTreeSet<String>>,
) -> Result<Vec<Element>, DefinitionError> {
    let (program, arguments) = command.split_first().ok_or(DefinitionError::NoProgram)?;
    let program = program.text().filter(|program| !program.is_empty());
    let program = program.ok_or(DefinitionError::NoProgram)?;
    if program.contains('\0') {
        return Err(DefinitionError::ProgramNul);
    }
    // A program may have braces in its name; one that spells a property was meant to be replaced.
    if let (Ok(template), Some(names)) = (Template::parse(program), names)
        && let Some(name) = template.properties().find(|name| names.contains(*name))
    {
        return Err(DefinitionError::ProgramTemplate(format!("{{{name}}}")));
    }
    let parse = |(index, argument): (usize, &CommandElement)| {
        let element = index + 2;
        if let CommandElement::Switch(switch) = argument {
            check_listed("if", &[switch.property.clone()].into(), names)?;
        }
        match argument.problem() {
            Some(problem) => Err(DefinitionError::Element { element, problem }),
            None => Element::parse(argument, names).map_err(|error| DefinitionError::Argument { element, error }),
        }
    };
    arguments.iter().enumerate().map(parse).collect()
}

fn check_variables(definition: &CommandDefinition) -> Result<(), DefinitionError> {
    let literal = definition.env.iter().map(|(name, value)| (name, value.as_str()));
    let templates = definition.env_templates.keys().map(|name| (name, ""));
    let passed = definition.env_from.iter().map(|name| (name, ""));
    for (name, value) in literal.chain(templates).chain(passed) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(DefinitionError::Env(name.clone()));
        }
    }
    match &definition.env_file {
        Some(file) if !file.is_absolute() || file.to_str().is_none() => Err(DefinitionError::EnvFile(file.clone())),
        _ => Ok(()),
    }
}

fn parse_variables(
    templates: &BTreeMap<String, String>,
    names: Option<&BTreeSet<String>>,
) -> Result<BTreeMap<String, Template>, DefinitionError> {
    let parse = |(name, text): (&String, &String)| match Template::parse_with(text, names) {
        Ok(template) => Ok((name.clone(), template)),
        Err(error) => Err(DefinitionError::EnvTemplate {
            name: name.clone(),
            error,
        }),
    };
    templates.iter().map(parse).collect()
}

fn check_listed(
    key: &'static str,
    listed: &BTreeSet<String>,
    names: Option<&BTreeSet<String>>,
) -> Result<(), DefinitionError> {
    match names.and_then(|names| listed.difference(names).next().map(|name| (name, names))) {
        None => Ok(()),
        Some((name, names)) => Err(DefinitionError::UnknownName {
            key,
            name: name.clone(),
            known: list_of(names),
        }),
    }
}
