//! What the scopes of a token allow.

use longhaul_server::auth::{Grant, Permission, Permissions};
use std::collections::BTreeMap;

/// What the scopes of an issuer's tokens mean here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scopes {
    /// They are named as the permissions are: `tools:NAME`, `tasks:read`, `tasks:write`, `resources:read`. Others are ignored.
    #[default]
    AsNamed,
    /// Each scope of the issuer gives these permissions. Others are ignored.
    Mapped(BTreeMap<String, Vec<Grant>>),
    /// Every token of the issuer may do everything.
    Everything,
}

impl Scopes {
    /// What a token with these scopes may do.
    ///
    /// ```
    /// # use longhaul_auth::oauth::Scopes;
    /// # use longhaul_server::auth::Permission;
    /// let builder = vec!["tools:build*".parse()?, "tasks:write".parse()?];
    /// let scopes = Scopes::Mapped([("builder".to_owned(), builder)].into());
    /// let permissions = scopes.grant(["openid", "builder"]);
    /// assert!(permissions.allows(Permission::Call("build_all")));
    /// assert!(!permissions.allows(Permission::Call("deploy")));
    /// # Ok::<(), longhaul_server::auth::InvalidGrant>(())
    /// ```
    pub fn grant<'a>(&self, scopes: impl IntoIterator<Item = &'a str>) -> Permissions {
        match self {
            Self::Everything => Permissions::all(),
            Self::AsNamed => scopes
                .into_iter()
                .filter_map(|scope| scope.parse::<Grant>().ok())
                .collect(),
            Self::Mapped(map) => scopes
                .into_iter()
                .filter_map(|scope| map.get(scope))
                .flatten()
                .cloned()
                .collect(),
        }
    }

    /// The scopes that a client asks the issuer for, to get these permissions: together they give all of them, none is superfluous, and each gives little else. `None` if
    /// one of the permissions is not to be had.
    ///
    /// ```
    /// # use longhaul_auth::oauth::Scopes;
    /// # use longhaul_server::auth::Permission::{Call, ReadTasks, WriteTasks};
    /// assert_eq!(Scopes::AsNamed.to_ask_for(&[Call("build"), WriteTasks]).as_deref(), Some("tools:build tasks:write"));
    /// let builder = vec!["tools:build*".parse()?, "tasks:write".parse()?];
    /// let scopes = Scopes::Mapped([("builder".to_owned(), builder)].into());
    /// assert_eq!(scopes.to_ask_for(&[Call("build"), ReadTasks]).as_deref(), Some("builder"));
    /// # Ok::<(), longhaul_server::auth::InvalidGrant>(())
    /// ```
    pub fn to_ask_for(&self, permissions: &[Permission<'_>]) -> Option<String> {
        let asked = match self {
            Self::Everything => None,
            Self::AsNamed => Some(as_named(permissions)),
            Self::Mapped(map) => fewest(map, permissions),
        };
        asked.filter(|asked| !asked.is_empty()).map(|asked| asked.join(" "))
    }

    /// The scopes for the metadata document: as few as describe what may be asked for.
    pub(super) fn supported(&self) -> Vec<&str> {
        match self {
            Self::Everything => Vec::new(),
            Self::AsNamed => vec!["tools:*", "tasks:write", "resources:read"],
            Self::Mapped(map) => map.keys().map(String::as_str).collect(),
        }
    }
}

/// The permissions that no other one includes.
fn as_named(permissions: &[Permission<'_>]) -> Vec<String> {
    let writes = permissions.contains(&Permission::WriteTasks);
    let mut named = Vec::new();
    for needed in permissions
        .iter()
        .filter(|needed| !(writes && **needed == Permission::ReadTasks))
    {
        let scope = needed.to_string();
        if !named.contains(&scope) {
            named.push(scope);
        }
    }
    named
}

/// The scopes that together give all permissions, and as little else as can be: one scope for all of them, or for each permission the one that gives least, without those that
/// the others make superfluous. Of what gives equally much, the fewest.
fn fewest(map: &BTreeMap<String, Vec<Grant>>, permissions: &[Permission<'_>]) -> Option<Vec<String>> {
    let scopes: Vec<TableScope<'_>> = map.iter().map(TableScope::from).collect();
    let least = |needed: &[Permission<'_>]| {
        let enough = scopes.iter().filter(|scope| scope.gives_all(needed));
        enough.min_by_key(|scope| breadth([*scope]))
    };
    let mut asked: Vec<&TableScope<'_>> = Vec::new();
    for needed in permissions {
        let scope = least(std::slice::from_ref(needed))?;
        if !asked.iter().any(|known| known.name == scope.name) {
            asked.push(scope);
        }
    }
    let mut at = 0;
    while at < asked.len() {
        let without = |needed: &Permission<'_>| {
            let mut others = asked.iter().enumerate().filter(|(nth, _)| *nth != at);
            others.any(|(_, scope)| scope.gives.allows(*needed))
        };
        if permissions.iter().all(without) {
            asked.remove(at);
        } else {
            at += 1;
        }
    }
    if let Some(one) = least(permissions)
        && breadth([one]) <= breadth(asked.iter().copied())
    {
        asked = vec![one];
    }
    Some(asked.into_iter().map(|scope| scope.name.clone()).collect())
}

/// A scope of a table.
struct TableScope<'a> {
    name: &'a String,
    grants: &'a [Grant],
    gives: Permissions,
}

impl<'a> From<(&'a String, &'a Vec<Grant>)> for TableScope<'a> {
    fn from((name, grants): (&'a String, &'a Vec<Grant>)) -> Self {
        Self {
            name,
            grants,
            gives: grants.iter().cloned().collect(),
        }
    }
}

impl TableScope<'_> {
    fn gives_all(&self, permissions: &[Permission<'_>]) -> bool {
        permissions.iter().all(|needed| self.gives.allows(*needed))
    }
}

/// How much scopes give together: every tool is more than any number of tools that are named.
fn breadth<'a>(scopes: impl IntoIterator<Item = &'a TableScope<'a>>) -> u32 {
    let mut grants: Vec<&Grant> = Vec::new();
    for grant in scopes.into_iter().flat_map(|scope| scope.grants) {
        if !grants.contains(&grant) {
            grants.push(grant);
        }
    }
    grants.into_iter().map(breadth_of).sum()
}

fn breadth_of(grant: &Grant) -> u32 {
    match grant {
        Grant::Tools(pattern) if pattern.is_any() => 10_000,
        Grant::Tools(pattern) if pattern.as_str().contains('*') => 100,
        Grant::Tools(_) | Grant::ReadTasks | Grant::ReadResources => 1,
        Grant::WriteTasks => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(names: &[&str]) -> Vec<Grant> {
        names.iter().map(|name| name.parse().expect("a grant")).collect()
    }

    #[test]
    fn unknown_scopes_give_nothing() {
        let granted = Scopes::AsNamed.grant(["openid", "tools:", "tools:a", "tasks:admin", "tasks:read"]);
        assert_eq!(granted, grants(&["tools:a", "tasks:read"]).into_iter().collect());
        assert_eq!(
            Scopes::Mapped(BTreeMap::new()).grant(["tools:*"]),
            Permissions::default()
        );
        assert_eq!(Scopes::Everything.grant([]), Permissions::all());
    }

    #[test]
    fn the_smallest_scope_that_helps_is_asked_for() {
        let map = [
            ("all", grants(&["tools:*", "tasks:write"])),
            ("one", grants(&["tools:build-*-x"])),
        ];
        let scopes = Scopes::Mapped(map.map(|(scope, given)| (scope.to_owned(), given)).into());
        let ask = |needed: &[Permission<'_>]| scopes.to_ask_for(needed);
        assert_eq!(ask(&[Permission::Call("build-a-x")]).as_deref(), Some("one"));
        assert_eq!(
            ask(&[Permission::Call("build-a-y"), Permission::ReadTasks]).as_deref(),
            Some("all")
        );
        assert_eq!(
            ask(&[Permission::Call("build-a-x"), Permission::WriteTasks]).as_deref(),
            Some("all"),
            "it gives both"
        );
        assert_eq!(Scopes::Everything.to_ask_for(&[Permission::ReadTasks]), None);
        assert_eq!(
            ask(&[Permission::Call("build-a-x"), Permission::ReadResources]),
            None,
            "nothing gives the second one"
        );
    }

    /// Each line: the table, what is needed, and what is asked for.
    #[test]
    fn s_22_the_fewest_scopes_are_asked_for_that_give_nothing_else() {
        let (build, read, write) = (Permission::Call("build"), Permission::ReadTasks, Permission::WriteTasks);
        let apart = [("call", "tools:build"), ("read", "tasks:read")];
        for (together, needed, asked) in [
            ("tools:build tasks:read", vec![build, read], "both"),
            ("tools:build tasks:read", vec![read, build], "both"),
            ("tools:build tasks:read", vec![build], "call"),
            // It gives more than is needed.
            ("tools:build tasks:write", vec![build, read], "call read"),
            ("tools:* tasks:read", vec![build, read], "call read"),
            ("tasks:write", vec![build, read, write], "call both"),
        ] {
            let table = apart.into_iter().chain([("both", together)]);
            let table = table.map(|(scope, given)| (scope.to_owned(), grants(&given.split(' ').collect::<Vec<_>>())));
            let scopes = Scopes::Mapped(table.collect());
            assert_eq!(
                scopes.to_ask_for(&needed).as_deref(),
                Some(asked),
                "{together} {needed:?}"
            );
        }
    }

    #[test]
    fn s_22_no_scope_is_asked_for_that_gives_more_than_another() {
        let map = [
            ("admin", grants(&["tools:*"])),
            ("build", grants(&["tools:build", "tools:test", "tasks:read"])),
            ("builds", grants(&["tools:build*"])),
        ];
        let scopes = Scopes::Mapped(map.map(|(scope, given)| (scope.to_owned(), given)).into());
        let ask = |needed: &[Permission<'_>]| scopes.to_ask_for(needed);
        assert_eq!(ask(&[Permission::Call("build")]).as_deref(), Some("build"));
        assert_eq!(ask(&[Permission::Call("build_all")]).as_deref(), Some("builds"));
        assert_eq!(ask(&[Permission::Call("deploy")]).as_deref(), Some("admin"));
        assert_eq!(
            ask(&[Permission::Call("deploy"), Permission::ReadTasks]).as_deref(),
            Some("admin build"),
            "nothing gives both"
        );
        let named = Scopes::AsNamed.to_ask_for(&[Permission::ReadTasks, Permission::WriteTasks, Permission::Call("a")]);
        assert_eq!(named.as_deref(), Some("tasks:write tools:a"));
    }
}
