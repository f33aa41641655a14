//! Tasks for tests.

use longhaul_core::{
    HostId, Json, NodeId, Origin, Owner, Principal, Quota, SpecId, Store, TaskHeader, TaskId, ToolSpec, UnixMillis,
    store::NewTask,
};

/// A node of the host `name`, and the definition of [`new_task`].
pub(crate) async fn open_node(store: &dyn Store, name: &str) -> NodeId {
    let spec = ToolSpec {
        id: SpecId::named("spec"),
        kind: "test".into(),
        definition: Json::trusted("{}"),
    };
    store.put_spec(spec).await.unwrap();
    let lease = store
        .open_node(&HostId(name.into()).into(), UnixMillis(0))
        .await
        .unwrap();
    lease.node
}

pub(crate) fn id(name: &str) -> TaskId {
    name.parse().unwrap()
}

/// An announced task of `alice`, in the queue of `tool`.
pub(crate) fn new_task(name: &str, accepted_by: NodeId) -> NewTask {
    NewTask {
        header: TaskHeader {
            id: id(name),
            owner: Owner {
                principal: Principal::named("alice"),
                session: None,
            },
            tool: "tool".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            accepted_by,
            created_at: UnixMillis(1),
            deadline: None,
            queue_timeout: None,
            retention: 3_600_000,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group: None,
        },
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::trusted(r#"{"a":1}"#),
        requestor: Json::trusted("{}"),
        claim: None,
        confirmation: None,
        outcome: None,
        idempotency: None,
        unique: None,
        quota: Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    }
}
