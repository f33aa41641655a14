//! The configuration file that `longhaul init` writes.

use super::command::ToolCommand;
use crate::{
    config::Environment,
    output::shell_word::{command_line, shell_word},
};
use std::{collections::BTreeSet, fmt::Write as _, path::Path};

/// The tool of somebody who has named none: it needs nothing but a shell, and runs long enough to be seen.
const COUNT: [&str; 5] = [
    "sh",
    "-c",
    r#"i=0; while [ "$i" -lt "$1" ]; do i=$((i+1)); echo "step $i/$1"; sleep 1; done; echo "counted to $1""#,
    "sh",
    "{steps}",
];

/// Where the tools are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// By hosts on this machine, through standard input.
    Hosts,
    /// Over HTTP, on this machine.
    Http,
}

/// What the user has answered.
#[derive(Debug)]
pub(super) struct Answers {
    /// The name of the server.
    pub(super) name: String,
    /// What the first tool runs; `None` for an example.
    pub(super) words: Option<Vec<String>>,
    pub(super) place: Place,
}

/// A file to be written.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) text: String,
    /// The name of its tool.
    pub(super) tool: String,
    /// The arguments of a call, as `longhaul call` takes them.
    pub(super) arguments: Vec<String>,
    /// Names in braces that are no placeholders, since they are in a script.
    pub(super) literal: BTreeSet<String>,
    /// What looks like a placeholder and is none.
    pub(super) misnamed: Option<String>,
}

impl Answers {
    /// The file that says so. `cwd`: where the command runs, if that is not the folder of the file.
    pub(super) fn draft(&self, file: &Path, cwd: Option<&str>, environment: &Environment) -> Draft {
        let server = self.server(file, environment);
        let Some(words) = &self.words else {
            return Draft {
                text: server + &example(),
                tool: "count".to_owned(),
                arguments: vec!["steps=8".to_owned()],
                literal: BTreeSet::new(),
                misnamed: None,
            };
        };
        let (tool, command) = (ToolCommand::tool_name(words), ToolCommand::of_words(words));
        let argument = |name: &String| format!("{name}={}", name.to_uppercase());
        Draft {
            text: server + &own(&tool, words, &command, cwd),
            tool,
            arguments: command.properties.iter().map(argument).collect(),
            literal: command.literal,
            misnamed: command.misnamed,
        }
    }

    fn server(&self, file: &Path, environment: &Environment) -> String {
        let name = &self.name;
        let file = shell_word(&file.display().to_string());
        let serve = match self.place {
            Place::Hosts => "stdio",
            Place::Http => "serve",
        };
        let mut text = format!(
            "# The tools that this machine offers to MCP clients. `longhaul init` has written this file: change what you like.\n\
             #\n\
             #   longhaul check {file}\n\
             #   longhaul {serve} {file}\n\
             #\n\
             # All keys are in docs/configuration.md of Longhaul, which is the page \"Configuration\" of its documents.\n\
             \n\
             [server]\n\
             # What clients see. It also names the folder with the tasks.\n\
             name = {}\n",
            quoted(name)
        );
        let folder = state_folder(name, environment);
        match self.place {
            Place::Http => {
                text.push_str(
                    "# Clients connect to http://127.0.0.1:7411/mcp. Programs of your user may; keys let others in (docs/security.md).\n\
                     listen = \"127.0.0.1:7411\"\n",
                );
                text.push_str("# Tasks, their logs and their results are kept here.\n");
                match &folder {
                    StateFolder::Default(path) => {
                        let _ = writeln!(text, "# data_dir = \"{path}\"   # without this line, too");
                    }
                    StateFolder::Named(path) => {
                        let _ = writeln!(text, "data_dir = {}", quoted(path));
                    }
                }
            }
            Place::Hosts => {
                let path = folder.path();
                let _ = writeln!(
                    text,
                    "# Tasks, their logs and their results are kept here.\n\
                     data_dir = {}\n\
                     # No port: MCP hosts start `longhaul stdio`, and only programs of your user may open this socket. For HTTP write \"127.0.0.1:7411\".\n\
                     listen = {}",
                    quoted(path),
                    quoted(&format!("unix:{path}/mcp.sock"))
                );
            }
        }
        text
    }
}

/// Where the data of a server are.
enum StateFolder {
    /// Where they are without a word; as it is written for people.
    Default(String),
    /// Nothing says where they would be without a word.
    Named(String),
}

impl StateFolder {
    fn path(&self) -> &str {
        match self {
            Self::Default(path) | Self::Named(path) => path,
        }
    }
}

fn state_folder(name: &str, environment: &Environment) -> StateFolder {
    let home = environment.home.as_ref();
    let usual = home.map(|home| home.join(".local/state"));
    match (&environment.state_home, usual) {
        (None, Some(_)) => StateFolder::Default(format!("~/.local/state/longhaul/{name}")),
        (Some(state), usual) if Some(state) == usual.as_ref() => {
            StateFolder::Default(format!("~/.local/state/longhaul/{name}"))
        }
        // Who sets XDG_STATE_HOME here may not set it where the server is started.
        (Some(state), _) if state.to_str().is_some() => {
            StateFolder::Named(state.join("longhaul").join(name).display().to_string())
        }
        _ => StateFolder::Named(format!("{name}-data")),
    }
}

/// The section of the example.
fn example() -> String {
    let [sh, option, script, zero, steps] = COUNT.map(quoted);
    format!(
        "\n\
         # A tool is a command. Each tool has a section [[tool]] of its own.\n\
         [[tool]]\n\
         # What the model calls.\n\
         name = \"count\"\n\
         # By this the model decides when to call it: say what it does, and how long it takes.\n\
         description = \"Count to a number, a step a second\"\n\
         # The program and its arguments. No shell reads them, but this example starts one. {{steps}} is replaced by what the caller gives.\n\
         command = [{sh}, {option}, {script}, {zero}, {steps}]\n\
         # What callers give: a JSON Schema for each argument.\n\
         input = {{ steps = {{ type = \"integer\", minimum = 1, maximum = 600, description = \"how far to count\" }} }}\n\
         # The newest line of output that matches is the progress of the task.\n\
         progress = '(?<current>\\d+)/(?<total>\\d+)'\n\
         # Every call is a task at once. \"after\" is usual: a call becomes a task when it takes longer than `task_after`, which is 5s.\n\
         task = \"always\"\n"
    )
}

/// The section of the user's own command.
fn own(tool: &str, words: &[String], command: &ToolCommand, cwd: Option<&str>) -> String {
    let elements: Vec<String> = command.words.iter().map(|word| quoted(word)).collect();
    let mut text = format!(
        "\n\
         # A tool is a command. Each tool has a section [[tool]] of its own.\n\
         [[tool]]\n\
         # What the model calls.\n\
         name = {}\n\
         # By this the model decides when to call it: say what it does, and how long it takes.\n\
         description = {}\n\
         # The program and its arguments. No shell reads them: no variables, no pipes. {{NAME}} is replaced by an argument of the call; {{{{ and }}}} are braces.\n\
         command = [{}]\n",
        quoted(tool),
        quoted(&format!("Run: {}", command_line(words))),
        elements.join(", ")
    );
    text.push_str("# What callers give: a JSON Schema for each argument.\n");
    match command.properties.is_empty() {
        true => text.push_str("# input = { branch = { type = \"string\", pattern = '^[a-z0-9/_-]+$' } }\n"),
        false => {
            let property = |name: &String| format!("{} = {{ type = \"string\", minLength = 1 }}", quoted(name));
            let properties: Vec<String> = command.properties.iter().map(property).collect();
            let _ = writeln!(text, "input = {{ {} }}", properties.join(", "));
        }
    }
    text.push_str("# The folder that it runs in. Relative paths start from the folder of this file.\n");
    let _ = match cwd {
        // Braces are those of placeholders.
        Some(cwd) => writeln!(text, "cwd = {}", quoted(&cwd.replace('{', "{{").replace('}', "}}"))),
        None => writeln!(text, "# cwd = \".\""),
    };
    text.push_str(
        "# A call that takes longer than this becomes a task: its client may leave, and fetch the result later.\n\
         task = \"after\"\n\
         task_after = \"5s\"\n\
         # More that a tool can have:\n\
         # progress = '(?<current>\\d+)/(?<total>\\d+)'                  # the newest line of output that matches is the progress\n\
         # deadline = \"1h\"                                             # ends it after this time\n\
         # concurrency = 1                                             # one at a time; further calls wait\n\
         # retry = { attempts = 3, backoff = \"10s\", on = [\"crash\"] }   # only if it does no harm twice\n",
    );
    text
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{self, Config},
        output::shell_word::split_words,
    };
    use std::path::PathBuf;

    fn environment() -> Environment {
        Environment {
            home: Some("/home/u".into()),
            state_home: None,
            ..Environment::of_this_process()
        }
    }

    fn load(answers: &Answers, cwd: Option<&str>, environment: &Environment) -> (Draft, Config) {
        let file = Path::new("/tmp/odd ' \u{202e}\nname.toml");
        let draft = answers.draft(file, cwd, environment);
        match config::load_generated(file, draft.text.clone(), environment) {
            Ok(config) => (draft, config),
            Err(error) => panic!("{error}\n{}", draft.text),
        }
    }

    fn answers(line: Option<&str>, place: Place) -> Answers {
        Answers {
            name: "my.jobs-1_x".to_owned(),
            words: line.map(|line| split_words(line).unwrap()),
            place,
        }
    }

    #[test]
    fn what_is_written_can_be_served_and_runs_the_words_that_were_typed() {
        let (quoted, braces) = (r#"echo 'a b' "it's" "say \"x\"""#, r#"echo '{"a": 1}' '{{.Names}}'"#);
        let (script, parameter) = ("sh -c 'echo {x}; f() { :; }'", r#"sh -c 'echo "$1"' sh {x}"#);
        for place in [Place::Hosts, Place::Http] {
            for (line, command, warnings) in [
                ("true", &["true"][..], 0),
                (quoted, &["echo", "a b", "it's", "say \"x\""], 0),
                ("echo größe 日本 🦀", &["echo", "größe", "日本", "🦀"], 0),
                ("echo {x} pre-{y}", &["echo", "{x}", "pre-{y}"], 0),
                ("find . -exec cat {} +", &["find", ".", "-exec", "cat", "{{}}", "+"], 0),
                (braces, &["echo", "{{\"a\": 1}}", "{{{{.Names}}}}"], 0),
                (script, &["sh", "-c", "echo {{x}}; f() {{ :; }}"], 0),
                (parameter, &["sh", "-c", "echo \"$1\"", "sh", "{x}"], 0),
                ("awk '{print}' {file}", &["awk", "{{print}}", "{file}"], 0),
                ("echo '' '\\n' \\\\", &["echo", "", "\\n", "\\"], 0),
                ("echo a | wc", &["echo", "a", "|", "wc"], 1),
                ("echo ${HOME} ~", &["echo", "${{HOME}}", "~"], 2),
                ("no-such-program-here {x}", &["no-such-program-here", "{x}"], 1),
                ("echo '''", &["echo", "'"], 0),
            ] {
                let line = line.replace("'''", "\"'\"");
                let (_, config) = load(&answers(Some(&line), place), None, &environment());
                let found = config.tools[0].command.iter().map(|element| element.text().unwrap());
                assert_eq!(found.collect::<Vec<_>>(), command, "{line}");
                assert_eq!(config.warnings.len(), warnings, "{line}: {:?}", config.warnings);
                assert_eq!(config.server.name, "my.jobs-1_x");
            }
        }
    }

    #[test]
    fn the_example_is_a_task_with_progress() {
        let (draft, config) = load(&answers(None, Place::Http), None, &environment());
        assert_eq!(
            (draft.tool.as_str(), draft.arguments),
            ("count", vec!["steps=8".to_owned()])
        );
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        assert!(config.tools[0].output.progress.is_some());
        assert_eq!(config.server.listen.url(false), "http://127.0.0.1:7411/mcp");
        let data_dir = Path::new("/home/u/.local/state/longhaul/my.jobs-1_x");
        assert_eq!(config.server.data_dir, data_dir);
    }

    #[test]
    fn data_are_where_the_comment_says_also_without_a_home() {
        let state_home = |path: &str| Environment {
            state_home: Some(path.into()),
            ..environment()
        };
        let homeless = Environment {
            home: None,
            ..environment()
        };
        let usual = "/home/u/.local/state/longhaul/my.jobs-1_x";
        for (environment, data_dir) in [
            (environment(), usual),
            (state_home("/home/u/.local/state"), usual),
            (state_home("/var/a \"b\"'c'"), "/var/a \"b\"'c'/longhaul/my.jobs-1_x"),
            (homeless, "/tmp/my.jobs-1_x-data"),
        ] {
            for place in [Place::Http, Place::Hosts] {
                let (_, config) = load(&answers(None, place), None, &environment);
                assert_eq!(config.server.data_dir, Path::new(data_dir));
                if place == Place::Hosts {
                    let socket = PathBuf::from(data_dir).join("mcp.sock");
                    assert_eq!(config.server.listen.url(false), format!("unix:{}", socket.display()));
                }
                assert!(config.warnings.is_empty(), "{:?}", config.warnings);
            }
        }
    }

    #[test]
    fn a_command_runs_where_it_was_typed() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a 'b' \"c\"\n{d}");
        std::fs::create_dir(&odd).unwrap();
        let (_, config) = load(&answers(Some("true"), Place::Http), odd.to_str(), &environment());
        assert_eq!(config.tools[0].cwd, odd);
    }
}
