//! Whatever comes in, the answer is a clear error, at a bounded cost.

use longhaul_wire::{
    Generation, InputRequest, MAX_DEPTH, Message, Params, Rejection, RemoteError, RpcError,
    legacy::client_task::ClientTask,
};
use proptest::prelude::*;
use serde_json::json;

/// Code, HTTP status and id of the refusal.
fn refused(bytes: &[u8]) -> (i64, u16, Option<String>) {
    let Err(Rejection { id, error }) = Message::parse(bytes) else {
        panic!("accepted: {}", String::from_utf8_lossy(bytes));
    };
    (error.code(), error.status(), id.map(|id| id.as_json().to_owned()))
}

#[test]
fn a_million_brackets_use_no_stack() {
    const DEEP: usize = 1_000_000;
    // On a stack far smaller than a recursion that deep would need.
    let small = std::thread::Builder::new().stack_size(128 * 1024);
    let done = small.spawn(|| {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let nested = format!("{}{inner}{}", open.repeat(DEEP), close.repeat(DEEP));
            let whole = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"x":{nested}}}}}"#);
            assert_eq!(refused(whole.as_bytes()), (-32600, 400, Some("7".into())));
            let unread = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","y":{nested}}}"#);
            assert_eq!(refused(unread.as_bytes()), (-32600, 400, Some("7".into())));
            let cut = format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"x":{}"#,
                open.repeat(DEEP)
            );
            assert_eq!(refused(cut.as_bytes()), (-32700, 400, Some("7".into())));
            // Read without the envelope in front, too.
            let raw = serde_json::from_str(&format!(r#"{{"x":{nested},"taskId":"t"}}"#))
                .map(|raw: Box<serde_json::value::RawValue>| raw);
            assert_eq!(Params::read(Some(&raw.unwrap())).unwrap().task_id().unwrap(), "t");
        }
        assert_eq!(refused("[".repeat(DEEP).as_bytes()).0, -32600);
        assert_eq!(refused("{\"a\":".repeat(DEEP).as_bytes()).0, -32700);
    });
    done.unwrap().join().unwrap();
}

#[test]
fn the_depth_limit_is_exact() {
    let message = |depth: usize| {
        // The message itself and its params are two levels.
        let nested = format!("{}{}", "[".repeat(depth - 2), "]".repeat(depth - 2));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"x":{nested}}}}}"#)
    };
    let deepest = message(MAX_DEPTH);
    let Ok(Message::Request(request)) = Message::parse(deepest.as_bytes()) else {
        panic!()
    };
    // What passes can be parsed whole by what stands behind us.
    serde_json::from_str::<serde_json::Value>(request.raw_params().unwrap().get()).unwrap();
    assert_eq!(
        refused(message(MAX_DEPTH + 1).as_bytes()),
        (-32600, 400, Some("1".into()))
    );
}

#[test]
fn invalid_messages_have_their_error_and_their_id() {
    let id = |text: &str| Some(text.to_owned());
    for (text, code, found) in [
        ("", -32700, None),
        ("   ", -32700, None),
        ("{", -32700, None),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m""#, -32700, id("5")),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m"}x"#, -32700, id("5")),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":01}}"#,
            -32700,
            id("5"),
        ),
        ("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"a\nb\"}", -32700, id("5")),
        ("5", -32600, None),
        ("null", -32600, None),
        ("\"x\"", -32600, None),
        ("[]", -32600, None),
        (r#" [{"jsonrpc":"2.0","id":5,"method":"m"}]"#, -32600, None),
        ("{}", -32600, None),
        (r#"{"id":5,"method":"m"}"#, -32600, id("5")),
        (r#"{"jsonrpc":"1.0","id":"a","method":"m"}"#, -32600, id("\"a\"")),
        (r#"{"jsonrpc":2.0,"id":"a","method":"m"}"#, -32600, id("\"a\"")),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":1e3,"method":"m"}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":5,"method":7}"#, -32600, id("5")),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m","params":[]}"#, -32600, id("5")),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"m","params":null}"#,
            -32600,
            id("5"),
        ),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m","method":"n"}"#, -32600, id("5")),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m","id":6}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m","\u0069d":6}"#, -32600, None),
        (
            r#"{"jsonrpc":"2.0","params":{},"params":{},"method":"m","id":5}"#,
            -32600,
            id("5"),
        ),
        (r#"{"jsonrpc":"2.0","id":5,"method":"m","result":{}}"#, -32600, id("5")),
        (r#"{"jsonrpc":"2.0","id":5,"result":{},"error":{}}"#, -32600, id("5")),
        (r#"{"jsonrpc":"2.0","id":5}"#, -32600, id("5")),
        (r#"{"jsonrpc":"2.0","result":{}}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, -32600, None),
    ] {
        assert_eq!(refused(text.as_bytes()), (code, 400, found), "{text}");
    }
}

#[test]
fn invalid_utf8_is_not_json_wherever_it_stands() {
    let message = |place: usize| {
        let text = br#"{"jsonrpc":"2.0","id":9,"method":"m","params":{"a":"b"},"k":1}"#;
        let mut bytes = text.to_vec();
        bytes.insert(place, 0xff);
        bytes
    };
    let id_read = 24; // the comma behind the id's value is seen
    for place in 0..62 {
        let (code, status, id) = refused(&message(place));
        assert_eq!((code, status), (-32700, 400));
        if place >= id_read {
            assert_eq!(id.as_deref(), Some("9"), "at {place}");
        }
    }
}

#[test]
fn ids_are_echoed_byte_for_byte() {
    for id in [
        "0",
        "-7",
        "123456789012345678901234567890",
        "\"\"",
        r#""a\u0062\/""#,
        "\"é\"",
    ] {
        let text = format!(r#" {{ "method" : "m", "unknown": [{{}}], "id" :{id} , "jsonrpc":"2.0"}}"#);
        let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else {
            panic!("{text}")
        };
        assert_eq!(request.id.as_json(), id);
        assert_eq!(request.raw_params().map(|raw| raw.get()), None);
    }
    let of = |text: &'static str| {
        let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else {
            panic!()
        };
        request.id
    };
    let (plain, escaped) = (
        of(r#"{"jsonrpc":"2.0","id":"ab","method":"m"}"#),
        of(r#"{"jsonrpc":"2.0","id":"\u0061b","method":"m"}"#),
    );
    assert_eq!(plain, escaped);
    assert_eq!(plain.canonical(), escaped.canonical());
    assert_ne!(
        of(r#"{"jsonrpc":"2.0","id":"1","method":"m"}"#),
        of(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#)
    );
}

#[test]
fn escaped_names_and_methods_are_decoded() {
    let text = r#"{"\u006asonrpc":"2.0","id":1,"meth\u006fd":"tools\/call","p\u0061rams":{"n\u0061me":"x\ty"}}"#;
    let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else {
        panic!()
    };
    assert_eq!(request.method, "tools/call");
    assert_eq!(request.params().unwrap().call_tool().unwrap().name, "x\ty");
}

#[test]
fn an_error_has_a_bounded_length() {
    // Three bytes a character, so that a cut can fall within one; a control character takes six bytes in JSON.
    for long in ["x".repeat(1 << 20), "€".repeat(1 << 19), "\u{1}".repeat(1 << 20)] {
        let errors = [
            RpcError::method_not_found(Generation::Legacy, &long),
            RpcError::unknown_tool(&long, Some(&long)),
            RpcError::invalid_params(format!("params holds {long} twice")),
            RpcError::header_mismatch(long.clone()),
            RpcError::unsupported_version(&long),
            RpcError::resource_not_found(Generation::Modern, &long),
        ];
        for error in errors {
            let mut written = String::new();
            error.write_object(&mut written);
            let object: serde_json::Value = serde_json::from_str(&written).unwrap();
            assert!(written.len() < 16 * 1024, "{} bytes", written.len());
            assert!(object.to_string().contains("more bytes)"), "{object}");
        }
    }
    let own = RpcError::application(1, "x".repeat(5_000)).unwrap();
    assert_eq!(own.message().len(), 5_000);
}

/// The bounds are where they say, and one more is refused (above).
#[test]
fn a_thousand_answers_and_subscriptions_are_accepted() {
    let ids: Vec<String> = (0..1_000).map(|nth| format!("t{nth}")).collect();
    let answers: serde_json::Map<_, _> = ids.iter().map(|key| (key.clone(), json!({}))).collect();
    let params = json!({"taskId": "t", "inputResponses": answers,
        "notifications": {"taskIds": ids, "resourceSubscriptions": ids}});
    let raw = serde_json::value::to_raw_value(&params).unwrap();
    let params = Params::read(Some(&raw)).unwrap();
    assert_eq!(params.update_task().unwrap().input_responses.len(), 1_000);
    let listen = params.listen().unwrap();
    assert_eq!(
        (listen.task_ids.len(), listen.resource_subscriptions.len()),
        (1_000, 1_000)
    );
}

#[test]
fn a_malformed_meta_is_refused_only_if_it_is_read() {
    fn meta(text: &str) -> Result<longhaul_wire::Meta<'_>, longhaul_wire::RpcError> {
        longhaul_wire::Meta::read(Some(serde_json::from_str(text).unwrap()))
    }
    for text in ["[]", "7", "\"x\""] {
        let error = meta(text).unwrap_err();
        assert_eq!((error.code(), error.status()), (-32602, 400), "{text}");
    }
    let twice = meta(r#"{"progressToken":1,"progressToken":2}"#).unwrap_err();
    assert_eq!(twice.message(), "_meta holds progressToken twice");
    let odd = meta(r#"{"io.modelcontextprotocol/logLevel":"loud","progressToken":{},"io.modelcontextprotocol/related-task":5,"dev.longhaul/idempotency-key":""}"#).unwrap();
    assert!(odd.log_level().unwrap_err().message().contains("debug, info"));
    assert_eq!(odd.progress_token().unwrap_err().code(), -32602);
    assert_eq!(odd.idempotency_key().unwrap_err().code(), -32602);
    let named = |length| format!(r#"{{"dev.longhaul/idempotency-key":"{}"}}"#, "k".repeat(length));
    let (short, long) = (named(255), named(256));
    assert!(meta(&short).unwrap().idempotency_key().is_ok());
    let long = meta(&long).unwrap().idempotency_key().unwrap_err();
    assert!(long.message().contains("1 to 255 bytes"), "{}", long.message());
    for (text, priority) in [
        ("0", Some(0)),
        ("9", Some(9)),
        ("10", None),
        ("-1", None),
        ("1.0", None),
        ("\"5\"", None),
        ("null", None),
    ] {
        let text = format!(r#"{{"dev.longhaul/priority":{text}}}"#);
        let read = meta(&text).unwrap().priority().map_err(|error| error.code());
        let expected = priority.map(longhaul_core::Priority::new).ok_or(-32602);
        assert_eq!(read, expected, "{text}");
    }
    assert_eq!(odd.related_task(), None);
    assert!(odd.protocol_version().unwrap().is_none() && odd.client_capabilities().unwrap().is_none());
}

#[test]
fn unknown_members_of_meta_are_passed_on_unchanged() {
    let meta = |text| longhaul_wire::Meta::read(Some(serde_json::from_str(text).unwrap())).unwrap();
    let all = r#"{"com.example/a": {"n": 1.50},"progressToken":1,"traceparent":"t","com.example/a":2,"":null}"#;
    let others: Vec<_> = meta(all)
        .unknown_members()
        .into_iter()
        .map(|(key, raw)| (key, raw.get()))
        .collect();
    let expected = [
        ("com.example/a", r#"{"n": 1.50}"#),
        ("com.example/a", "2"),
        ("", "null"),
    ];
    assert_eq!(others, expected.map(|(key, raw)| (key.to_owned(), raw)));
    // Where they are found does not depend on what is around them.
    let whole = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"name":"t","_meta":{all}}}}}"#);
    let Ok(Message::Request(request)) = Message::parse(whole.as_bytes()) else {
        panic!()
    };
    let params = Params::read(request.raw_params()).unwrap();
    for meta in [request.params().unwrap().meta().unwrap(), params.meta().unwrap()] {
        let keys: Vec<_> = meta.unknown_members().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, expected.map(|(key, _)| key));
    }
    assert!(meta(r#"{"progressToken":1}"#).unknown_members().is_empty());
    assert!(longhaul_wire::Meta::default().unknown_members().is_empty());
}

/// They are only advice: what is malformed is left out, and the others are read.
#[test]
fn related_task_ids_are_read_within_limits() {
    let read = |value: serde_json::Value| {
        let meta = json!({"io.modelcontextprotocol/relatedTaskIds": value}).to_string();
        let raw: Box<serde_json::value::RawValue> = serde_json::from_str(&meta).unwrap();
        let meta = longhaul_wire::Meta::read(Some(&raw)).unwrap();
        assert!(meta.unknown_members().is_empty());
        meta.related_task_ids()
    };
    assert_eq!(read(json!(["a", "b\n"])), ["a", "b\n"]);
    let (longest, longer) = ("i".repeat(64), "i".repeat(65));
    let listed = json!([1, "a", null, "", longer, ["b"], longest, {}]);
    assert_eq!(read(listed), ["a".to_owned(), longest]);
    for malformed in [json!("a"), json!({"a": "b"}), json!(null), json!(1)] {
        assert!(read(malformed).is_empty());
    }
    let many: Vec<String> = (0..1_000).map(|id| id.to_string()).collect();
    assert_eq!(read(json!(many)), many[..100]);
}

const QUESTIONS: [&str; 3] = [
    r#"{"method":"elicitation/create","params":{"requestedSchema":{"required":["a"]}}}"#,
    r#"{"method":"sampling/createMessage","params":{}}"#,
    r#"{"method":"roots/list"}"#,
];

/// Everything a server does with a message before it acts on it.
pub(crate) fn process(bytes: &[u8]) {
    let params = match Message::parse(bytes) {
        Ok(Message::Request(request)) => request.raw_params(),
        Ok(Message::Notification(notification)) => notification.raw_params(),
        Ok(Message::Response(response)) => Some(response.outcome.unwrap_or_else(|error| error)),
        Err(refusal) => {
            let mut out = String::new();
            refusal.write(&mut out);
            serde_json::from_str::<serde_json::Value>(&out).unwrap();
            return;
        }
    };
    if let Some(raw) = params {
        for question in QUESTIONS {
            let _ = InputRequest::read(question).unwrap().check(raw);
        }
        let _ = (
            ClientTask::created(raw),
            ClientTask::read(raw),
            InputRequest::read(raw.get()),
        );
        let _ = RemoteError::read(raw);
    }
    let Ok(params) = Params::read(params) else { return };
    let _ = (
        params.initialize(),
        params.call_tool(),
        params.task_metadata(),
        params.task_id(),
        params.update_task(),
    );
    let _ = (params.cursor(), params.uri(), params.cancelled(), params.progress());
    let _ = (params.get_prompt(), params.read_resource(), params.complete());
    let _ = (params.set_level(), params.listen());
    let Ok(meta) = params.meta() else { return };
    let _ = (
        meta.protocol_version(),
        meta.client_capabilities(),
        meta.log_level(),
        meta.progress_token(),
    );
    let _ = (meta.related_task(), meta.idempotency_key());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        process(&bytes);
    }

    /// Bytes that are nearly a message get further into the parser than random ones.
    #[test]
    fn no_damaged_message_panics(
        nth in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..4),
    ) {
        let lines: Vec<_> = crate::examples::lines(crate::examples::LEGACY).chain(crate::examples::lines(crate::examples::MODERN)).collect();
        let mut bytes = nth.get(&lines).1.as_bytes().to_vec();
        for (place, byte, kind) in damage {
            let place = place.index(bytes.len());
            match kind {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                _ => bytes.truncate(place.max(1)),
            }
        }
        process(&bytes);
    }
}
