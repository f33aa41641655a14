//! `tasks.json` of Visual Studio Code.

use super::{Draft, DraftedTool, Element, Property, Source, literal, property_name, text};
use crate::{mcp_servers::jsonc, output::shell_word::split_words};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, path::Path};

/// What only a shell understands. Quotes and backslashes are read by [`split_words`], too.
const SHELL_SYNTAX: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '`', '*', '?', '[', '~', '#', '\n', '$',
];
/// What a task says that means nothing to a tool.
const MEANINGLESS: [&str; 8] = [
    "label",
    "taskName",
    "presentation",
    "group",
    "icon",
    "promptOnClose",
    "hide",
    "detail",
];
/// What is read.
const KNOWN: [&str; 8] = [
    "type",
    "command",
    "args",
    "options",
    "script",
    "path",
    "linux",
    "isBackground",
];

pub(super) fn read(source: &Source<'_>) -> Result<Draft, String> {
    let options = jsonc::options();
    let file: Value = jsonc_parser::parse_to_serde_value(&source.text, &options).map_err(|error| error.to_string())?;
    let tasks = file["tasks"]
        .as_array()
        .ok_or("it has no array `tasks`, as tasks.json of VS Code does")?;
    // The file is in the folder `.vscode` of the workspace.
    let folder = source.folder();
    let is_settings = folder.file_name().is_some_and(|name| name == ".vscode");
    let workspace = folder.parent().filter(|_| is_settings).unwrap_or(folder);
    let inputs = file["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut draft = Draft::default();
    for task in tasks.iter().filter_map(Value::as_object) {
        let reader = TaskReader {
            workspace,
            inputs,
            task: on_linux(&file, task),
            environment: BTreeSet::new(),
            properties: Vec::new(),
        };
        match reader.read() {
            Ok(tool) => draft.tools.push(tool),
            Err(why) => draft.left_out.push(why),
        }
    }
    Ok(draft)
}

/// A task with the options of the whole file, and with what it says for Linux.
fn on_linux(file: &Value, task: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = task.clone();
    if let (Some(options), false) = (file.get("options"), task.contains_key("options")) {
        merged.insert("options".to_owned(), options.clone());
    }
    if let Some(linux) = task.get("linux").and_then(Value::as_object) {
        merged.extend(linux.clone());
    }
    merged
}

struct TaskReader<'a> {
    workspace: &'a Path,
    inputs: &'a [Value],
    task: Map<String, Value>,
    /// Variables of the environment that it names.
    environment: BTreeSet<String>,
    properties: Vec<Property>,
}

/// A part of a text with variables of VS Code.
enum Part {
    Literal(String),
    Argument(String),
    Variable(String),
}

impl TaskReader<'_> {
    fn read(mut self) -> Result<DraftedTool, String> {
        let text = |key: &str| self.task.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = text("type").unwrap_or_else(|| "process".to_owned());
        let label = text("label")
            .or_else(|| text("taskName"))
            .or_else(|| text("script"))
            .unwrap_or_default();
        let described = text("detail").unwrap_or_else(|| format!("The task `{label}` of VS Code"));
        let mut tool = DraftedTool::new(&label, described);
        let words = match kind.as_str() {
            "npm" => {
                let script = text("script").unwrap_or_default();
                let prefix = text("path").map(|path| ["--prefix".to_owned(), path]);
                let npm = std::iter::once("npm".to_owned()).chain(prefix.into_iter().flatten());
                npm.chain(["run".to_owned(), script]).collect()
            }
            "shell" | "process" => self.words(&label)?,
            other => {
                return Err(format!(
                    "the task `{label}`: its type `{other}` belongs to an extension"
                ));
            }
        };
        let is_builtin = words.first().is_some_and(|line| begins_in_shell(line));
        let in_shell = kind == "shell" && (is_builtin || words.iter().any(|word| has_shell_syntax(word)));
        let names_variables = words.iter().any(|word| word.contains("${env:"));
        let is_script = in_shell || names_variables;
        match is_script {
            true => self.script(&words, kind == "shell", &mut tool),
            false => self.command(&words, kind == "shell", &mut tool)?,
        }
        self.options(&mut tool);
        for (key, value) in &self.task {
            let is_read = KNOWN.contains(&key.as_str()) || MEANINGLESS.contains(&key.as_str());
            match key.as_str() {
                "dependsOn" => tool.left_out.push(format!(
                    "dependsOn: {value}; a tool runs one command: call those before it, or write a script that runs all"
                )),
                _ if is_read => {}
                _ => tool.left_out.push(key.clone()),
            }
        }
        if self.task.get("isBackground") == Some(&Value::Bool(true)) {
            let why = "isBackground: the task does not end by itself; a `deadline` or a cancel ends it";
            tool.left_out.push(why.to_owned());
        }
        tool.properties.append(&mut self.properties);
        if is_script {
            // A shell in the script would read them again.
            tool.allow_plain_texts("the script", |_| true);
        }
        Ok(tool)
    }

    fn words(&self, label: &str) -> Result<Vec<String>, String> {
        let word = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Object(quoted) => match &quoted["value"] {
                Value::String(text) => Some(text.clone()),
                Value::Array(parts) => Some(parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
                _ => None,
            },
            _ => None,
        };
        let command = self.task.get("command").and_then(word);
        let command = command.ok_or_else(|| format!("the task `{label}` has no command"))?;
        let arguments = self.task.get("args").and_then(Value::as_array);
        let arguments = arguments.into_iter().flatten().filter_map(word);
        Ok(std::iter::once(command).chain(arguments).collect())
    }

    /// A command without a shell.
    fn command(&mut self, words: &[String], is_line: bool, tool: &mut DraftedTool) -> Result<(), String> {
        let (program, arguments) = words.split_first().ok_or("it has no command")?;
        let mut split = match is_line {
            true => split_words(program).map_err(|error| format!("`{program}`: {error}"))?,
            false => vec![program.clone()],
        };
        split.extend_from_slice(arguments);
        for word in split {
            let template: String = self.parts(&word).iter().map(template_of).collect();
            tool.command.push(Element::Word(template));
        }
        Ok(())
    }

    /// A script for `sh`, whose arguments are the values.
    fn script(&mut self, words: &[String], is_shell: bool, tool: &mut DraftedTool) {
        let mut script = Vec::new();
        let mut positions: Vec<String> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            // VS Code gives a shell the command as it is, and quotes arguments with spaces.
            let is_quoted = !is_shell || (index > 0 && word.contains(' '));
            let mut written = String::new();
            for part in self.parts(word) {
                match part {
                    Part::Literal(text) if is_quoted => written.push_str(&crate::output::shell_word::shell_word(&text)),
                    Part::Literal(text) => written.push_str(&text),
                    Part::Variable(name) => {
                        written.push_str(&in_quotes(&written, &format!("${{{name}}}")));
                        self.environment.insert(name);
                    }
                    Part::Argument(name) => {
                        let known = positions.iter().position(|position| *position == name);
                        let nth = known.unwrap_or_else(|| {
                            positions.push(name);
                            positions.len() - 1
                        });
                        written.push_str(&in_quotes(&written, &format!("${{{}}}", nth + 1)));
                    }
                }
            }
            script.push(written);
        }
        for word in ["sh", "-c", &script.join(" "), "sh"] {
            tool.word(word);
        }
        let values = positions.iter().map(|name| Element::Word(format!("{{{name}}}")));
        tool.command.extend(values);
    }

    fn options(&mut self, tool: &mut DraftedTool) {
        let options = self
            .task
            .get("options")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let cwd = options
            .get("cwd")
            .and_then(Value::as_str)
            .unwrap_or("${workspaceFolder}");
        let cwd = match self.parts(cwd).as_slice() {
            [Part::Literal(path)] => self.workspace.join(path).display().to_string(),
            _ => {
                tool.left_out.push(format!("options.cwd: {cwd}"));
                self.workspace.display().to_string()
            }
        };
        tool.keys.push(("cwd", text::quoted(&literal(&cwd))));
        let mut variables = Map::new();
        for (name, value) in options.get("env").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let template = |part: &Part| match part {
                Part::Variable(name) => format!("${{{name}}}"),
                part => template_of(part),
            };
            let value: String = self.parts(&value).iter().map(template).collect();
            variables.insert(name.clone(), value.into());
        }
        if !variables.is_empty() {
            tool.keys.push(("env", text::inline(&variables.into())));
        }
        if !self.environment.is_empty() {
            let names: Vec<String> = self.environment.iter().cloned().collect();
            tool.keys.push(("env_from", text::list(&names)));
        }
        if options.contains_key("shell") {
            tool.left_out
                .push(format!("options.shell: {}; scripts run in sh", options["shell"]));
        }
    }

    /// The parts of a text with variables. Those that VS Code fills in of its window are arguments of the tool.
    fn parts(&mut self, given: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = given;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else {
                break;
            };
            parts.push(Part::Literal(before.to_owned()));
            parts.push(self.variable(name));
            rest = behind;
        }
        parts.push(Part::Literal(rest.to_owned()));
        let mut merged: Vec<Part> = Vec::new();
        for part in parts {
            match (merged.last_mut(), part) {
                (_, Part::Literal(text)) if text.is_empty() => {}
                (Some(Part::Literal(before)), Part::Literal(text)) => before.push_str(&text),
                (_, part) => merged.push(part),
            }
        }
        merged
    }

    fn variable(&mut self, name: &str) -> Part {
        let folder_name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        match name {
            "workspaceFolder" | "workspaceRoot" | "cwd" => Part::Literal(self.workspace.display().to_string()),
            "workspaceFolderBasename" => Part::Literal(folder_name(self.workspace).unwrap_or_default()),
            "pathSeparator" | "/" => Part::Literal("/".to_owned()),
            "userHome" => Part::Variable("HOME".to_owned()),
            _ => match name.split_once(':') {
                Some(("env", variable)) => Part::Variable(variable.to_owned()),
                Some(("input", id)) => self.input(id),
                _ => self.argument(
                    name,
                    json!({"type": "string", "description": format!("${{{name}}} of VS Code")}),
                    false,
                ),
            },
        }
    }

    fn input(&mut self, id: &str) -> Part {
        let Some(input) = self.inputs.iter().find(|input| input["id"] == id) else {
            return self.argument(id, json!({"type": "string"}), false);
        };
        let mut schema = json!({"type": "string"});
        let options = input["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let options: Vec<&Value> = options
            .iter()
            .map(|option| option.get("value").unwrap_or(option))
            .collect();
        if !options.is_empty() {
            schema = json!({"enum": options});
        }
        for key in ["description", "default"] {
            if let Some(text) = input[key].as_str() {
                schema[key] = text.into();
            }
        }
        self.argument(id, schema, false)
    }

    fn argument(&mut self, name: &str, schema: Value, is_optional: bool) -> Part {
        let name = property_name(name);
        if self.properties.iter().all(|known| known.name != name) {
            self.properties.push(Property {
                name: name.clone(),
                schema,
                is_optional,
            });
        }
        Part::Argument(name)
    }
}

fn template_of(part: &Part) -> String {
    match part {
        Part::Literal(text) => literal(text),
        Part::Argument(name) => format!("{{{name}}}"),
        Part::Variable(name) => literal(&format!("${{{name}}}")),
    }
}

/// Whether a line begins with what no program is: a command of the shell, or a variable.
fn begins_in_shell(line: &str) -> bool {
    const BUILTINS: [&str; 12] = [
        ".", "alias", "cd", "eval", "exec", "export", "pushd", "set", "source", "ulimit", "umask", "unset",
    ];
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_variable = first
        .split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    is_variable || BUILTINS.contains(&first)
}

fn has_shell_syntax(word: &str) -> bool {
    let mut bare = word.to_owned();
    // Variables of VS Code are none of a shell.
    while let Some(start) = bare.find("${") {
        let end = bare[start..].find('}').map_or(bare.len(), |end| start + end + 1);
        bare.replace_range(start..end, "");
    }
    bare.contains(SHELL_SYNTAX)
}

/// A value of a shell, so that it stays one word where it stands in `before`.
fn in_quotes(before: &str, value: &str) -> String {
    let mut quote = None;
    let mut chars = before.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '\'' | '"') => quote = Some(char),
            (None | Some('"'), '\\') => drop(chars.next()),
            _ => {}
        }
    }
    match quote {
        None => format!("\"{value}\""),
        Some('\'') => format!("'\"{value}\"'"),
        Some(_) => value.to_owned(),
    }
}
