//! Only parsing a request and writing a response.

use crate::peer;
use gungraun::prelude::*;
use longhaul_core::{
    Json, NodeId, Origin, Outcome, Owner, Principal, Quota, SpecId, TaskHeader, UnixMillis,
    store::{NewTask, Record},
    text_result,
};
use longhaul_wire::{
    AdmissionRules, Headers, Message, MessageTransport, Method, ServerInfo, SessionState, admit, legacy, modern,
};
use std::hint::black_box;

const NOW: UnixMillis = UnixMillis(1_795_165_260_000);

struct Writing {
    record: Record,
    server_info: ServerInfo,
    out: String,
}

const BODY: &str = concat!(
    r#"{"jsonrpc":"2.0","id":17,"method":"tasks/get","params":{"taskId":"01m7wd8gm1ab0rxgpgf87dz6r4ydxyfvz8yb","_meta":{"#,
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"counted","#,
    r#""version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#,
);

fn body() -> Vec<u8> {
    BODY.as_bytes().to_vec()
}

/// What a benchmark of a writer needs: a task that has ended with a small result.
fn record() -> Writing {
    let outcome = Outcome::result(text_result("3", false));
    let ended = NewTask {
        header: TaskHeader {
            id: "01m7wd8gm1ab0rxgpgf87dz6r4ydxyfvz8yb".parse().unwrap(),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "add".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            accepted_by: NodeId(1),
            created_at: NOW,
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
        arguments: Json::trusted("{}"),
        requestor: Json::trusted("{}"),
        claim: None,
        confirmation: None,
        outcome: Some(outcome),
        idempotency: None,
        unique: None,
        quota: Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    };
    let (task, outcome) = ended.task();
    Writing {
        record: Record {
            task,
            outcome,
            inputs: Vec::new(),
        },
        server_info: ServerInfo::new("counted", "1"),
        out: String::with_capacity(1024),
    }
}

#[library_benchmark]
#[bench::tasks_get(body())]
fn parse_and_admit(body: Vec<u8>) -> (Vec<u8>, Option<Method>) {
    let method = {
        let Ok(Message::Request(request)) = Message::parse(black_box(&body)) else {
            unreachable!()
        };
        let transport = MessageTransport::Http {
            headers: Headers {
                protocol_version: Some(b"2026-07-28"),
                method: Some(b"tasks/get"),
                ..Headers::default()
            },
            session: SessionState::None,
            sessionless: true,
        };
        let rules = AdmissionRules {
            strict_headers: false,
            serves: |_| true,
        };
        let admitted = admit(&request, &transport, &rules).ok();
        admitted.map(|admitted| admitted.params.task_id().map(|_| admitted.method).unwrap())
    };
    (body, black_box(method))
}

#[library_benchmark]
#[bench::tasks_get(body())]
fn peer_typed(body: Vec<u8>) -> (Vec<u8>, peer::Request) {
    let read = peer::typed(black_box(&body));
    (body, black_box(read))
}

#[library_benchmark]
#[bench::tasks_get(body())]
fn peer_tree(body: Vec<u8>) -> (Vec<u8>, serde_json::Value) {
    let read = peer::tree(black_box(&body));
    (body, black_box(read))
}

#[library_benchmark]
#[bench::modern(record())]
fn write_get_modern(mut written: Writing) -> Writing {
    modern::tasks::write_get(&mut written.out, &written.record, None, &written.server_info, NOW);
    black_box(written)
}

#[library_benchmark]
#[bench::legacy(record())]
fn write_get_legacy(mut written: Writing) -> Writing {
    legacy::tasks::write_get(&mut written.out, &written.record, None, NOW);
    black_box(written)
}

library_benchmark_group!(
    name = messages,
    benchmarks = [
        parse_and_admit,
        peer_typed,
        peer_tree,
        write_get_modern,
        write_get_legacy
    ]
);
