//! Signing what clients carry and must bring back unchanged: session ids, cursors, event ids, the state of a series of rounds.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use longhaul_core::{
    Store, UnixMillis,
    store::{SigningKey, StoreError},
};
use longhaul_runtime::Ports;
use parking_lot::RwLock;
use sha2::Sha256;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// Half of HMAC-SHA-256: 128 bits are more than can be guessed.
const TAG_BYTES: usize = 16;
const KEY_ID_BYTES: usize = 4;
/// How often a running server looks whether its keys are old enough to be replaced. Much less than a day: other servers on the same store must have a new key
/// before it is used.
const LOOK: Duration = Duration::from_secs(3600);

/// Signs with one of its keys and accepts all of them, so that keys can be rotated.
pub(crate) struct Signer(Arc<RwLock<Keys>>);

/// The keys of one purpose.
struct Keys {
    /// The place of the one that signs.
    signing: usize,
    /// Newest first.
    all: Vec<(u32, Hmac<Sha256>)>,
}

/// Replaces the keys of signers while the server runs.
pub(crate) struct KeyRotation {
    store: Weak<dyn Store>,
    signers: Vec<(&'static str, Weak<RwLock<Keys>>)>,
}

/// The body of a token whose signature is right.
pub(crate) struct VerifiedBody(pub(crate) Vec<u8>);

impl Keys {
    /// Newest first. A key signs from the day after it was made, so that all servers of the store know it by then; before, the one before it does.
    fn new(keys: Vec<SigningKey>, now: UnixMillis) -> Self {
        let today = SigningKey::made_at(now, [0; 32]).id;
        let signing = keys.iter().position(|key| key.id < today);
        let keyed = |key: SigningKey| {
            let mac =
                Hmac::new_from_slice(&key.secret).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
            (key.id, mac)
        };
        Self {
            signing: signing.unwrap_or_default(),
            all: keys.into_iter().map(keyed).collect(),
        }
    }

    /// The keys of a purpose now. Makes them if there are none, and a new one if the newest is old.
    async fn current(store: &dyn Store, purpose: &str, ports: &Ports) -> Result<Self, StoreError> {
        let mut fresh = [0u8; 32];
        ports.entropy.fill(&mut fresh);
        let now = ports.clock.wall();
        let keys = store.signing_keys(purpose, SigningKey::made_at(now, fresh)).await?;
        Ok(Self::new(keys, now))
    }
}

impl KeyRotation {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Self {
        Self {
            store: Arc::downgrade(store),
            signers: Vec::new(),
        }
    }

    /// A signer for this purpose, whose keys are replaced from now on.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn signer(&mut self, purpose: &'static str, ports: &Ports) -> Result<Signer, StoreError> {
        let store = self.store.upgrade().ok_or(StoreError::Closed)?;
        let keys = Arc::new(RwLock::new(Keys::current(&*store, purpose, ports).await?));
        self.signers.push((purpose, Arc::downgrade(&keys)));
        Ok(Signer(keys))
    }

    /// Replaces keys until the store or the signers are gone.
    pub(crate) async fn run(self, ports: Ports) {
        loop {
            ports.clock.sleep(LOOK).await;
            for (purpose, keys) in &self.signers {
                let (Some(store), Some(keys)) = (self.store.upgrade(), keys.upgrade()) else {
                    return;
                };
                match Keys::current(&*store, purpose, &ports).await {
                    Ok(current) => *keys.write() = current,
                    Err(StoreError::Closed) => return,
                    Err(error) => {
                        tracing::warn!(%error, purpose, "signing keys could not be replaced; the server tries again in an hour");
                    }
                }
            }
        }
    }
}

impl Signer {
    /// A signer with these keys, newest first; at least one.
    #[cfg(test)]
    pub(crate) fn of_secret(secret: u8) -> Self {
        let secret = [secret; 32];
        let keys = Keys::new(vec![SigningKey { id: 1, secret }], UnixMillis(0));
        Self(Arc::new(RwLock::new(keys)))
    }

    /// `body` with its key's id and signature, in characters that need no escaping anywhere.
    pub(crate) fn sign(&self, body: &[u8]) -> String {
        let (id, mac) = {
            let keys = self.0.read();
            match keys.all.get(keys.signing) {
                Some(key) => key.clone(),
                None => return String::new(),
            }
        };
        let mut signed = id.to_be_bytes().to_vec();
        signed.extend(body);
        let tag = mac.chain_update(&signed).finalize().into_bytes();
        signed.extend(&tag[..TAG_BYTES]);
        URL_SAFE_NO_PAD.encode(signed)
    }

    /// The body of a token that was signed with one of the keys; `None` for anything else.
    pub(crate) fn verify(&self, text: &str) -> Option<VerifiedBody> {
        let token = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signed, tag) = token.split_at_checked(token.len().checked_sub(TAG_BYTES)?)?;
        let (id, body) = signed.split_first_chunk::<KEY_ID_BYTES>()?;
        let id = u32::from_be_bytes(*id);
        let mac = {
            let keys = self.0.read();
            keys.all.iter().find(|(known, _)| *known == id)?.1.clone()
        };
        mac.chain_update(signed).verify_truncated_left(tag).ok()?;
        Some(VerifiedBody(body.to_vec()))
    }
}
