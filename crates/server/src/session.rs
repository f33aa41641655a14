//! Legacy sessions, carried by their own ids.
//!
//! A session id is a signed statement of what was negotiated, so that any process with the key can serve it and a restart ends
//! none (C-51, T-17). Only the end of a session needs a record (T-14).

use crate::seal::{Seal, Unsealed};
use longhaul_core::{Entropy, Millis, Principal, SessionKey, UnixMillis};
use longhaul_wire::Version;

/// How long a session id is honoured: 30 days. After that the client initializes again.
const LIFETIME: Millis = 30 * 24 * 3_600_000;
const KEY_BYTES: usize = 16;
const HEAD_BYTES: usize = KEY_BYTES + 1 + 1 + 8;
const ELICIT_FORM: u8 = 1;
const ELICIT_URL: u8 = 2;
const SAMPLING: u8 = 4;

/// What a legacy client and this server agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its unguessable name.
    pub key: SessionKey,
    /// The negotiated revision.
    pub version: Version,
    /// What the client can be asked.
    pub abilities: Abilities,
    /// Who initialized it.
    pub principal: Principal,
    /// Not honoured after this.
    pub expires_at: UnixMillis,
}

/// What a legacy client can be asked while a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Abilities {
    /// Forms.
    pub elicit_form: bool,
    /// URLs.
    pub elicit_url: bool,
    /// Its model.
    pub sampling: bool,
}

impl Session {
    /// A new session, beginning `now`.
    pub(crate) fn begin(
        version: Version,
        abilities: Abilities,
        principal: Principal,
        now: UnixMillis,
        entropy: &dyn Entropy,
    ) -> Self {
        let mut bytes = [0u8; KEY_BYTES];
        entropy.fill(&mut bytes);
        Self {
            key: name_of(&bytes),
            version,
            abilities,
            principal,
            expires_at: now.plus(LIFETIME),
        }
    }

    /// The id under which the client names it: visible ASCII (T-12).
    pub(crate) fn to_id(&self, seal: &Seal) -> String {
        let mut body = bytes_of(&self.key).to_vec();
        body.push(
            Version::ALL
                .iter()
                .position(|known| *known == self.version)
                .unwrap_or(0) as u8,
        );
        body.push(self.abilities.to_bits());
        body.extend(self.expires_at.0.to_be_bytes());
        body.extend(self.principal.as_str().as_bytes());
        seal.seal(&body)
    }

    /// The session behind an id; `None` if we did not issue it or it has expired.
    pub(crate) fn from_id(id: &str, seal: &Seal, now: UnixMillis) -> Option<Self> {
        let Unsealed(body) = seal.open(id)?;
        let (head, principal) = body.split_at_checked(HEAD_BYTES)?;
        let expires_at = UnixMillis(i64::from_be_bytes(head[KEY_BYTES + 2..].try_into().ok()?));
        if expires_at <= now {
            return None;
        }
        Some(Self {
            key: name_of(head[..KEY_BYTES].try_into().ok()?),
            version: *Version::ALL.get(usize::from(head[KEY_BYTES]))?,
            abilities: Abilities::from_bits(head[KEY_BYTES + 1]),
            principal: Principal::named(std::str::from_utf8(principal).ok()?),
            expires_at,
        })
    }
}

impl Abilities {
    fn to_bits(self) -> u8 {
        let flag = |set, bit| if set { bit } else { 0 };
        flag(self.elicit_form, ELICIT_FORM) | flag(self.elicit_url, ELICIT_URL) | flag(self.sampling, SAMPLING)
    }

    fn from_bits(bits: u8) -> Self {
        Self {
            elicit_form: bits & ELICIT_FORM != 0,
            elicit_url: bits & ELICIT_URL != 0,
            sampling: bits & SAMPLING != 0,
        }
    }
}

fn name_of(bytes: &[u8; KEY_BYTES]) -> SessionKey {
    SessionKey::named(format!("{:032x}", u128::from_be_bytes(*bytes)))
}

fn bytes_of(key: &SessionKey) -> [u8; KEY_BYTES] {
    u128::from_str_radix(key.as_str(), 16).unwrap_or_default().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::store::SigningKey;

    struct Counting;
    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            (0u8..).zip(bytes).for_each(|(value, byte)| *byte = value);
        }
    }

    fn seal(secret: u8) -> Seal {
        Seal::new(vec![SigningKey {
            id: 1,
            secret: [secret; 32],
        }])
    }

    fn session() -> Session {
        let abilities = Abilities {
            elicit_form: true,
            elicit_url: false,
            sampling: true,
        };
        Session::begin(
            Version::V2025_06_18,
            abilities,
            Principal::local(),
            UnixMillis(1_000),
            &Counting,
        )
    }

    #[test]
    fn an_id_carries_the_session_and_fits_a_header() {
        let id = session().to_id(&seal(7));
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        assert_eq!(Session::from_id(&id, &seal(7), UnixMillis(2_000)), Some(session()));
    }

    #[test]
    fn expired_foreign_and_altered_ids_are_no_sessions() {
        let id = session().to_id(&seal(7));
        assert_eq!(Session::from_id(&id, &seal(7), session().expires_at), None);
        assert_eq!(Session::from_id(&id, &seal(8), UnixMillis(2_000)), None);
        for at in 0..id.len() {
            let mut altered = id.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            if altered != id {
                assert_eq!(
                    Session::from_id(&altered, &seal(7), UnixMillis(2_000)),
                    None,
                    "byte {at}"
                );
            }
        }
    }
}
