//! Legacy sessions, carried by their own ids.
//!
//! A session id is a signed statement of what was negotiated, so that any process with the key can serve it and a restart ends
//! none. Only the end of a session needs a record.

use super::capabilities;
use crate::signer::{Signer, VerifiedBody};
use longhaul_core::{ClientCapabilities, Entropy, Json, Millis, Principal, SessionKey, UnixMillis};
use longhaul_wire::Version;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// How long a session id is honoured: 30 days. After that the client initializes again.
const LIFETIME: Millis = 30 * 24 * 3_600_000;
const KEY_BYTES: usize = 16;
/// Of a client's name and its version, in bytes.
const LONGEST_NAME: usize = 128;
/// Of what a client declares for others, in bytes.
const MOST_RELAYED: usize = 1024;
/// In the byte of the capabilities: the client declares something for others.
const HAS_RELAYED: u8 = 1 << 7;
const HEAD_BYTES: usize = KEY_BYTES + 1 + 1 + 8;

/// What a legacy client and this server negotiated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its unguessable name.
    pub key: SessionKey,
    /// The negotiated revision.
    pub version: Version,
    /// What the client can be asked.
    pub capabilities: ClientCapabilities,
    /// Who initialized it.
    pub principal: Principal,
    /// Not honoured after this.
    pub expires_at: UnixMillis,
    /// The client's own name and version: `{"name":…,"version":…}`, for display only.
    pub client: Option<Arc<str>>,
    /// What the client declares for others than this server, as JSON.
    pub relayed_capabilities: Option<Arc<str>>,
}

impl Session {
    /// A new session, beginning `now`; `has_id` if its client can name it on another connection.
    pub(crate) fn begin(
        has_id: bool,
        version: Version,
        capabilities: ClientCapabilities,
        principal: Principal,
        client: Option<&RawValue>,
        now: UnixMillis,
        entropy: &dyn Entropy,
    ) -> Self {
        let mut bytes = [0u8; KEY_BYTES];
        entropy.fill(&mut bytes);
        Self {
            key: match has_id {
                true => name_of(&bytes),
                false => SessionKey::of_connection(name_of(&bytes).as_str()),
            },
            version,
            capabilities,
            principal,
            expires_at: now.plus(LIFETIME),
            client: client.and_then(short),
            relayed_capabilities: None,
        }
    }

    /// The same session, whose client declares this for others than this server. An id is a header, so it carries no more than [`MOST_RELAYED`] bytes of it.
    pub(crate) fn relaying(self, declared: Option<&Json>) -> Self {
        let text = declared.map(Json::as_str);
        Self {
            relayed_capabilities: text.filter(|text| text.len() <= MOST_RELAYED).map(Into::into),
            ..self
        }
    }

    /// The id under which the client names it: visible ASCII.
    pub(crate) fn to_id(&self, signer: &Signer) -> String {
        let mut body = bytes_of(&self.key).to_vec();
        body.push(
            Version::ALL
                .iter()
                .position(|known| *known == self.version)
                .unwrap_or(0) as u8,
        );
        let relayed = self.relayed_capabilities.as_deref();
        let has_relayed = if relayed.is_some() { HAS_RELAYED } else { 0 };
        body.push(capabilities::to_bits(self.capabilities) | has_relayed);
        body.extend(self.expires_at.0.to_be_bytes());
        let client = self.client.as_deref().unwrap_or_default();
        // Both are limited where they are set.
        for text in [Some(client), relayed].into_iter().flatten() {
            body.extend(u16::try_from(text.len()).unwrap_or_default().to_be_bytes());
            body.extend(text.as_bytes());
        }
        body.extend(self.principal.as_str().as_bytes());
        signer.sign(&body)
    }

    /// The session behind an id; `None` if we did not issue it or it has expired.
    pub(crate) fn from_id(id: &str, signer: &Signer, now: UnixMillis) -> Option<Self> {
        let VerifiedBody(body) = signer.verify(id)?;
        let (head, rest) = body.split_at_checked(HEAD_BYTES)?;
        let expires_at = UnixMillis(i64::from_be_bytes(head[KEY_BYTES + 2..].try_into().ok()?));
        let (client, rest) = split_text(rest)?;
        let (relayed, principal) = match head[KEY_BYTES + 1] & HAS_RELAYED {
            0 => (None, rest),
            _ => split_text(rest).map(|(relayed, rest)| (Some(relayed), rest))?,
        };
        if expires_at <= now {
            return None;
        }
        Some(Self {
            key: name_of(head[..KEY_BYTES].try_into().ok()?),
            version: *Version::ALL.get(usize::from(head[KEY_BYTES]))?,
            capabilities: capabilities::from_bits(head[KEY_BYTES + 1]),
            principal: Principal::named(std::str::from_utf8(principal).ok()?),
            expires_at,
            client: (!client.is_empty()).then(|| client.into()),
            relayed_capabilities: relayed.map(Into::into),
        })
    }
}

/// A text behind its length.
fn split_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// Name and version of a client, cut to a reasonable length: the id that carries them is a header.
fn short(client: &RawValue) -> Option<Arc<str>> {
    #[derive(Serialize, Deserialize)]
    struct Info {
        name: String,
        #[serde(default)]
        version: String,
    }
    let mut info: Info = serde_json::from_str(client.get()).ok()?;
    for text in [&mut info.name, &mut info.version] {
        text.truncate(text.floor_char_boundary(LONGEST_NAME));
    }
    serde_json::to_string(&info).ok().map(Into::into)
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
    use serde_json::json;

    struct SequentialEntropy;
    impl Entropy for SequentialEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            (0u8..).zip(bytes).for_each(|(value, byte)| *byte = value);
        }
    }

    fn session() -> Session {
        let capabilities = ClientCapabilities {
            elicitation_form: true,
            sampling: true,
            sampling_tasks: true,
            ..ClientCapabilities::default()
        };
        let info = json!({"name": "n".repeat(1000), "version": "1", "icons": ["…"]});
        let client = RawValue::from_string(info.to_string()).unwrap();
        Session::begin(
            true,
            Version::V2025_06_18,
            capabilities,
            Principal::local(),
            Some(&client),
            UnixMillis(1_000),
            &SequentialEntropy,
        )
    }

    fn read(id: &str, secret: u8, now: UnixMillis) -> Option<Session> {
        Session::from_id(id, &Signer::of_secret(secret), now)
    }

    #[test]
    fn an_id_carries_the_session_and_fits_a_header() {
        let id = session().to_id(&Signer::of_secret(7));
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        assert_eq!(read(&id, 7, UnixMillis(2_000)), Some(session()));
        let client = format!(r#"{{"name":"{}","version":"1"}}"#, "n".repeat(128));
        assert_eq!(session().client.as_deref(), Some(&*client));
    }

    #[test]
    fn expired_foreign_and_altered_ids_are_no_sessions() {
        let id = session().to_id(&Signer::of_secret(7));
        assert_eq!(read(&id, 7, session().expires_at), None);
        assert_eq!(read(&id, 8, UnixMillis(2_000)), None);
        for at in 0..id.len() {
            let mut altered = id.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            assert_eq!(read(&altered, 7, UnixMillis(2_000)), None, "byte {at}");
        }
    }

    #[test]
    fn what_a_client_declares_for_others_is_in_the_id_up_to_a_limit() {
        let again = |session: &Session| read(&session.to_id(&Signer::of_secret(1)), 1, UnixMillis(2_000)).unwrap();
        let declared = json!({"extensions": {"a/b": {"x": [1, "ü"]}}});
        let session = session().relaying(Some(&Json::from(&declared)));
        assert_eq!(session.relayed_capabilities.as_deref(), Some(&*declared.to_string()));
        assert_eq!(again(&session), session);
        let large = json!({"extensions": {"a/b": {"x": "x".repeat(MOST_RELAYED)}}});
        let session = session.relaying(Some(&Json::from(&large)));
        assert_eq!(session.relayed_capabilities, None);
        assert_eq!(again(&session), session);
    }
}
