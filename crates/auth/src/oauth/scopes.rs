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

    /// The scopes that a client asks the issuer for, to get these permissions. `None` if no scope helps.
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
        let mut asked: Vec<String> = Vec::new();
        for needed in permissions {
            let scope = match self {
                Self::Everything => None,
                Self::AsNamed => Some(needed.to_string()),
                Self::Mapped(map) => map
                    .iter()
                    .filter(|(_, given)| Permissions::from_iter(given.iter().cloned()).allows(*needed))
                    // The one that gives least.
                    .min_by_key(|(_, given)| given.len())
                    .map(|(scope, _)| scope.clone()),
            };
            asked.extend(scope.filter(|scope| !asked.contains(scope)));
        }
        (!asked.is_empty()).then(|| asked.join(" "))
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
            Some("one all")
        );
        assert_eq!(Scopes::Everything.to_ask_for(&[Permission::ReadTasks]), None);
    }
}
