//! Signing keys.

use super::{Fresh, fixture::*};

/// The first key of a purpose is made once, so older signatures can still be verified.
pub async fn the_first_key_stays(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let first = bench.store.signing_keys("session", [7; 32]).await.expect("keys");
    assert_eq!(first.iter().map(|key| key.secret).collect::<Vec<_>>(), [[7; 32]]);
    assert_eq!(bench.store.signing_keys("session", [8; 32]).await, Ok(first.clone()));
    let other = bench.store.signing_keys("cursor", [9; 32]).await.expect("keys");
    assert_eq!(other[0].secret, [9; 32]);
    let bench = bench.restart().await;
    assert_eq!(bench.store.signing_keys("session", [1; 32]).await, Ok(first));
}
