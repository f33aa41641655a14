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

/// For each permission the scope that gives least beside it, without those that the others make superfluous.
fn fewest(map: &BTreeMap<String, Vec<Grant>>, permissions: &[Permission<'_>]) -> Option<Vec<String>> {
    let mut asked: Vec<(&String, Permissions)> = Vec::new();
    for needed in permissions {
        let gives = map
            .iter()
            .map(|(scope, given)| (scope, given, Permissions::from_iter(given.iter().cloned())));
        let (scope, _, given) = gives
            .filter(|(.., given)| given.allows(*needed))
            .min_by_key(|(_, given, _)| given.iter().map(breadth).sum::<u32>())?;
        if !asked.iter().any(|(known, _)| *known == scope) {
            asked.push((scope, given));
        }
    }
    let mut at = 0;
    while at < asked.len() {
        let without = |needed: &Permission<'_>| {
            let mut others = asked.iter().enumerate().filter(|(nth, _)| *nth != at);
            others.any(|(_, (_, given))| given.allows(*needed))
        };
        if permissions.iter().all(without) {
            asked.remove(at);
        } else {
            at += 1;
        }
    }
    Some(asked.into_iter().map(|(scope, _)| scope.clone()).collect())
}

/// How much a grant gives, beside others: every tool is more than any number of tools that are named.
fn breadth(grant: &Grant) -> u32 {
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
        let named = Scopes::AsNamed.to_ask_for(&[Permission::ReadTasks, Permission::WriteTasks, Permission::Call("a")]);
        assert_eq!(named.as_deref(), Some("tasks:write tools:a"));
    }
}
