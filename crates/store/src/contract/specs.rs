//! Tools' definitions.

use super::{Fresh, fixture::*};
use longhaul_core::SpecId;

/// A queued task finds its definition after the tool was changed or removed.
pub async fn definitions_are_kept_as_they_were(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let first = spec("one");
    bench.store.put_spec(first.clone()).await.expect("it is kept");
    let mut same_id = spec("two");
    same_id.id = first.id.clone();
    bench
        .store
        .put_spec(same_id)
        .await
        .expect("putting it again changes nothing");
    let bench = bench.restart().await;
    assert_eq!(bench.store.spec(&first.id).await, Ok(Some(first)));
    assert_eq!(bench.store.spec(&SpecId::named("none")).await, Ok(None));
}
