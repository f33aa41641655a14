//! Signing keys.

use super::{NewSubject, fixture::*};
use longhaul_core::store::SigningKey;

fn key(id: u32) -> SigningKey {
    SigningKey {
        id,
        secret: [u8::try_from(id % 251).unwrap_or_default(); 32],
    }
}

async fn keys(fixture: &Fixture, purpose: &str, fresh: u32) -> Vec<SigningKey> {
    fixture.store.signing_keys(purpose, key(fresh)).await.expect("keys")
}

/// A key stays for its time, and what it signed can be verified for a while after the next one was made. Purposes share nothing.
pub async fn keys_are_replaced_and_forgotten(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(keys(&fixture, "session", 100).await, [key(100)]);
    assert_eq!(keys(&fixture, "session", 129).await, [key(100)]);
    assert_eq!(keys(&fixture, "cursor", 129).await, [key(129)]);
    let fixture = fixture.restart().await;
    assert_eq!(keys(&fixture, "session", 130).await, [key(130), key(100)]);
    assert_eq!(
        keys(&fixture, "session", 100).await,
        [key(130), key(100)],
        "a clock that was put back"
    );
    let fixture = fixture.restart().await;
    assert_eq!(keys(&fixture, "session", 159).await, [key(130), key(100)]);
    assert_eq!(keys(&fixture, "session", 220).await, [key(220), key(130)]);
    assert_eq!(keys(&fixture, "cursor", 130).await, [key(129)]);
}
