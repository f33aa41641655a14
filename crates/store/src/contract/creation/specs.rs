//! Tools' definitions.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::SpecId;

/// A queued task finds its definition after the tool was changed or removed.
pub async fn definitions_are_kept_as_they_were(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = spec("one");
    fixture.store.put_spec(first.clone()).await.expect("it is kept");
    let mut same_id = spec("two");
    same_id.id = first.id.clone();
    fixture
        .store
        .put_spec(same_id)
        .await
        .expect("putting it again changes nothing");
    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.spec(&first.id).await, Ok(Some(first)));
    assert_eq!(fixture.store.spec(&SpecId::named("none")).await, Ok(None));
}
