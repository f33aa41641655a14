//! Who may operate a server, and who has logged in.

use crate::key_file::KeyFile;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, header};
use longhaul_core::{Entropy, Millis, UnixMillis};
use longhaul_server::http::HostName;
use parking_lot::Mutex;
use std::net::IpAddr;

/// The cookie of a browser whose user has given the key.
const COOKIE: &str = "longhaul_admin";
/// A browser is asked for the key again after this, in milliseconds: 12 hours.
const SESSION: Millis = 12 * 60 * 60 * 1_000;
/// Browsers at once. The oldest is asked for the key again.
const MOST_SESSIONS: usize = 100;

/// Who may do what.
#[derive(Debug, Clone)]
pub struct Access {
    /// Whether processes of the server's own user need no key.
    pub same_user: bool,
    /// The key of operators.
    pub admin_key: KeyFile,
    /// The key that `/metrics` needs; without it, everybody who can connect reads them.
    pub metrics_key: Option<KeyFile>,
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

/// Browsers whose users have given the key.
#[derive(Default)]
pub(crate) struct LoginSessions(Mutex<Vec<(String, UnixMillis)>>);

impl LoginSessions {
    /// A cookie for a browser.
    pub(crate) fn begin(&self, entropy: &dyn Entropy, now: UnixMillis) -> String {
        let mut random = [0; 32];
        entropy.fill(&mut random);
        let id = URL_SAFE_NO_PAD.encode(random);
        let mut sessions = self.0.lock();
        sessions.retain(|(_, until)| *until > now);
        if sessions.len() >= MOST_SESSIONS {
            sessions.remove(0);
        }
        sessions.push((id.clone(), now.plus(SESSION)));
        format!(
            "{COOKIE}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}",
            SESSION / 1_000
        )
    }

    pub(crate) fn knows(&self, headers: &HeaderMap, now: UnixMillis) -> bool {
        let Some(id) = cookie(headers) else { return false };
        let sessions = self.0.lock();
        sessions.iter().any(|(known, until)| known == id && *until > now)
    }

    /// Forgets a browser.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers) {
            self.0.lock().retain(|(known, _)| known != id);
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
