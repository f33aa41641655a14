//! A service of systemd, with its timer if there is one beside it.

use super::{Draft, DraftedSchedule, DraftedTool, Element, Property, Source, literal, systemd_times as times, text};
use crate::output::shell_word::{shell_word, split_words};
use serde_json::{Map, Value, json};
use std::path::Path;

/// What says nothing about the command itself.
const MEANINGLESS: [&str; 8] = [
    "Unit.Description",
    "Unit.Documentation",
    "Install.WantedBy",
    "Install.RequiredBy",
    "Install.Also",
    "Service.RemainAfterExit",
    "Service.SyslogIdentifier",
    "Timer.Unit",
];

pub(super) fn read(source: &Source<'_>) -> Result<Draft, String> {
    let is_timer = source.path.extension().is_some_and(|extension| extension == "timer");
    let own = Unit::parse(&source.text)?;
    let other = |extension: &str| read_other(source.path, extension);
    let (service, timer) = match is_timer {
        true => {
            let service = other("service")?.ok_or("its service is not beside it: name the .service file")?;
            (service, Some(own))
        }
        false => (own, other("timer")?),
    };
    let name = source.stem().trim_end_matches('@').to_owned();
    let mut tool = service.tool(&name)?;
    if source.stem().ends_with('@') {
        tool.property(Property {
            name: "instance".to_owned(),
            schema: json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "description": "%i of the unit"}),
            is_optional: false,
        });
    }
    let mut schedules = timer.map(|timer| timer.schedules(&mut tool)).unwrap_or_default();
    if source.stem().ends_with('@') && !schedules.is_empty() {
        let why = "its timer: add a [[schedule]] for each instance, with arguments = { instance = \"NAME\" }";
        tool.left_out.push(why.to_owned());
        schedules.clear();
    }
    Ok(Draft {
        tools: vec![tool],
        schedules,
        left_out: Vec::new(),
    })
}

fn read_other(path: &Path, extension: &str) -> Result<Option<Unit>, String> {
    let path = path.with_extension(extension);
    match longhaul_private_dir::read_named_text(&path) {
        Ok(text) => Unit::parse(&text)
            .map(Some)
            .map_err(|why| format!("{}: {why}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The settings of a unit in their order, as `Section.Key`.
struct Unit(Vec<(String, String)>);

impl Unit {
    fn parse(text: &str) -> Result<Self, String> {
        let (mut settings, mut section, mut pending) = (Vec::new(), String::new(), String::new());
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with(['#', ';']) || (line.is_empty() && pending.is_empty()) {
                continue;
            }
            if let Some(begun) = line.strip_suffix('\\') {
                pending.push_str(begun);
                pending.push(' ');
                continue;
            }
            let whole = std::mem::take(&mut pending) + line;
            if let Some(name) = whole.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let (key, value) = whole
                .split_once('=')
                .ok_or_else(|| format!("`{whole}` is no setting of a unit"))?;
            let key = format!("{section}.{}", key.trim());
            // An empty value takes back what was set.
            match value.trim() {
                "" => settings.retain(|(known, _)| *known != key),
                value => settings.push((key, value.to_owned())),
            }
        }
        Ok(Self(settings))
    }

    fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    fn last(&self, key: &str) -> Option<&str> {
        self.all(key).last()
    }

    fn tool(&self, name: &str) -> Result<DraftedTool, String> {
        let description = self.last("Unit.Description").map(str::to_owned);
        let mut tool = DraftedTool::new(
            name,
            description.unwrap_or_else(|| format!("The unit {name} of systemd")),
        );
        self.command(&mut tool)?;
        self.environment(&mut tool);
        self.times(&mut tool);
        if let Some(path) = self.last("Service.WorkingDirectory") {
            let path = path.trim_start_matches('-');
            tool.keys.push(("cwd", text::quoted(&literal(path))));
        }
        if let Some(codes) = self.last("Service.SuccessExitStatus") {
            let (codes, others): (Vec<&str>, Vec<&str>) =
                codes.split_whitespace().partition(|code| code.parse::<u8>().is_ok());
            let codes = codes.iter().filter_map(|code| code.parse::<u8>().ok());
            let codes: std::collections::BTreeSet<u8> = [0].into_iter().chain(codes).collect();
            let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
            let codes = codes.join(", ");
            tool.keys.push(("success", format!("[{codes}]")));
            tool.left_out
                .extend(others.iter().map(|other| format!("SuccessExitStatus={other}")));
        }
        if let Some(user) = self.last("Service.User") {
            tool.left_out.push(format!(
                "User={user}: a tool runs as the user of the server; run the server as that user"
            ));
        }
        let mut unknown: Vec<String> = self.0.iter().flat_map(|(_, value)| specifiers(value)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let unknown = unknown
            .iter()
            .map(|specifier| format!("the specifier {specifier}, which stays as it is"));
        tool.left_out.extend(unknown);
        for (key, value) in &self.0 {
            let is_read = [
                "Service.ExecStart",
                "Service.ExecStartPre",
                "Service.ExecStartPost",
                "Service.ExecCondition",
                "Service.Type",
                "Service.Environment",
                "Service.EnvironmentFile",
                "Service.PassEnvironment",
                "Service.WorkingDirectory",
                "Service.SuccessExitStatus",
                "Service.User",
                "Service.TimeoutStartSec",
                "Service.TimeoutSec",
                "Service.RuntimeMaxSec",
                "Service.TimeoutStopSec",
                "Service.KillSignal",
                "Service.Restart",
                "Service.RestartSec",
            ];
            if !is_read.contains(&key.as_str()) && !MEANINGLESS.contains(&key.as_str()) {
                let (_, key) = key.split_once('.').unwrap_or(("", key));
                tool.left_out.push(format!("{key}={value}"));
            }
        }
        Ok(tool)
    }

    fn command(&self, tool: &mut DraftedTool) -> Result<(), String> {
        let mut lines = Vec::new();
        for key in [
            "Service.ExecCondition",
            "Service.ExecStartPre",
            "Service.ExecStart",
            "Service.ExecStartPost",
        ] {
            for line in self.all(key) {
                lines.extend(CommandLine::parse_all(line)?);
            }
        }
        let Some(first) = lines.first() else {
            return Err("it has no ExecStart".to_owned());
        };
        let needs_shell = lines.len() > 1 || first.ignores_failure || first.words.iter().any(|word| word.contains('$'));
        if !needs_shell {
            for word in &first.words {
                tool.command.push(Element::Word(template(word)));
            }
            return Ok(());
        }
        let mut script = vec!["set -e".to_owned()];
        for line in &lines {
            let words: Vec<String> = line.words.iter().map(|word| in_shell(word)).collect();
            let ignored = if line.ignores_failure { " || true" } else { "" };
            script.push(words.join(" ") + ignored);
        }
        let script = script.join("\n");
        // A script has no placeholders: the instance is its first argument.
        for word in ["sh", "-c", &script, "sh"] {
            tool.word(word);
        }
        if script.contains("${1}") {
            tool.command.push(Element::Word("{instance}".to_owned()));
        }
        Ok(())
    }

    fn environment(&self, tool: &mut DraftedTool) {
        let mut variables = Map::new();
        for line in self.all("Service.Environment") {
            for word in split_words(line).unwrap_or_default() {
                if let Some((name, value)) = word.split_once('=') {
                    variables.insert(name.to_owned(), Value::from(template(value)));
                }
            }
        }
        if !variables.is_empty() {
            tool.keys.push(("env", text::inline(&variables.into())));
        }
        let files: Vec<&str> = self.all("Service.EnvironmentFile").collect();
        if let Some((file, others)) = files.split_last() {
            tool.keys.push(("env_file", text::quoted(file.trim_start_matches('-'))));
            tool.left_out
                .extend(others.iter().map(|file| format!("EnvironmentFile={file}")));
            if tool.keys.iter().any(|(key, _)| *key == "env") {
                let why = "the order of EnvironmentFile and Environment: here `env` replaces what `env_file` has";
                tool.left_out.push(why.to_owned());
            }
        }
        let passed: Vec<String> = self
            .all("Service.PassEnvironment")
            .flat_map(str::split_whitespace)
            .map(str::to_owned)
            .collect();
        if !passed.is_empty() {
            tool.keys.push(("env_from", text::list(&passed)));
        }
    }

    fn times(&self, tool: &mut DraftedTool) {
        let is_oneshot = self.last("Service.Type") == Some("oneshot");
        // Of others TimeoutStartSec is the time until they are up.
        let start = self
            .last("Service.TimeoutStartSec")
            .or(self.last("Service.TimeoutSec"))
            .filter(|_| is_oneshot);
        if let Some(time) = self.last("Service.RuntimeMaxSec").or(start) {
            match times::duration(time) {
                Some(time) => tool.keys.push(("timeout", text::quoted(&time))),
                None if time == "infinity" => {}
                None => tool.left_out.push(format!("the timeout {time}")),
            }
        }
        let mut stop = Vec::new();
        if let Some(signal) = self.last("Service.KillSignal") {
            stop.push(format!("signal = {}", text::quoted(signal.trim_start_matches("SIG"))));
        }
        if let Some(grace) = self.last("Service.TimeoutStopSec").and_then(times::duration) {
            stop.push(format!("grace = {}", text::quoted(&grace)));
        }
        if !stop.is_empty() {
            tool.keys.push(("stop", format!("{{ {} }}", stop.join(", "))));
        }
        let restarts = self.last("Service.Restart").filter(|restart| *restart != "no");
        if let Some(restart) = restarts {
            let backoff = self.last("Service.RestartSec").and_then(times::duration);
            let backoff = backoff.unwrap_or_else(|| "10s".to_owned());
            let retry = format!(
                "{{ attempts = 3, backoff = {}, on = [\"crash\", \"error\"] }}",
                text::quoted(&backoff)
            );
            tool.keys.push(("retry", retry));
            tool.left_out.push(format!(
                "Restart={restart}: three attempts are drafted, since a tool is not restarted for ever"
            ));
        }
    }

    /// The schedules of a timer, which starts `tool`. If there is none, the tool says what was left out.
    fn schedules(&self, tool: &mut DraftedTool) -> Vec<DraftedSchedule> {
        let mut schedules: Vec<DraftedSchedule> = Vec::new();
        let mut left_out = Vec::new();
        for (key, value) in &self.0 {
            let found = match key.as_str() {
                "Timer.OnCalendar" => times::cron(value).map(|cron| {
                    let mut keys = vec![("cron", text::quoted(&cron.fields))];
                    keys.extend(cron.zone.map(|zone| ("zone", text::quoted(&zone))));
                    keys
                }),
                "Timer.OnUnitActiveSec" | "Timer.OnUnitInactiveSec" => {
                    times::duration(value).map(|every| vec![("every", text::quoted(&every))])
                }
                "Timer.Persistent" | "Timer.RandomizedDelaySec" => continue,
                key if MEANINGLESS.contains(&key) => continue,
                _ => None,
            };
            match found {
                Some(keys) => schedules.push(DraftedSchedule {
                    tool: tool.name.clone(),
                    keys,
                    ..DraftedSchedule::default()
                }),
                None => left_out.push(format!("{}={value}", key.rsplit('.').next().unwrap_or(key))),
            }
        }
        match schedules.first_mut() {
            Some(first) => first.left_out = left_out,
            None => tool.left_out.extend(left_out),
        }
        let count = schedules.len();
        for (index, schedule) in schedules.iter_mut().enumerate() {
            let has = |key| schedule.keys.iter().any(|(known, _)| *known == key);
            if has("cron") && !has("zone") {
                let why = "the time zone of this machine: without `zone` the times are UTC";
                schedule.left_out.push(why.to_owned());
            }
            schedule.name = match count {
                1 => tool.name.clone(),
                _ => format!("{}-{}", tool.name, index + 1),
            };
            schedule.keys.push(("overlap", text::quoted("skip")));
            if self
                .last("Timer.Persistent")
                .is_some_and(|word| ["true", "yes", "on", "1"].contains(&word))
            {
                schedule.keys.push(("catch_up", text::quoted("last")));
            }
            if let Some(jitter) = self.last("Timer.RandomizedDelaySec").and_then(times::duration) {
                schedule.keys.push(("jitter", text::quoted(&jitter)));
            }
        }
        schedules
    }
}

/// One `ExecStart`.
struct CommandLine {
    words: Vec<String>,
    ignores_failure: bool,
}

impl CommandLine {
    /// A setting may have several commands, with a semicolon between two.
    fn parse_all(setting: &str) -> Result<Vec<Self>, String> {
        let several: Result<Vec<Self>, String> = setting.split(" ; ").map(Self::parse).collect();
        // One that stands in quotes parts nothing.
        several.or_else(|_| Ok(vec![Self::parse(setting)?]))
    }

    fn parse(line: &str) -> Result<Self, String> {
        let bare = line.trim_start_matches(['@', '-', ':', '+', '!', '|']);
        let prefix = &line[..line.len() - bare.len()];
        let mut words = split_words(bare).map_err(|error| format!("`{line}`: {error}"))?;
        if prefix.contains('@') && words.len() > 1 {
            // The name that the program sees of itself.
            words.remove(1);
        }
        Ok(Self {
            words,
            ignores_failure: prefix.contains('-'),
        })
    }
}

/// A word with the specifiers of systemd as a template.
fn template(word: &str) -> String {
    literal(word)
        .replace("%%", "\0")
        .replace("%i", "{instance}")
        .replace("%I", "{instance}")
        .replace('\0', "%")
}

/// A word in a script. `$NAME` alone is several words, `${NAME}` one; other dollar signs are as they stand.
fn in_shell(word: &str) -> String {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if word.strip_prefix('$').is_some_and(is_name) {
        return word.to_owned();
    }
    let (mut shell, mut literal, mut rest) = (String::new(), String::new(), word);
    let flush = |shell: &mut String, literal: &mut String| {
        if !literal.is_empty() {
            shell.push_str(&shell_word(&std::mem::take(literal)));
        }
    };
    while let Some(char) = rest.chars().next() {
        let variable = rest.strip_prefix("${").and_then(|after| after.split_once('}'));
        if rest.starts_with("%%") || rest.starts_with("$$") {
            literal.push(char);
            rest = &rest[2..];
        } else if rest.starts_with("%i") || rest.starts_with("%I") {
            flush(&mut shell, &mut literal);
            shell.push_str("\"${1}\"");
            rest = &rest[2..];
        } else if let Some((name, behind)) = variable.filter(|(name, _)| is_name(name)) {
            flush(&mut shell, &mut literal);
            shell.push_str(&format!("\"${{{name}}}\""));
            rest = behind;
        } else {
            literal.push(char);
            rest = &rest[char.len_utf8()..];
        }
    }
    flush(&mut shell, &mut literal);
    if shell.is_empty() { shell_word("") } else { shell }
}

/// The specifiers in a text that a draft does not replace.
fn specifiers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char == '%'
            && let Some(letter) = chars.next().filter(char::is_ascii_alphabetic)
            && !"iI".contains(letter)
        {
            found.push(format!("%{letter}"));
        }
    }
    found
}
