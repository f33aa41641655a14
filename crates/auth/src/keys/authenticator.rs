//! Requests with an API key, and the file's changes while the server runs.

use super::{
    KEY_PREFIX,
    file::{KeyFile, KeyFileError},
    record::{Document, KeyName, Record},
    table::{KeyTable, PRINCIPAL},
};
use arc_swap::ArcSwap;
use longhaul_core::{Clock, Principal};
use longhaul_runtime::Ports;
use longhaul_server::{
    FileVersion,
    audit::{Audit, AuditAction, AuditEvent, AuditOutcome},
    auth::{AuthDecision, Authenticator, RequestHead},
};
use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};
use tracing::{error, info};

/// Between two looks at the file.
const LOOK: Duration = Duration::from_millis(400);

/// Recognises API keys. Changes of the file are taken over within a second, and what a revoked or expired key has opened ends then.
///
/// ```
/// use longhaul_auth::keys::{KeyAuthenticator, KeyFile};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # let _entered = runtime.enter();
/// # let dir = tempfile::tempdir()?;
/// let ports = longhaul_runtime::Ports::system();
/// let authenticator = KeyAuthenticator::start(KeyFile::open(dir.path())?, &ports)?;
/// # let _ = authenticator;
/// # Ok(())
/// # }
/// ```
pub struct KeyAuthenticator {
    shared: Arc<Shared>,
}

struct Shared {
    file: KeyFile,
    table: ArcSwap<KeyTable>,
    clock: Arc<dyn Clock>,
}

impl KeyAuthenticator {
    /// Reads the keys, and looks for changes until the value is dropped.
    ///
    /// # Errors
    /// As [`KeyFile::open`]. Once it runs, a file that cannot be read changes nothing: the last good one holds, and the log says why.
    pub fn start(file: KeyFile, ports: &Ports) -> Result<Self, KeyFileError> {
        Self::start_with(file, ports, None)
    }

    /// As [`start`](Self::start); changes of the keys are recorded in an audit log.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_audited(file: KeyFile, ports: &Ports, audit: Arc<dyn Audit>) -> Result<Self, KeyFileError> {
        Self::start_with(file, ports, Some(audit))
    }

    fn start_with(file: KeyFile, ports: &Ports, audit: Option<Arc<dyn Audit>>) -> Result<Self, KeyFileError> {
        // Before the file: what changes meanwhile is seen by the first look.
        let version = FileVersion::of(&file.path()).ok().flatten();
        let document = file.read()?;
        let table = KeyTable::new(&document, &KeyTable::default(), ports.clock.wall());
        let shared = Arc::new(Shared {
            file,
            table: ArcSwap::from_pointee(table),
            clock: Arc::clone(&ports.clock),
        });
        let watch = Watch {
            shared: Arc::downgrade(&shared),
            ports: ports.clone(),
            seen: version.filter(|version| version.is_settled(&*ports.clock)),
            applied: document,
            failure: None,
            audit,
        };
        ports.spawner.spawn(Box::pin(watch.run()));
        Ok(Self { shared })
    }

    /// How many keys are accepted.
    pub fn active_keys(&self) -> usize {
        self.shared.table.load().len()
    }
}

impl Authenticator for KeyAuthenticator {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        match head.bearer_token() {
            Some(token) if token.starts_with(KEY_PREFIX) => {
                let table = self.shared.table.load();
                AuthDecision::Known(table.find(token, self.shared.clock.wall()).cloned())
            }
            _ => AuthDecision::NotMine,
        }
    }

    fn is_withdrawn(&self, principal: &Principal) -> bool {
        self.shared.table.load().is_revoked(principal)
    }
}

/// Looks for changes of the file.
struct Watch {
    shared: Weak<Shared>,
    ports: Ports,
    /// The version that was read, unless another one may look the same.
    seen: Option<FileVersion>,
    applied: Document,
    /// The last failure that was logged.
    failure: Option<String>,
    audit: Option<Arc<dyn Audit>>,
}

impl Watch {
    async fn run(mut self) {
        loop {
            self.ports.clock.sleep(LOOK).await;
            let Some(shared) = self.shared.upgrade() else { return };
            let look = {
                let (shared, seen) = (Arc::clone(&shared), self.seen);
                let had_keys = !self.applied.keys.is_empty();
                // A file system may be slow.
                self.ports
                    .blocking(move || shared.read_if_changed(seen, had_keys))
                    .await
            };
            let now = self.ports.clock.wall();
            match look {
                // The process ends.
                None => return,
                Some(Ok(None)) => {}
                Some(Ok(Some((version, document)))) => {
                    self.seen = version.filter(|version| version.is_settled(&*self.ports.clock));
                    if document != self.applied {
                        let table = KeyTable::new(&document, &shared.table.load(), now);
                        info!(keys = table.len(), "the API keys have changed");
                        shared.table.store(Arc::new(table));
                        if let Some(audit) = &self.audit {
                            for (key, change) in changes(&self.applied, &document) {
                                let mut event = AuditEvent::new(now, AuditAction::Key, AuditOutcome::Ok);
                                event.principal = Some(format!("{PRINCIPAL}{key}").into());
                                audit.record(&event.with_detail(format!("{change}, as the server sees it")));
                            }
                        }
                        self.applied = document;
                    }
                    self.failure = None;
                }
                Some(Err(error)) => {
                    self.seen = None;
                    let error = error.to_string();
                    if self.failure.as_ref() != Some(&error) {
                        error!(error, "the API keys cannot be read; those that were read last are used");
                        self.failure = Some(error);
                    }
                }
            }
            let table = shared.table.load();
            if table.is_outdated(now) {
                shared.table.store(Arc::new(KeyTable::new(&self.applied, &table, now)));
            }
        }
    }
}

/// What has become of which keys, also where the file was edited by hand.
fn changes<'a>(before: &'a Document, after: &'a Document) -> impl Iterator<Item = (&'a KeyName, String)> {
    let changed = after
        .keys
        .iter()
        .filter_map(|now| Some((&now.name, changes_of(before.find(&now.name), now)?)));
    let removed = before.keys.iter().filter(|then| after.find(&then.name).is_none());
    changed.chain(removed.map(|then| (&then.name, "removed from the file".to_owned())))
}

/// What has become of one key; `None` if nothing has.
fn changes_of(before: Option<&Record>, now: &Record) -> Option<String> {
    let Some(then) = before else {
        return Some("added".to_owned());
    };
    let is_changed = [
        ("revoked", then.revoked.is_none() && now.revoked.is_some()),
        ("made valid again", then.revoked.is_some() && now.revoked.is_none()),
        ("rotated", then.secrets.last() != now.secrets.last()),
        ("given other tools", then.tools != now.tools),
        ("given or denied resources", then.resources != now.resources),
        ("given another end", then.expires != now.expires),
    ];
    let changes = is_changed.into_iter().filter(|(_, is_changed)| *is_changed);
    let changes: Vec<&str> = changes.map(|(change, _)| change).collect();
    match changes.is_empty() {
        // Of an overlap, or of dates that only people read.
        true => (then != now).then(|| "changed".to_owned()),
        false => Some(changes.join(", ")),
    }
}

/// What one look at the file found: nothing new, or a version and what it says.
type Look = Option<(Option<FileVersion>, Document)>;

impl Shared {
    /// A file that vanishes is no file without keys: it also held the names that are not used again.
    fn read_if_changed(&self, seen: Option<FileVersion>, had_keys: bool) -> Result<Look, KeyFileError> {
        let failed = |source| KeyFileError::Io {
            action: "look at",
            path: self.file.path(),
            source,
        };
        let version = FileVersion::of(&self.file.path()).map_err(failed)?;
        if version.is_none() && had_keys {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        if version.is_some() && version == seen {
            return Ok(None);
        }
        Ok(Some((version, self.file.read()?)))
    }
}
