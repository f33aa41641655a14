//! Ended sessions.

use super::{NewSubject, fixture::*};
use longhaul_core::{
    SessionKey, UnixMillis,
    store::{MAX_ENDED_SESSIONS, StoreError},
};

/// A session stays ended, across restarts, until it would have expired anyway.
pub async fn ended_sessions_stay_ended_until_their_time(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (one, two) = (SessionKey::named("one"), SessionKey::named("two"));
    assert_eq!(fixture.store.session_ended(&one).await, Ok(false));
    fixture
        .store
        .end_session(&one, UnixMillis(100))
        .await
        .expect("it is kept");
    fixture
        .store
        .end_session(&two, UnixMillis(200))
        .await
        .expect("it is kept");
    fixture
        .store
        .end_session(&two, UnixMillis(50))
        .await
        .expect("ending twice is no mistake");
    assert_eq!(fixture.store.session_ended(&one).await, Ok(true));
    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.session_ended(&one).await, Ok(true));
    assert_eq!(fixture.store.session_ended(&two).await, Ok(true));
    fixture
        .store
        .delete(&host(), vec![], UnixMillis(100))
        .await
        .expect("the chore runs");
    assert_eq!(fixture.store.session_ended(&one).await, Ok(false));
    assert_eq!(fixture.store.session_ended(&two).await, Ok(true));
    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.session_ended(&one).await, Ok(false));
    fixture.store.end_lease(fixture.node).await.expect("a lease ends");
    fixture
        .store
        .open_node(&host().into(), UnixMillis(200))
        .await
        .expect("a node");
    assert_eq!(fixture.store.session_ended(&two).await, Ok(false));
}

/// A bounded number is stored. No ended session is dropped for a new one, and each is removed when its time is over.
pub async fn ended_sessions_are_bounded(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let session = |nth: usize| SessionKey::named(format!("session-{nth}"));
    let store = &fixture.store;
    let end = |nth| async move { store.end_session(&session(nth), UnixMillis(100)).await };
    let ended = futures_util::future::join_all((0..MAX_ENDED_SESSIONS).map(end)).await;
    assert!(ended.iter().all(Result::is_ok), "there is room for all of them");
    assert_eq!(end(MAX_ENDED_SESSIONS).await, Err(StoreError::TooManySessions));
    assert_eq!(store.session_ended(&session(MAX_ENDED_SESSIONS)).await, Ok(false));
    assert_eq!(end(0).await, Ok(()), "it was ended before");
    for nth in [0, MAX_ENDED_SESSIONS / 2, MAX_ENDED_SESSIONS - 1] {
        assert_eq!(store.session_ended(&session(nth)).await, Ok(true));
    }
    store
        .delete(&host(), vec![], UnixMillis(100))
        .await
        .expect("the chore runs");
    assert_eq!(end(MAX_ENDED_SESSIONS).await, Ok(()));
}
