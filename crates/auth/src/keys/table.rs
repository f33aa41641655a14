//! The keys that are accepted now, and what they have opened.

use super::{record::Document, secret::KeyDigest};
use foldhash::fast::FixedState;
use longhaul_core::{Principal, UnixMillis};
use longhaul_server::auth::{Denied, Grant, Identity, Permissions, Revocation};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// How a key's principal begins. Those of other kinds begin in other ways.
pub(super) const PRINCIPAL: &str = "key:";

/// Keys by their digest.
#[derive(Default)]
pub(super) struct KeyTable {
    // The buckets are parts of hashes already.
    entries: HashMap<u64, Vec<Entry>, FixedState>,
    /// Keys that are not accepted any more.
    ended: HashMap<u64, Vec<EndedKey>, FixedState>,
    /// The names of keys that were revoked, which nobody gets again.
    revoked: HashSet<Box<str>, FixedState>,
}

/// A key that is not accepted any more. Its sender is told why, and the audit log names its principal.
struct EndedKey {
    digest: KeyDigest,
    principal: Principal,
    why: &'static str,
    /// When it has expired; `None` if it was revoked.
    expired_at: Option<UnixMillis>,
}

const EXPIRED: &str = "the key has expired";
const REVOKED: &str = "the key was revoked";

struct Entry {
    digest: KeyDigest,
    identity: Arc<Identity>,
    /// Shared with the identities that the key had in earlier tables.
    revocation: Revocation,
    ends: Option<UnixMillis>,
    /// Whether an identity of an earlier table ends later, or never.
    has_later_end_elsewhere: bool,
}

impl KeyTable {
    /// The table of a file. A key that `earlier` had, with the same permissions, keeps what it has opened; what others have opened ends now.
    pub(super) fn new(document: &Document, earlier: &Self, now: UnixMillis) -> Self {
        let mut table = Self::default();
        for key in &document.keys {
            let tools = key.tools.iter().cloned().map(Grant::Tools);
            let resources = key.may_use_resources().then_some(Grant::ReadResources);
            let permissions: Permissions = tools.chain([Grant::WriteTasks]).chain(resources).collect();
            let principal = Principal::named(format!("{PRINCIPAL}{}", key.name));
            if key.revoked.is_some() {
                table.revoked.insert(key.name.to_string().into());
            }
            for secret in &key.secrets {
                let ends = [key.expires, secret.until]
                    .into_iter()
                    .flatten()
                    .min()
                    .map(|date| date.0);
                let why = match key.revoked {
                    Some(_) => Some(REVOKED),
                    None => ends.filter(|ends| *ends <= now).map(|_| EXPIRED),
                };
                if let Some(why) = why {
                    let (digest, principal) = (secret.sha256.clone(), principal.clone());
                    let bucket = table.ended.entry(digest.bucket()).or_default();
                    bucket.push(EndedKey {
                        digest,
                        principal,
                        why,
                        expired_at: ends.filter(|_| why == EXPIRED),
                    });
                    continue;
                }
                let before = earlier.entry(&secret.sha256).filter(|before| {
                    before.identity.principal() == &principal && *before.identity.permissions() == permissions
                });
                let entry = match before {
                    Some(before) if before.ends == ends => before.share(Arc::clone(&before.identity)),
                    _ => {
                        let revocation = before.map_or_else(Revocation::default, |before| before.revocation.clone());
                        let has_later_end_elsewhere = before.is_some_and(|before| {
                            before.has_later_end_elsewhere || ends < before.ends.or(Some(UnixMillis(i64::MAX)))
                        });
                        let identity =
                            Identity::verified(principal.clone(), permissions.clone()).with_revocation(&revocation);
                        let identity = match ends {
                            Some(ends) => identity.expiring_at(ends),
                            None => identity,
                        };
                        Entry {
                            digest: secret.sha256.clone(),
                            identity: Arc::new(identity),
                            revocation,
                            ends,
                            has_later_end_elsewhere,
                        }
                    }
                };
                table.entries.entry(entry.digest.bucket()).or_default().push(entry);
            }
        }
        for before in earlier.all() {
            let is_kept = table.entry(&before.digest).is_some_and(|entry| {
                entry.identity.principal() == before.identity.principal()
                    && entry.identity.permissions() == before.identity.permissions()
            });
            // What has expired ends what it has opened by itself, and the calls that were admitted finish. An identity of before a rotation does not know its
            // end.
            let is_expired = (table.ended(&before.digest)).is_some_and(|ended| ended.why == EXPIRED);
            if !is_kept && (!is_expired || before.has_later_end_elsewhere) {
                before.revocation.revoke();
            }
        }
        table
    }

    /// Whether a key has expired since the table was made. What it has opened must end, if that does not know its end: an identity of before a rotation.
    /// Or whether one is valid again, because the system's clock was set back.
    pub(super) fn is_outdated(&self, now: UnixMillis) -> bool {
        let mut expired = self.ended.values().flatten().filter_map(|ended| ended.expired_at);
        self.all().any(|entry| entry.has_ended(now)) || expired.any(|at| at > now)
    }

    /// Whether a principal is that of a revoked key.
    pub(super) fn is_revoked(&self, principal: &Principal) -> bool {
        // Mostly there is none.
        !self.revoked.is_empty()
            && (principal.as_str().strip_prefix(PRINCIPAL)).is_some_and(|name| self.revoked.contains(name))
    }

    /// Who has this key.
    pub(super) fn find(&self, token: &str, now: UnixMillis) -> Result<&Arc<Identity>, Denied> {
        let digest = KeyDigest::of_token(token);
        let entry = digest.as_ref().and_then(|digest| self.entry(digest));
        match entry {
            Some(entry) if entry.has_ended(now) => Err(Denied::ended_of(entry.identity.principal(), EXPIRED)),
            Some(entry) => Ok(&entry.identity),
            None => Err(match digest.and_then(|digest| self.ended(&digest)) {
                Some(ended) => Denied::ended_of(&ended.principal, ended.why),
                None => Denied::invalid("the key is unknown"),
            }),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all().count()
    }

    fn entry(&self, digest: &KeyDigest) -> Option<&Entry> {
        let bucket = self.entries.get(&digest.bucket())?;
        bucket.iter().find(|entry| entry.digest.matches(digest))
    }

    fn ended(&self, digest: &KeyDigest) -> Option<&EndedKey> {
        let bucket = self.ended.get(&digest.bucket())?;
        bucket.iter().find(|ended| ended.digest.matches(digest))
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().flatten()
    }
}

impl Entry {
    fn share(&self, identity: Arc<Identity>) -> Self {
        Self {
            digest: self.digest.clone(),
            identity,
            revocation: self.revocation.clone(),
            ends: self.ends,
            has_later_end_elsewhere: self.has_later_end_elsewhere,
        }
    }

    fn has_ended(&self, now: UnixMillis) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}
