//! Hints of changes.

use super::{Fresh, fixture::*};
use longhaul_core::{Event, store::Hint};
use std::sync::{Arc, Mutex, mpsc};

/// Each change of a task is hinted in order, after it can be read; a refused change is not.
pub async fn every_change_is_hinted_in_order(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let (tell, told) = mpsc::channel::<Hint>();
    let tell = Mutex::new(tell);
    bench.store.listen(Arc::new(move |hints: &[Hint]| {
        let tell = tell.lock().expect("the listener's lock");
        hints.iter().for_each(|hint| drop(tell.send(hint.clone())));
    }));
    let task = bench.create(new_task("a", bench.node, 1)).await;
    let claimed = bench.claim("tool", 1, 2).await;
    let fence = fence(&claimed[0].task);
    bench
        .apply(&task.id, None, vec![Event::Started], 3)
        .await
        .expect_err("no fence");
    bench
        .apply(&task.id, Some(fence), vec![Event::Started, asked(1)], 3)
        .await
        .expect("it starts");
    bench
        .apply(&task.id, Some(fence), vec![finished("done")], 4)
        .await
        .expect("it ends");
    let last = bench.peek(&task.id).await.task.version;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|version| *version < last) {
        let hint = told
            .recv_timeout(std::time::Duration::from_secs(30))
            .expect("a hint for the last version");
        assert_eq!(hint.task, task.id);
        seen.push(hint.version);
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(seen, [1, 2, 4, 5]);
}
