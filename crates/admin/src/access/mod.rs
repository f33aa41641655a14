//! Who may operate a server, who has logged in, and where operators connect.

mod key_file;
mod listener;

pub use key_file::{AdminKeyFile, AdminKeyFileError};
pub use listener::{AdminListener, AdminSocket};
pub(crate) use listener::{ConnectedPeer, Connections};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, header};
use longhaul_core::{Entropy, Millis, UnixMillis};
use longhaul_server::{
    auth::{Peer, PeerUser},
    http::HostName,
};
use parking_lot::Mutex;
use std::net::IpAddr;

/// The name of the session cookie.
const COOKIE: &str = "longhaul_admin";
/// A browser is asked for the key again after this, in milliseconds: 12 hours.
const SESSION: Millis = 12 * 60 * 60 * 1_000;
/// Between two lines about refused requests, in milliseconds.
const DENIALS_EVERY: Millis = 1_000;
/// Browsers at once. The oldest is asked for the key again.
const MOST_SESSIONS: usize = 100;

/// Who may do what.
#[derive(Debug, Clone)]
pub struct Access {
    /// Whether processes of the server's own user need no key.
    pub same_user: bool,
    /// The key of operators.
    pub admin_key: AdminKeyFile,
    /// The key that `/metrics` needs; without it, everybody who can connect reads them.
    pub metrics_key: Option<AdminKeyFile>,
    /// Names besides those of this machine by which requests may call the server, as behind a proxy.
    pub allowed_hosts: Vec<HostName>,
}

/// Who operates, for the audit log.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    /// How they were known.
    pub(crate) by: &'static str,
    /// Where they are.
    pub(crate) address: Option<IpAddr>,
}

/// Whether a connection is from a process of the server's own user, as far as the system tells.
pub(crate) fn is_of_own_user(peer: &Peer) -> bool {
    match peer {
        Peer::Tcp { user, .. } => *user == PeerUser::Same,
        Peer::Unix { uid } => *uid == rustix::process::geteuid().as_raw(),
        _ => false,
    }
}

/// When a refused request was recorded last, and how many were refused since. A flood of them must not push everything else out of the audit log.
#[derive(Default)]
pub(crate) struct Denials(Mutex<(Option<UnixMillis>, u64)>);

impl Denials {
    /// How many were left out before this one, if this one is to be recorded.
    pub(crate) fn record(&self, now: UnixMillis) -> Option<u64> {
        let mut denials = self.0.lock();
        let (latest, left_out) = &mut *denials;
        if latest.is_some_and(|latest| now >= latest && now.since(latest) < DENIALS_EVERY) {
            *left_out += 1;
            return None;
        }
        *latest = Some(now);
        Some(std::mem::take(left_out))
    }
}

/// The sessions of browsers that have logged in.
#[derive(Default)]
pub(crate) struct LoginSessions(Mutex<Vec<LoginSession>>);

struct LoginSession {
    id: String,
    until: UnixMillis,
    /// It ends with the key that was given.
    key: [u8; 32],
}

impl LoginSessions {
    /// A cookie for a browser.
    pub(crate) fn begin(&self, entropy: &dyn Entropy, now: UnixMillis, key: [u8; 32]) -> String {
        let mut random = [0; 32];
        entropy.fill(&mut random);
        let id = URL_SAFE_NO_PAD.encode(random);
        let mut sessions = self.0.lock();
        sessions.retain(|session| session.until > now);
        if sessions.len() >= MOST_SESSIONS {
            sessions.remove(0);
        }
        sessions.push(LoginSession {
            id: id.clone(),
            until: now.plus(SESSION),
            key,
        });
        format!(
            "{COOKIE}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}",
            SESSION / 1_000
        )
    }

    /// Whether a browser has given the key that counts now.
    pub(crate) fn knows(&self, headers: &HeaderMap, now: UnixMillis, key: &AdminKeyFile) -> bool {
        let Some(id) = cookie(headers) else { return false };
        let sessions = self.0.lock();
        let found = sessions.iter().find(|session| session.id == id && session.until > now);
        found.is_some_and(|session| key.digest() == Some(session.key))
    }

    /// Forgets a browser.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers) {
            self.0.lock().retain(|session| session.id != id);
        }
    }
}

/// The session that a browser shows.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut cookies = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split("; "));
    cookies.find_map(|cookie| cookie.strip_prefix(COOKIE)?.strip_prefix('='))
}
