//! Ended sessions.

use super::{Fresh, fixture::*};
use longhaul_core::{SessionKey, UnixMillis};

/// Ended is ended, across restarts, until the session could not be used any more anyway.
pub async fn ended_sessions_stay_ended_until_their_time(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let (one, two) = (SessionKey::named("one"), SessionKey::named("two"));
    assert_eq!(bench.store.session_ended(&one).await, Ok(false));
    bench
        .store
        .end_session(&one, UnixMillis(100))
        .await
        .expect("it is kept");
    bench
        .store
        .end_session(&two, UnixMillis(200))
        .await
        .expect("it is kept");
    bench
        .store
        .end_session(&two, UnixMillis(50))
        .await
        .expect("ending twice is no mistake");
    assert_eq!(bench.store.session_ended(&one).await, Ok(true));
    let bench = bench.restart().await;
    assert_eq!(bench.store.session_ended(&one).await, Ok(true));
    assert_eq!(bench.store.session_ended(&two).await, Ok(true));
    bench
        .store
        .delete(vec![], UnixMillis(100))
        .await
        .expect("the chore runs");
    assert_eq!(bench.store.session_ended(&one).await, Ok(false));
    assert_eq!(bench.store.session_ended(&two).await, Ok(true));
    let bench = bench.restart().await;
    assert_eq!(bench.store.session_ended(&one).await, Ok(false));
    bench.store.open_node(&host(), UnixMillis(200)).await.expect("a node");
    assert_eq!(bench.store.session_ended(&two).await, Ok(false));
}
