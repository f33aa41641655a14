//! Who sends a request, and what that sender may do.

use super::permissions::{Permission, Permissions};
use longhaul_core::{Clock, Principal, UnixMillis};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Between two looks at the system's clock, which may be set while an identity waits for its expiry.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The names that an issuer has for permissions.
type ScopeNames = dyn Fn(&[Permission<'_>]) -> Option<String> + Send + Sync;

/// Who sends a request, and what that sender may do. Decided once, where the request arrives.
///
/// ```
/// use longhaul_core::Principal;
/// use longhaul_server::auth::{Identity, Permissions, Revocation};
///
/// let revocation = Revocation::default();
/// let identity = Identity::verified(Principal::named("key:ci"), Permissions::all()).with_revocation(&revocation);
/// assert!(!identity.is_revoked());
/// revocation.revoke();
/// assert!(identity.is_revoked());
/// ```
#[derive(Clone)]
pub struct Identity {
    principal: Principal,
    lists_all: bool,
    permissions: Permissions,
    expires_at: Option<UnixMillis>,
    revocation: Option<Revocation>,
    scope_names: Option<Arc<ScopeNames>>,
    every_scope: Option<Arc<str>>,
}

/// Ends all that identities with it have opened: streams, subscriptions, waits. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Revocation(Arc<RevocationState>);

#[derive(Debug, Default)]
struct RevocationState {
    /// Read by each request, also by those of others who share it: without a lock.
    is_revoked: AtomicBool,
    revoked: CancellationToken,
}

impl Revocation {
    /// Ends what was opened. There is no way back.
    pub fn revoke(&self) {
        self.0.is_revoked.store(true, Ordering::Release);
        self.0.revoked.cancel();
    }

    /// Whether it was revoked.
    pub fn is_revoked(&self) -> bool {
        self.0.is_revoked.load(Ordering::Acquire)
    }
}

impl Identity {
    /// A sender whose credentials were verified. It may list all tasks of its principal.
    pub fn verified(principal: Principal, permissions: Permissions) -> Self {
        Self {
            principal,
            lists_all: true,
            permissions,
            expires_at: None,
            revocation: None,
            scope_names: None,
            every_scope: None,
        }
    }

    /// A process of the user who runs this server, by whatever means that is known: [`Principal::local`], which may do everything.
    pub fn same_user() -> Self {
        Self::verified(Principal::local(), Permissions::all())
    }

    /// A sender of whom nothing is known, where such may do everything: it lists only the tasks of its session, since others may have the same
    /// principal.
    pub fn unverified(principal: Principal) -> Self {
        Self {
            lists_all: false,
            ..Self::verified(principal, Permissions::all())
        }
    }

    /// Valid only before this time, by the system's clock. Then what was opened with it is closed.
    #[must_use]
    pub fn expiring_at(mut self, at: UnixMillis) -> Self {
        self.expires_at = Some(at);
        self
    }

    /// Valid until it is revoked. Then what was opened with it is closed.
    #[must_use]
    pub fn with_revocation(mut self, revocation: &Revocation) -> Self {
        self.revocation = Some(revocation.clone());
        self
    }

    /// The scope to ask the issuer for if these permissions are needed; by default their own names (`tools:build tasks:read`). `None` if the
    /// issuer has no scope that would help.
    #[must_use]
    pub fn with_scope_names(
        mut self,
        names: impl Fn(&[Permission<'_>]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.scope_names = Some(Arc::new(names));
        self
    }

    /// All scopes that its issuer has for this server, with blanks between them. An identity without any permission is refused with them (403), and not shown
    /// empty lists: so its client learns which scopes to ask for.
    #[must_use]
    pub fn with_every_scope(mut self, scopes: Arc<str>) -> Self {
        self.every_scope = Some(scopes);
        self
    }

    /// Whom its tasks belong to.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// What it may do.
    pub fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// When it expires.
    pub fn expires_at(&self) -> Option<UnixMillis> {
        self.expires_at
    }

    /// Whether it was revoked.
    pub fn is_revoked(&self) -> bool {
        self.revocation.as_ref().is_some_and(Revocation::is_revoked)
    }

    /// Whether it may list all tasks of its principal, and not only those of its session.
    pub(crate) fn lists_all(&self) -> bool {
        self.lists_all
    }

    /// Whether nobody else has its principal.
    pub(crate) fn is_verified(&self) -> bool {
        self.lists_all
    }

    /// Whether it is not valid at `now`, a time of the system's clock.
    pub(crate) fn has_ended(&self, now: UnixMillis) -> bool {
        self.expires_at.is_some_and(|at| at <= now) || self.is_revoked()
    }

    /// Whether it can expire or be revoked.
    pub(crate) fn can_end(&self) -> bool {
        self.expires_at.is_some() || self.revocation.is_some()
    }

    /// Whether it can be revoked.
    pub(crate) fn can_be_revoked(&self) -> bool {
        self.revocation.is_some()
    }

    /// Completes when it was revoked.
    pub(crate) async fn revoked(&self) {
        match &self.revocation {
            Some(revocation) => revocation.0.revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Completes when it has expired or was revoked.
    pub(crate) async fn ended(&self, clock: &dyn Clock) {
        let expired = async {
            let Some(at) = self.expires_at else {
                return std::future::pending().await;
            };
            loop {
                let left = at.0.saturating_sub(clock.wall().0);
                if left <= 0 {
                    return;
                }
                clock
                    .sleep(Duration::from_millis(left.unsigned_abs()).min(LONGEST_SLEEP))
                    .await;
            }
        };
        tokio::select! {
            biased;
            () = self.revoked() => {}
            () = expired => {}
        }
    }

    /// The scopes to ask for, if it has no permission at all, and its issuer has scopes.
    pub(crate) fn scope_for_any(&self) -> Option<&str> {
        let every_scope = self.every_scope.as_deref();
        every_scope.filter(|_| self.permissions == Permissions::default())
    }

    /// The scope to ask for, if these permissions are needed.
    pub(crate) fn scope_for(&self, needed: &[Permission<'_>]) -> Option<String> {
        match &self.scope_names {
            Some(names) => names(needed),
            None => Some(names_of(needed)),
        }
    }
}

/// The names of permissions, separated by blanks.
pub(crate) fn names_of(permissions: &[Permission<'_>]) -> String {
    let names: Vec<String> = permissions.iter().map(ToString::to_string).collect();
    names.join(" ")
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("principal", &self.principal)
            .field("permissions", &self.permissions)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
