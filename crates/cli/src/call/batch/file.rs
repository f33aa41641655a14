//! The file of a batch: a call on each line, as JSON.

use crate::{
    call::{listings, tool_schema::ToolSchema},
    exit::failure::Failure,
    output::{
        json_text::{self, TextError},
        nearest,
    },
    servers::Server,
};
use longhaul_client::Tool;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, BufRead, BufReader, Seek},
    path::Path,
};

/// The mistakes that are reported at once.
const MOST_PROBLEMS: usize = 10;

/// A line without its tool.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) arguments: Map<String, Value>,
    pub(super) key: Option<String>,
}

/// A call as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WrittenCall {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    idempotency_key: Option<String>,
}

/// The file is read twice, line by line: once to check it, and once for the calls. It may be larger than memory.
pub(super) struct BatchFile<'a> {
    shown: String,
    reader: BufReader<File>,
    /// The number of the line that was read last.
    number: usize,
    tools: HashMap<&'a str, CheckedTool<'a>>,
    /// Those that the entry of the server leaves out.
    switched_off: HashSet<&'a str>,
    /// The tool of all lines, which then hold arguments alone.
    tool: Option<&'a str>,
    takes_keys: bool,
    has_own_keys: bool,
}

struct CheckedTool<'a> {
    tool: &'a Tool,
    schema: ToolSchema,
}

impl<'a> BatchFile<'a> {
    pub(super) fn open(
        path: &Path,
        tools: &'a [Tool],
        server: &Server,
        tool: Option<&'a str>,
        takes_keys: bool,
    ) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let file = longhaul_private_dir::open_named(path).and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it must be a file, since it is read twice")),
        });
        let file = file.map_err(|error| Failure::usage(format!("--batch {shown}: {error}")))?;
        let (tools, off): (Vec<&Tool>, Vec<&Tool>) = tools.iter().partition(|tool| server.offers(&tool.name));
        let checked = tools.into_iter().map(|tool| {
            let schema = ToolSchema::of(tool);
            (tool.name.as_str(), CheckedTool { tool, schema })
        });
        let file = Self {
            shown,
            reader: BufReader::new(file),
            number: 0,
            tools: checked.collect(),
            switched_off: off.into_iter().map(|tool| tool.name.as_str()).collect(),
            tool,
            takes_keys,
            has_own_keys: false,
        };
        if let Some(tool) = tool {
            file.find(tool).map_err(Failure::usage)?;
        }
        Ok(file)
    }

    /// Checks every line, and returns how many calls there are.
    pub(super) fn check(&mut self) -> Result<usize, Failure> {
        let (mut calls, mut problems) = (0, Vec::new());
        let mut keys = HashSet::new();
        while problems.len() < MOST_PROBLEMS {
            let Some(text) = self.read_line().map_err(Failure::usage)? else {
                break;
            };
            let problem = match self.parse(&text) {
                Ok((line, _)) => {
                    calls += 1;
                    line.key.and_then(|key| {
                        let again = format!("another line has the idempotency key `{key}`");
                        (!keys.insert(key)).then_some(again)
                    })
                }
                Err(problem) => Some(problem),
            };
            problems.extend(problem.map(|problem| format!("{}:{}: {problem}", self.shown, self.number)));
        }
        if !problems.is_empty() {
            return Err(Failure::usage(format!("{}\nnothing was called", problems.join("\n"))));
        }
        if calls == 0 {
            return Err(Failure::usage(format!(
                "--batch {}: there are no calls in it",
                self.shown
            )));
        }
        let rewound = self.reader.rewind();
        rewound.map_err(|error| Failure::usage(format!("--batch {}: {error}", self.shown)))?;
        self.has_own_keys = !keys.is_empty();
        self.number = 0;
        Ok(calls)
    }

    /// Whether a line that was checked has an idempotency key of its own.
    pub(super) fn has_own_keys(&self) -> bool {
        self.has_own_keys
    }

    /// The next line that is not empty.
    fn read_line(&mut self) -> Result<Option<String>, String> {
        let mut text = String::new();
        loop {
            text.clear();
            let read = self.reader.read_line(&mut text);
            self.number += 1;
            match read {
                Ok(0) => return Ok(None),
                Ok(_) if self.number == 1 => text = json_text::without_mark(&text).to_owned(),
                Ok(_) => {}
                Err(error) => return Err(format!("{}:{}: {error}", self.shown, self.number)),
            }
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
        }
    }

    fn parse(&self, text: &str) -> Result<(Line, &'a Tool), String> {
        let read = |error: TextError| match error {
            TextError::NotJson(reason) if self.tool.is_some() => {
                format!("it must be a JSON object, the arguments: {reason}")
            }
            TextError::NotJson(reason) => {
                format!("it must be {{\"tool\": …, \"arguments\": {{…}}, \"idempotencyKey\": …}}: {reason}")
            }
            TextError::TooLarge(_) => error.to_string(),
        };
        let written = match self.tool {
            Some(tool) => WrittenCall {
                tool: tool.to_owned(),
                arguments: json_text::read(text).map_err(read)?,
                idempotency_key: None,
            },
            None => {
                let members: Map<String, Value> = json_text::read(text).map_err(read)?;
                let written = serde_json::from_value(members.into());
                written.map_err(|error| read(TextError::NotJson(error.to_string())))?
            }
        };
        if written.idempotency_key.is_some() && !self.takes_keys {
            return Err("this server does not declare idempotency keys, so it would ignore the key".to_owned());
        }
        let found = self.find(&written.tool)?;
        if let Some(problem) = found.schema.problem(&written.arguments) {
            return Err(problem);
        }
        let line = Line {
            number: self.number,
            arguments: written.arguments,
            key: written.idempotency_key,
        };
        Ok((line, found.tool))
    }

    fn find(&self, name: &str) -> Result<&CheckedTool<'a>, String> {
        self.tools.get(name).ok_or_else(|| {
            if self.switched_off.contains(name) {
                return listings::switched_off(name);
            }
            let hint = nearest::suggestion(name, self.tools.keys().copied());
            let hint = hint.unwrap_or_else(|| "the server has no tools".to_owned());
            format!("there is no tool `{name}`; {hint}")
        })
    }
}

/// The calls of a file that was checked. One that was changed since ends where it is wrong.
impl<'a> Iterator for BatchFile<'a> {
    type Item = (Line, &'a Tool);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.read_line().ok()??;
        self.parse(&text).ok()
    }
}
