//! The ids of requests. Two processes may share a session, in which no id may be used twice.

use crate::peer::{legacy, plain};
use serde_json::Value;
use std::collections::HashSet;

/// Each connection begins at a number of its own, as each process does.
#[tokio::test]
async fn two_connections_never_use_the_same_ids() {
    let peer = legacy(Value::Null, |_| plain(202, ""));
    for _ in 0..10 {
        let (connection, _) = peer.connection();
        for _ in 0..10 {
            connection.list_tools().await.unwrap();
        }
    }
    let ids: Vec<u64> = peer.seen().iter().filter_map(|seen| seen.body["id"].as_u64()).collect();
    let distinct: HashSet<u64> = ids.iter().copied().collect();
    assert!(ids.len() >= 100 && distinct.len() == ids.len(), "{ids:?}");
}
