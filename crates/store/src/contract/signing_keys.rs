//! Signing keys.

use super::{NewSubject, fixture::*};

/// The first key of a purpose is made once, so older signatures can still be verified.
pub async fn the_first_key_stays(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = fixture.store.signing_keys("session", [7; 32]).await.expect("keys");
    assert_eq!(first.iter().map(|key| key.secret).collect::<Vec<_>>(), [[7; 32]]);
    assert_eq!(fixture.store.signing_keys("session", [8; 32]).await, Ok(first.clone()));
    let other = fixture.store.signing_keys("cursor", [9; 32]).await.expect("keys");
    assert_eq!(other[0].secret, [9; 32]);
    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.signing_keys("session", [1; 32]).await, Ok(first));
}
