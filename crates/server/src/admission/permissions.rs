//! What a sender may do: which tools it may call, whether it may read or change tasks, and whether it may use resources and prompts.

use longhaul_core::ToolPattern;
use std::{fmt, str::FromStr};

/// Reading tasks: their state, results, logs and notifications.
const TASKS_READ: &str = "tasks:read";
/// Cancelling tasks and answering their questions, and reading them.
const TASKS_WRITE: &str = "tasks:write";
/// Resources that are not those of tasks, prompts, and completion.
const RESOURCES_READ: &str = "resources:read";
const TOOLS: &str = "tools:";
/// Of the name of a tool in a scope, in bytes (MCP 2025-11-25, Tools, "Tool Names").
const LONGEST_TOOL_NAME: usize = 128;

/// What a sender may do. Whatever is not named here, such as custom methods, every sender that the server lets in may use.
///
/// ```
/// use longhaul_server::auth::{Permission, Permissions};
/// let permissions: Permissions = ["tools:build*", "tasks:read"].iter().filter_map(|name| name.parse().ok()).collect();
/// assert!(permissions.allows(Permission::Call("build_all")));
/// assert!(!permissions.allows(Permission::Call("deploy")));
/// assert!(permissions.allows(Permission::ReadTasks) && !permissions.allows(Permission::WriteTasks));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Every tool may be called, so that no pattern need be tried.
    every_tool: bool,
    tools: Vec<ToolPattern>,
    read_tasks: bool,
    write_tasks: bool,
    read_resources: bool,
}

/// One thing that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission<'a> {
    /// To call the tool of this name.
    Call(&'a str),
    /// To read tasks.
    ReadTasks,
    /// To cancel tasks and to answer their questions. Includes reading them.
    WriteTasks,
    /// To read and subscribe to resources that are not those of tasks, to get prompts, and to complete their arguments.
    ReadResources,
}

impl Permission<'_> {
    /// Whether a scope can be named after it. The name of a tool comes from the request: it must be a part of one scope (RFC 6749, section 3.3), and no
    /// pattern.
    pub(crate) fn is_nameable(&self) -> bool {
        match self {
            Self::Call(name) => {
                let fits = |char: char| char.is_ascii_graphic() && !['"', '\\', '*'].contains(&char);
                (1..=LONGEST_TOOL_NAME).contains(&name.len()) && name.chars().all(fits)
            }
            Self::ReadTasks | Self::WriteTasks | Self::ReadResources => true,
        }
    }
}

/// Something that is granted: `tools:NAME`, where `*` in the name stands for any characters, `tasks:read`, `tasks:write` or `resources:read`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// To call the tools whose name fits.
    Tools(ToolPattern),
    /// To read tasks.
    ReadTasks,
    /// To change tasks, and to read them.
    WriteTasks,
    /// To use resources that are not those of tasks, and prompts.
    ReadResources,
}

/// A text that grants nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a permission: write tools:NAME (with * for any characters), tasks:read, tasks:write or resources:read"
)]
pub struct InvalidGrant(pub String);

impl Permissions {
    /// Everything.
    pub fn all() -> Self {
        Self {
            every_tool: true,
            tools: Vec::new(),
            read_tasks: true,
            write_tasks: true,
            read_resources: true,
        }
    }

    /// Whether it includes this.
    pub fn allows(&self, permission: Permission<'_>) -> bool {
        match permission {
            Permission::Call(tool) => self.every_tool || self.tools.iter().any(|pattern| pattern.matches(tool)),
            Permission::ReadTasks => self.read_tasks,
            Permission::WriteTasks => self.write_tasks,
            Permission::ReadResources => self.read_resources,
        }
    }

    /// Whether it includes everything.
    pub fn allows_everything(&self) -> bool {
        self.every_tool && self.write_tasks && self.read_resources
    }

    /// What of `others` it does not include.
    pub(crate) fn lacks<'a>(&self, others: &'a Self) -> Vec<Permission<'a>> {
        let every_tool = others.every_tool.then_some(Permission::Call("*"));
        // A `*` of the one pattern stands in the other like a character that only a `*` fits. So a pattern that fits the text of another
        // fits whatever that one fits.
        let tools = others.tools.iter().map(|pattern| Permission::Call(pattern.as_str()));
        let tasks = match others {
            Self { write_tasks: true, .. } => Some(Permission::WriteTasks),
            Self { read_tasks: true, .. } => Some(Permission::ReadTasks),
            _ => None,
        };
        let resources = others.read_resources.then_some(Permission::ReadResources);
        let all = every_tool.into_iter().chain(tools).chain(tasks).chain(resources);
        all.filter(|permission| !self.allows(*permission)).collect()
    }

    /// Whether it includes the right to answer a question of a call or a task: questions are part of what was called.
    pub(crate) fn allows_answers(&self) -> bool {
        self.write_tasks || self.every_tool || !self.tools.is_empty()
    }
}

impl Extend<Grant> for Permissions {
    fn extend<T: IntoIterator<Item = Grant>>(&mut self, grants: T) {
        for grant in grants {
            match grant {
                Grant::Tools(pattern) if pattern.is_any() => self.every_tool = true,
                Grant::Tools(pattern) => self.tools.push(pattern),
                Grant::ReadTasks => self.read_tasks = true,
                Grant::WriteTasks => (self.read_tasks, self.write_tasks) = (true, true),
                Grant::ReadResources => self.read_resources = true,
            }
        }
    }
}

impl FromIterator<Grant> for Permissions {
    fn from_iter<T: IntoIterator<Item = Grant>>(grants: T) -> Self {
        let mut permissions = Self::default();
        permissions.extend(grants);
        permissions
    }
}

impl fmt::Display for Permission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(tool) => write!(f, "{TOOLS}{tool}"),
            Self::ReadTasks => f.write_str(TASKS_READ),
            Self::WriteTasks => f.write_str(TASKS_WRITE),
            Self::ReadResources => f.write_str(RESOURCES_READ),
        }
    }
}

impl FromStr for Grant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, InvalidGrant> {
        match text {
            TASKS_READ => Ok(Self::ReadTasks),
            TASKS_WRITE => Ok(Self::WriteTasks),
            RESOURCES_READ => Ok(Self::ReadResources),
            _ => {
                let name = text.strip_prefix(TOOLS).ok_or_else(|| InvalidGrant(text.to_owned()))?;
                Ok(Self::Tools(name.parse().map_err(|_| InvalidGrant(text.to_owned()))?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_22_to_write_is_to_read_and_everything_is_everything() {
        let granted = |names: &[&str]| -> Permissions { names.iter().map(|name| name.parse().unwrap()).collect() };
        let writer = granted(&["tasks:write"]);
        assert!(writer.allows(Permission::ReadTasks) && writer.allows(Permission::WriteTasks));
        assert!(!writer.allows(Permission::Call("a")) && !writer.allows_everything());
        let reader = granted(&["tasks:read"]);
        assert!(!reader.allows(Permission::WriteTasks) && !reader.allows_answers());
        let without_resources = granted(&["tools:*", "tasks:write"]);
        assert!(!without_resources.allows_everything() && !without_resources.allows(Permission::ReadResources));
        let all = granted(&["tools:*", "tasks:write", "resources:read"]);
        assert_eq!(all, Permissions::all());
        assert!(Permissions::all().allows_everything());
        assert_eq!(Permissions::default(), granted(&[]));
    }

    #[test]
    fn s_22_what_one_lacks_of_another_is_named() {
        let granted = |names: &str| -> Permissions { names.split(' ').filter_map(|name| name.parse().ok()).collect() };
        for (has, others, lacks) in [
            ("tools:a tasks:read", "tools:a tasks:read", ""),
            ("tools:* tasks:write", "tools:a* tools:* tasks:read", ""),
            ("tools:a*", "tools:a*b tools:a tools:ab*", ""),
            ("tools:a*b", "tools:a* tools:a*b*b", "tools:a*"),
            ("tools:a tools:b", "tools:*", "tools:*"),
            ("tools:a", "tasks:read", "tasks:read"),
            ("tools:* tasks:write", "tasks:read resources:read", "resources:read"),
            (
                "tasks:read",
                "tools:b tools:c tasks:write",
                "tools:b tools:c tasks:write",
            ),
            ("", "", ""),
        ] {
            let others = granted(others);
            let missing: Vec<String> = granted(has).lacks(&others).iter().map(ToString::to_string).collect();
            assert_eq!(missing.join(" "), lacks, "{has} of {others:?}");
        }
        assert!(Permissions::all().lacks(&Permissions::all()).is_empty());
    }

    #[test]
    fn what_grants_nothing_is_refused() {
        let wrong = "tools tools: tools:\" tools:ä tasks tasks:delete resources resources:write openid";
        for wrong in wrong.split(' ').chain(["tools:a b", ""]) {
            assert_eq!(wrong.parse::<Grant>(), Err(InvalidGrant(wrong.to_owned())), "{wrong}");
        }
    }
}
