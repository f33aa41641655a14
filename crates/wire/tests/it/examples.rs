//! Every message of the protocol's examples is valid, can be read, and (if a client sends it) is admitted.

use crate::{fixture::request, schema};
use longhaul_wire::{
    AdmissionRules, Admitted, Era, Generation, Headers, Message, MessageTransport, Method, Request, SessionState,
    Version, admit, header::encode_value,
};
use serde_json::Value;

pub(crate) const LEGACY: &str = include_str!("../examples/legacy.txt");
pub(crate) const MODERN: &str = include_str!("../examples/modern.txt");

/// Tag and message of each line.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().map(|line| line.split_once(' ').unwrap())
}

#[test]
fn all_are_valid_and_can_be_read() {
    for (tag, line) in lines(LEGACY).chain(lines(MODERN)) {
        let value: Value = serde_json::from_str(line).unwrap();
        if tag != "-" {
            schema::check(tag, &value);
        }
        let id = |id: longhaul_wire::RequestId<'_>| serde_json::from_str::<Value>(id.as_json()).unwrap();
        match Message::parse(line.as_bytes()).unwrap() {
            Message::Request(request) => {
                assert_eq!(id(request.id), value["id"]);
                assert_eq!(request.method, value["method"].as_str().unwrap());
                assert_eq!(
                    request
                        .raw_params()
                        .map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap())
                        .as_ref(),
                    value.get("params")
                );
            }
            Message::Notification(notification) => assert_eq!(notification.method, value["method"].as_str().unwrap()),
            Message::Response(response) => {
                assert_eq!(id(response.id.unwrap()), value["id"]);
                let (Ok(body) | Err(body)) = response.outcome;
                let body: Value = serde_json::from_str(body.get()).unwrap();
                assert_eq!(&body, value.get("result").unwrap_or(&value["error"]));
            }
        }
    }
}

/// What a server receives from this client's request, headers as the client would send them.
pub(crate) fn admit_modern<'a>(request: &'a Request<'_>, line: &str) -> Result<Admitted<'a>, longhaul_wire::RpcError> {
    let body: Value = serde_json::from_str(line).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]);
    let method = text(&body["method"]);
    let named = Method::parse(&method, Generation::Modern)
        .and_then(Method::name_source)
        .map(|_| {
            let params = &body["params"];
            let name = ["taskId", "name", "uri"]
                .iter()
                .find_map(|member| params[member].as_str())
                .unwrap_or_default();
            encode_value(name).into_owned()
        });
    let headers = Headers {
        protocol_version: Some(version.as_bytes()),
        method: Some(method.as_bytes()),
        name: named.as_deref().map(str::as_bytes),
        session_id: None,
        params: Vec::new(),
    };
    let transport = MessageTransport::Http {
        headers,
        session: SessionState::None,
        sessionless: false,
    };
    let rules = AdmissionRules {
        strict_headers: true,
        serves: |_| true,
    };
    // The transport lives shorter than the answer, which borrows from the request alone.
    admit(request, &transport, &rules)
}

#[test]
fn every_modern_request_is_admitted_with_strict_headers() {
    let mut admitted = 0;
    for (_, line) in lines(MODERN) {
        let Ok(Message::Request(request)) = Message::parse(line.as_bytes()) else {
            continue;
        };
        let got = admit_modern(&request, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(matches!(got.era, Era::Modern(modern) if modern.version == Version::V2026_07_28));
        assert_eq!(got.method.as_str(), request.method);
        admitted += 1;
    }
    assert_eq!(admitted, 8);
}

#[test]
fn every_legacy_client_request_is_admitted_in_its_session() {
    let mut admitted = 0;
    for (_, line) in lines(LEGACY) {
        let Ok(Message::Request(request)) = Message::parse(line.as_bytes()) else {
            continue;
        };
        if Method::parse(&request.method, Generation::Legacy).is_none() {
            continue; // a server's request: elicitation, sampling
        }
        let headers = Headers {
            protocol_version: Some(b"2025-11-25"),
            ..Headers::default()
        };
        let transport = MessageTransport::Http {
            headers,
            session: SessionState::Live(Version::V2025_11_25),
            sessionless: false,
        };
        let got = admit(
            &request,
            &transport,
            &AdmissionRules {
                strict_headers: true,
                serves: |_| true,
            },
        );
        let got = got.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(got.era.generation(), Generation::Legacy);
        admitted += 1;
    }
    assert_eq!(admitted, 7);
}

#[test]
fn params_are_read_from_the_examples() {
    let find = |text: &'static str, needle: &str| lines(text).find(|(_, line)| line.contains(needle)).unwrap().1;
    let params = |line| *request(line).params().unwrap();

    let initialize = params(find(LEGACY, r#""id":1,"method""#)).initialize().unwrap();
    assert_eq!(initialize.protocol_version, "2025-11-25");
    assert!(initialize.capabilities.elicitation_form && initialize.capabilities.elicitation_tasks);
    assert_eq!(
        initialize.client_info.unwrap().get(),
        r#"{"name":"acme-cli","version":"0.3.0"}"#
    );

    let call = params(find(LEGACY, r#""id":3,"method""#));
    assert_eq!(call.call_tool().unwrap().name, "render_video");
    assert_eq!(
        call.call_tool().unwrap().arguments.unwrap().get(),
        r#"{"project":"p-17"}"#
    );
    assert_eq!(call.task_metadata().unwrap().unwrap().ttl, Some(7_200_000));
    assert_eq!(
        call.meta().unwrap().progress_token().unwrap().unwrap().as_json(),
        "\"pt-3\""
    );

    assert_eq!(
        params(find(LEGACY, "tasks/list")).cursor().unwrap().unwrap(),
        "b2Zmc2V0OjUw"
    );
    assert_eq!(
        params(find(LEGACY, "tasks/result")).task_id().unwrap(),
        "tsk_9Zr4vQ2mXk7Lw0aB"
    );

    let update = params(find(MODERN, "tasks/update")).update_task().unwrap();
    assert_eq!(update.task_id, "tsk_4hC1nD8sPq6Zt2Yx");
    let answers: Vec<_> = update
        .input_responses
        .iter()
        .map(|(key, raw)| (key.as_ref(), raw.get()))
        .collect();
    assert_eq!(
        answers,
        [("in-1", r#"{"action":"accept","content":{"licence":"personal"}}"#)]
    );

    let retry = params(find(MODERN, r#""id":41,"method""#)).call_tool().unwrap();
    assert_eq!(retry.request_state.unwrap(), "v1.k7.9f3b…mac");
    assert_eq!(retry.input_responses[0].0, "who");

    let Ok(Message::Notification(cancel)) = Message::parse(find(MODERN, "notifications/cancelled").as_bytes()) else {
        panic!()
    };
    let cancel = cancel.params().unwrap().cancelled().unwrap();
    assert_eq!(
        (cancel.request_id.as_json(), cancel.reason.as_deref()),
        ("61", Some("user pressed ^C"))
    );

    let Ok(Message::Notification(progress)) = Message::parse(find(LEGACY, "notifications/progress").as_bytes()) else {
        panic!()
    };
    let params = progress.params().unwrap();
    assert_eq!(params.meta().unwrap().related_task().unwrap(), "tsk_9Zr4vQ2mXk7Lw0aB");
    let progress = params.progress().unwrap();
    assert_eq!(
        (progress.token.as_json(), progress.progress, progress.total),
        ("\"pt-3\"", 60.0, Some(100.0))
    );
}
