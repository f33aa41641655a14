//! The `[upstream.NAME]` sections: MCP servers that this one is in front of.

use super::{
    paths::Environment,
    section::{Entry, Section},
    tool::{DEFAULT_TASK_AFTER, MAX_CONCURRENCY, is_tool_name, read_cwd, read_env, read_retry},
};
use crate::config::tool::job;
use crate::config::variables::expand;
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul::auth::oauth::Issuer;
use longhaul_client::{ChildOptions, EraChoice, LoginOptions};
use longhaul_core::{TaskPolicy, ToolPattern};
use longhaul_gateway::{Target, ToolRule, ToolSelection, UpstreamOptions};
use longhaul_runtime::Handoff;
use std::{collections::BTreeMap, fmt};

/// An upstream.
#[derive(Debug)]
pub(crate) struct UpstreamConfig {
    /// All but its login.
    pub(crate) options: UpstreamOptions,
    /// How this server logs in there.
    pub(crate) auth: Option<UpstreamAuth>,
}

/// How this server logs in at an upstream.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum UpstreamAuth {
    /// As `longhaul login` has.
    Login,
    /// Each principal as `longhaul login --for PRINCIPAL` has.
    LoginPerPrincipal,
    /// As a client of its own, without a user (OAuth client credentials).
    Client {
        /// Its id at the authorization server.
        id: String,
        /// Secret.
        secret: String,
        /// The permissions to ask for; empty for those that the upstream asks for.
        scopes: Vec<String>,
        /// The only authorization server that gets the secret.
        issuer: Option<String>,
    },
}

impl fmt::Debug for UpstreamAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Login => f.write_str("Login"),
            Self::LoginPerPrincipal => f.write_str("LoginPerPrincipal"),
            Self::Client { id, .. } => write!(f, "Client({id})"),
        }
    }
}

/// Reads every upstream, in the order of the file. Those with problems are left out.
pub(super) fn read_all(entry: &Entry<'_>, environment: &Environment) -> Vec<UpstreamConfig> {
    let Some(mut pairs) = entry.pairs("sections [upstream.NAME]") else {
        return Vec::new();
    };
    pairs.sort_by_key(|(_, entry)| entry.line());
    let read = |(name, entry): (&str, Entry<'_>)| {
        let section = entry.section(&format!("[upstream.{name}]"), "[upstream.NAME]")?;
        if !is_name(name) {
            entry.report(format!(
                "{name:?} is no name for an upstream: use 1 to 64 of the characters A-Z a-z 0-9 _ -"
            ));
            return None;
        }
        self::read(&section, name, environment)
    };
    pairs.into_iter().filter_map(read).collect()
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Reads one upstream; `None` after a problem.
fn read(section: &Section<'_>, name: &str, environment: &Environment) -> Option<UpstreamConfig> {
    // Every key is read before the first `?`, so that one mistake does not hide another.
    let target = read_target(section, name, environment);
    let auth = section.optional("auth", |entry| read_auth(entry, environment));
    let shared = section.get_or("shared", false, Entry::flag);
    let presented = section.get_or("presented", false, Entry::flag);
    let prefix = section.optional("prefix", |entry| {
        let prefix = entry.filled_text()?;
        if !is_name(prefix) {
            entry.report("`prefix` must have 1 to 64 of the characters A-Z a-z 0-9 _ -, such as \"gh\"".to_owned());
        }
        Some(prefix.to_owned()).filter(|prefix| is_name(prefix))
    });
    let concurrency = section.optional("concurrency", |entry| entry.count(MAX_CONCURRENCY));
    let eras = [
        ("auto", EraChoice::Auto),
        ("modern", EraChoice::Modern),
        ("legacy", EraChoice::Legacy),
    ];
    let era = section.get_or("era", EraChoice::Auto, |entry| entry.choice(&eras));
    let tools = section.get_or("tools", ToolSelection::default(), read_selection);
    let jobs = section.get_or("job", Vec::new(), job::read_all);
    let hung_after = section.optional("hung_after", |entry| match entry.text_if_any() {
        Some("never") => Some(None),
        _ => entry.positive_duration().map(Some),
    });
    let mut rules = section.get_or("tool", Vec::new(), read_rules);
    // What is said of the upstream as a whole is the last rule.
    let every_tool = "*".parse().ok().and_then(|pattern| read_settings(section, pattern));
    section.finish();
    if let (Some(rules), Some(every_tool)) = (&mut rules, every_tool.clone()) {
        rules.push(every_tool);
    }
    every_tool?;
    if let (Some(Some(UpstreamAuth::LoginPerPrincipal)), Some(true)) = (&auth, shared) {
        section.report(format!(
            "[upstream.{name}] has `shared = true`, so all clients have one connection, and `login = \"per-principal\"`: leave one of them out"
        ));
        return None;
    }
    let mut options = UpstreamOptions {
        jobs: jobs?,
        era: era?,
        shared: shared?,
        prefix: prefix?,
        presented: presented?,
        tools: tools?,
        rules: rules?,
        concurrency: concurrency?.map(|most| most as usize),
        ..UpstreamOptions::new(name, target?)
    };
    if let Some(hung_after) = hung_after? {
        options.hung_after = hung_after;
    }
    Some(UpstreamConfig { options, auth: auth? })
}

/// Whose login is used.
#[derive(Clone, Copy)]
enum UpstreamLogin {
    Shared,
    PerPrincipal,
}

fn read_auth(entry: &Entry<'_>, environment: &Environment) -> Option<UpstreamAuth> {
    let form = "such as { login = true }, or { client_id = \"…\", client_secret = \"${SECRET}\" }";
    let section = entry.section("`auth`", form)?;
    let login = section.optional("login", |entry| match entry.text_if_any() {
        Some("per-principal") => Some(Some(UpstreamLogin::PerPrincipal)),
        Some(other) => {
            entry.report(format!(
                "`login` must be true, false or \"per-principal\", not {other:?}"
            ));
            None
        }
        None => entry.flag().map(|login| login.then_some(UpstreamLogin::Shared)),
    });
    let id = section.optional_text("client_id");
    let secret = section.optional("client_secret", |entry| read_secret(entry, environment));
    let scopes = section.get_or("scopes", Vec::new(), |entry| {
        let texts = entry.texts()?;
        Some(texts.into_iter().map(|(_, scope)| scope.to_owned()).collect())
    });
    let issuer = section.optional("issuer", read_issuer);
    section.finish();
    match (login?.flatten(), id?, secret?, scopes?, issuer?) {
        (Some(login), None, None, scopes, None) if scopes.is_empty() => Some(match login {
            UpstreamLogin::Shared => UpstreamAuth::Login,
            UpstreamLogin::PerPrincipal => UpstreamAuth::LoginPerPrincipal,
        }),
        (None, Some(id), Some(secret), scopes, issuer) => Some(UpstreamAuth::Client {
            id,
            secret,
            scopes,
            issuer,
        }),
        _ => {
            entry.report(format!(
                "`auth` must be a table {form}, and not a part or a mixture of them"
            ));
            None
        }
    }
}

/// An authorization server. Nobody on the way to it may read the secret.
fn read_issuer(entry: &Entry<'_>) -> Option<String> {
    let issuer = entry.text()?;
    match Issuer::new(issuer) {
        Ok(_) => {
            if !LoginOptions::can_choose(issuer) {
                entry.warn(format!(
                    "`issuer`: {issuer} is an address of a private network, where the gateway logs in only by a host name: name it by one, or every login will fail"
                ));
            }
            Some(issuer.to_owned())
        }
        Err(error) => {
            entry.report(error.to_string());
            None
        }
    }
}

/// A text that no message shows, with variables of the environment.
fn read_secret(entry: &Entry<'_>, environment: &Environment) -> Option<String> {
    let Some(value) = entry.text_if_any() else {
        entry.report(format!("`{}` must be a string; put it in quotes", entry.key()));
        return None;
    };
    expand(value, |name| environment.value_of(name))
        .map_err(|why| entry.report(format!("`{}`: {why}", entry.key())))
        .ok()
}

fn read_target(section: &Section<'_>, name: &str, environment: &Environment) -> Option<Target> {
    let command = section.get("command");
    let url = section.get("url");
    let env = section.get_or("env", BTreeMap::new(), read_env);
    let cwd = read_cwd(section, environment);
    let headers = section.get_or("headers", HeaderMap::new(), |entry| read_headers(entry, environment));
    let misplaced = |keys: &[&'static str], why: &str| {
        for key in keys {
            if let Some(entry) = section.get(key) {
                entry.report(format!("`{key}` is for an upstream with `{why}`: leave it out"));
            }
        }
    };
    match (command, url) {
        (Some(command), None) => {
            misplaced(&["headers", "auth"], "url");
            let words = command.texts()?;
            let mut words = words.into_iter().map(|(_, word)| word.to_owned());
            let Some(program) = words.next().filter(|program| !program.is_empty()) else {
                command.report("`command` must name a program, such as [\"npx\", \"-y\", \"some-server\"]".to_owned());
                return None;
            };
            let program = environment.program(&program);
            let program = program
                .map_err(|error| command.report(format!("`command`: {error}")))
                .ok();
            let (program, env, cwd) = (program?, env?, cwd?);
            let path = env.get("PATH").map(String::as_str);
            if let Some(missing) = environment.missing_program(&program, path, &cwd) {
                command.warn(format!("`command`: {missing}, so it cannot be started"));
            }
            let mut child = ChildOptions::new(program, words);
            child.env = expand_all(section, env, environment)?;
            child.cwd = Some(cwd);
            Some(Target::Command(child))
        }
        (None, Some(url)) => {
            misplaced(&["env", "cwd"], "command");
            let text = url.filled_text()?;
            if !(text.starts_with("http://") || text.starts_with("https://")) {
                url.report("`url` must begin with http:// or https://".to_owned());
                return None;
            }
            Some(Target::Http {
                url: text.to_owned(),
                headers: headers?,
                tokens: None,
            })
        }
        (Some(_), Some(url)) => {
            url.report(format!(
                "[upstream.{name}] has both `command` and `url`: leave one of them out"
            ));
            None
        }
        (None, None) => {
            section.report(format!(
                "[upstream.{name}] needs `command = [\"program\", …]` or `url = \"https://…\"`"
            ));
            None
        }
    }
}

/// `${VAR}` in values is replaced by variables of the environment.
fn expand_all(
    section: &Section<'_>,
    env: BTreeMap<String, String>,
    environment: &Environment,
) -> Option<Vec<(String, String)>> {
    let expanded = env.into_iter().map(|(name, value)| {
        let value = expand(&value, |name| environment.value_of(name));
        let value = value
            .map_err(|why| section.report(format!("`env.{name}`: {why}")))
            .ok()?;
        Some((name, value))
    });
    expanded.collect()
}

fn read_headers(entry: &Entry<'_>, environment: &Environment) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, entry) in entry.pairs("a table such as { Authorization = \"Bearer ${TOKEN}\" }")? {
        // The value may be secret, so no message shows it.
        let value = read_secret(&entry, environment)?;
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            _ => {
                entry.report(format!("`{}` is not an HTTP header", entry.key()));
                return None;
            }
        }
    }
    Some(headers)
}

fn read_selection(entry: &Entry<'_>) -> Option<ToolSelection> {
    let form = "such as { allow = [\"read_*\"], deny = [\"*_all\"], rename = { old = \"new\" } }";
    let section = entry.section("`tools`", form)?;
    let allow = section.get_or("allow", Vec::new(), read_patterns);
    let deny = section.get_or("deny", Vec::new(), read_patterns);
    let rename = section.get_or("rename", BTreeMap::new(), |entry| {
        let pairs = entry.pairs("a table such as { old = \"new\" }")?;
        let names = pairs.into_iter().map(|(old, entry)| {
            let new = entry.text()?;
            if !is_tool_name(new) {
                entry.report(format!(
                    "{new:?} is not a tool name: use 1 to 128 of the characters A-Z a-z 0-9 _ - ."
                ));
                return None;
            }
            Some((old.to_owned(), new.to_owned()))
        });
        names.collect()
    });
    section.finish();
    Some(ToolSelection {
        allow: allow?,
        deny: deny?,
        rename: rename?,
    })
}

fn read_patterns(entry: &Entry<'_>) -> Option<Vec<ToolPattern>> {
    let texts = entry.texts()?;
    texts
        .into_iter()
        .map(|(entry, text)| read_pattern(&entry, text))
        .collect()
}

fn read_pattern(entry: &Entry<'_>, text: &str) -> Option<ToolPattern> {
    text.parse()
        .map_err(|error: longhaul_core::InvalidToolPattern| entry.report(error.to_string()))
        .ok()
}

/// `[upstream.NAME.tool."PATTERN"]`, in the order of the file.
fn read_rules(entry: &Entry<'_>) -> Option<Vec<ToolRule>> {
    let mut pairs = entry.pairs("sections [upstream.NAME.tool.\"PATTERN\"]")?;
    pairs.sort_by_key(|(_, entry)| entry.line());
    let rules: Vec<Option<ToolRule>> = pairs
        .into_iter()
        .map(|(name, entry)| {
            let pattern = read_pattern(&entry, name);
            let section = entry.section(&format!("the settings of tool `{name}`"), "with the settings of a tool")?;
            let rule = read_settings(&section, pattern?);
            section.finish();
            rule
        })
        .collect();
    rules.into_iter().collect()
}

fn read_settings(section: &Section<'_>, tools: ToolPattern) -> Option<ToolRule> {
    let after = section.get_or("task_after", DEFAULT_TASK_AFTER, Entry::positive_duration);
    let policies = [
        ("never", TaskPolicy::Never),
        ("optional", TaskPolicy::Optional),
        ("after", TaskPolicy::After(after.unwrap_or(DEFAULT_TASK_AFTER))),
        ("always", TaskPolicy::Always),
    ];
    let task = section.optional("task", |entry| entry.choice(&policies));
    let task = match (task, section.get("task_after")) {
        (Some(None), Some(_)) => Some(after.map(TaskPolicy::After)),
        (task, _) => task,
    };
    let idempotent = section.optional("idempotent", Entry::flag);
    let handoff = section.optional("handoff", |entry| entry.duration().map(Handoff::of_configured));
    let deadline = section.optional("deadline", Entry::positive_duration);
    let retention = section.optional("retention", Entry::retention);
    let retry = section.optional("retry", read_retry);
    after?;
    Some(ToolRule {
        task: task?,
        idempotent: idempotent?,
        handoff: handoff?,
        deadline: deadline?,
        retention: retention?,
        retry: retry?,
        ..ToolRule::new(tools)
    })
}
