//! Invariant 7: the era of a message is decided by that message and what it names, never by what came before.

use longhaul_wire::{Era, Headers, LegacyPhase, MessageTransport, RpcError, SessionState, Version, detect_era};

const NONE: Option<&str> = None;
const MODERN_META: &str =
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn decided(method: &str, meta: &str, transport: &MessageTransport<'_>) -> String {
    let raw = serde_json::from_str(meta).unwrap();
    let era = longhaul_wire::Meta::read(Some(raw)).and_then(|meta| {
        detect_era(Some(method), &meta, transport).map(|era| match era {
            Era::Modern(modern) => format!("modern {}", modern.version.as_str()),
            Era::Legacy(LegacyPhase::Handshake) => "handshake".to_owned(),
            Era::Legacy(LegacyPhase::Session(version)) => format!("legacy {}", version.as_str()),
            Era::Legacy(LegacyPhase::Sessionless(version)) => format!("sessionless {}", version.as_str()),
        })
    });
    era.unwrap_or_else(|error: RpcError| format!("{}/{}", error.code(), error.status()))
}

fn http(
    version: Option<&'static str>,
    method: Option<&'static str>,
    session: SessionState,
    sessionless: bool,
) -> MessageTransport<'static> {
    let headers = Headers {
        protocol_version: version.map(str::as_bytes),
        method: method.map(str::as_bytes),
        ..Headers::default()
    };
    MessageTransport::Http {
        headers,
        session,
        sessionless,
    }
}

#[test]
fn invariant_7_era_is_decided_per_message() {
    use SessionState::{Gone, Live};
    let live = Live(Version::V2025_11_25);
    let old = Live(Version::V2025_06_18);
    let modern = Some("2026-07-28");
    let legacy = Some("2025-11-25");
    let unknown = Some("2031-01-01");
    let version = |version: &str| {
        format!(
            r#"{{"io.modelcontextprotocol/protocolVersion":{version},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#
        )
    };
    let (v999, v2025, number) = (version("\"v999.0.0\""), version("\"2025-11-25\""), version("2026"));
    let no_caps = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let bad_caps =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":7}"#;
    let get = Some("tasks/get");
    let table: &[(&str, &str, &str, MessageTransport<'_>, &str)] = &[
        // Rule 1: the body says so.
        (
            "modern",
            "tasks/get",
            MODERN_META,
            http(modern, get, SessionState::None, false),
            "modern 2026-07-28",
        ),
        (
            "a session changes nothing",
            "tasks/get",
            MODERN_META,
            http(modern, get, live, false),
            "modern 2026-07-28",
        ),
        (
            "nor does a dead one",
            "tasks/get",
            MODERN_META,
            http(modern, get, Gone, false),
            "modern 2026-07-28",
        ),
        (
            "initialize with modern meta is no handshake",
            "initialize",
            MODERN_META,
            http(modern, Some("initialize"), live, true),
            "modern 2026-07-28",
        ),
        (
            "capabilities missing",
            "tasks/get",
            no_caps,
            http(modern, get, SessionState::None, false),
            "-32602/400",
        ),
        (
            "before headers are looked at",
            "tasks/get",
            no_caps,
            http(NONE, NONE, SessionState::None, false),
            "-32602/400",
        ),
        (
            "capabilities garbled",
            "tasks/get",
            bad_caps,
            http(modern, get, SessionState::None, false),
            "-32602/400",
        ),
        (
            "version no string",
            "tasks/get",
            &number,
            http(modern, get, live, true),
            "-32602/400",
        ),
        (
            "version header missing",
            "tasks/get",
            MODERN_META,
            http(NONE, get, SessionState::None, false),
            "-32020/400",
        ),
        (
            "version header differs",
            "tasks/get",
            MODERN_META,
            http(legacy, get, SessionState::None, false),
            "-32020/400",
        ),
        (
            "differs from an unknown version too",
            "tasks/get",
            &v999,
            http(modern, get, SessionState::None, false),
            "-32020/400",
        ),
        (
            "unknown version",
            "tasks/get",
            &v999,
            http(Some("v999.0.0"), get, SessionState::None, false),
            "-32022/400",
        ),
        (
            "legacy version in modern shape",
            "tasks/get",
            &v2025,
            http(legacy, get, SessionState::None, false),
            "-32022/400",
        ),
        (
            "version before method header",
            "tasks/get",
            &v999,
            http(Some("v999.0.0"), NONE, SessionState::None, false),
            "-32022/400",
        ),
        (
            "method header missing",
            "tasks/get",
            MODERN_META,
            http(modern, NONE, SessionState::None, false),
            "-32020/400",
        ),
        (
            "method header differs",
            "tasks/get",
            MODERN_META,
            http(modern, Some("tools/call"), SessionState::None, false),
            "-32020/400",
        ),
        (
            "method header in other case",
            "tasks/get",
            MODERN_META,
            http(modern, Some("Tasks/Get"), SessionState::None, false),
            "-32020/400",
        ),
        // Rule 2: only the header says so.
        (
            "modern header, no meta",
            "tasks/get",
            "{}",
            http(modern, get, SessionState::None, false),
            "-32602/400",
        ),
        (
            "even with a session",
            "tasks/get",
            "{}",
            http(modern, NONE, live, true),
            "-32602/400",
        ),
        // Rule 3: the handshake.
        (
            "initialize",
            "initialize",
            "{}",
            http(NONE, NONE, SessionState::None, false),
            "handshake",
        ),
        (
            "initialize under a modern header",
            "initialize",
            "{}",
            http(modern, NONE, SessionState::None, false),
            "handshake",
        ),
        (
            "initialize under an unknown header",
            "initialize",
            "{}",
            http(unknown, NONE, SessionState::None, false),
            "handshake",
        ),
        (
            "initialize after a dead session",
            "initialize",
            "{}",
            http(legacy, NONE, Gone, false),
            "handshake",
        ),
        // Rule 4: what a handshake left.
        (
            "session",
            "tasks/get",
            "{}",
            http(legacy, NONE, live, false),
            "legacy 2025-11-25",
        ),
        (
            "session without a version header",
            "tasks/get",
            "{}",
            http(NONE, NONE, live, false),
            "legacy 2025-11-25",
        ),
        (
            "the session's version counts",
            "tasks/get",
            "{}",
            http(legacy, NONE, old, false),
            "legacy 2025-06-18",
        ),
        (
            "session, foreign meta",
            "tasks/get",
            r#"{"progressToken":1}"#,
            http(legacy, NONE, live, false),
            "legacy 2025-11-25",
        ),
        (
            "dead session",
            "tasks/get",
            "{}",
            http(legacy, NONE, Gone, true),
            "-32600/404",
        ),
        (
            "nothing at all, old clients served",
            "ping",
            "{}",
            http(NONE, NONE, SessionState::None, true),
            "sessionless 2025-03-26",
        ),
        (
            "a version and no session, such clients served",
            "tools/list",
            "{}",
            http(legacy, NONE, SessionState::None, true),
            "sessionless 2025-11-25",
        ),
        // Rule 5: nothing to go by.
        (
            "nothing at all",
            "ping",
            "{}",
            http(NONE, NONE, SessionState::None, false),
            "-32020/400",
        ),
        (
            "legacy header, no session",
            "ping",
            "{}",
            http(legacy, NONE, SessionState::None, false),
            "-32020/400",
        ),
        (
            "unknown header",
            "ping",
            "{}",
            http(unknown, NONE, SessionState::None, true),
            "-32022/400",
        ),
        (
            "unknown header in a session",
            "ping",
            "{}",
            http(unknown, NONE, live, true),
            "-32022/400",
        ),
        // The same on a byte stream, where no headers are.
        (
            "stdio modern",
            "tasks/get",
            MODERN_META,
            MessageTransport::Stdio { initialized: None },
            "modern 2026-07-28",
        ),
        (
            "stdio modern after a handshake",
            "tasks/get",
            MODERN_META,
            MessageTransport::Stdio {
                initialized: Some(Version::V2025_11_25),
            },
            "modern 2026-07-28",
        ),
        (
            "stdio unknown version",
            "tasks/get",
            &v999,
            MessageTransport::Stdio { initialized: None },
            "-32022/400",
        ),
        (
            "stdio handshake",
            "initialize",
            "{}",
            MessageTransport::Stdio { initialized: None },
            "handshake",
        ),
        (
            "stdio legacy",
            "tasks/get",
            "{}",
            MessageTransport::Stdio {
                initialized: Some(Version::V2025_11_25),
            },
            "legacy 2025-11-25",
        ),
        (
            "stdio ping before the handshake",
            "ping",
            "{}",
            MessageTransport::Stdio { initialized: None },
            "sessionless 2025-03-26",
        ),
        (
            "stdio before the handshake",
            "tasks/get",
            "{}",
            MessageTransport::Stdio { initialized: None },
            "-32600/400",
        ),
    ];
    for (what, method, meta, transport, expected) in table {
        assert_eq!(&decided(method, meta, transport), expected, "{what}");
    }
    // No memory: in any order, twice over, each decision is the same.
    for (what, method, meta, transport, expected) in table.iter().rev() {
        assert_eq!(&decided(method, meta, transport), expected, "{what}, again");
    }
}

#[test]
fn a_response_belongs_to_a_session() {
    let meta = longhaul_wire::Meta::default();
    let transport = http(
        Some("2025-11-25"),
        None,
        SessionState::Live(Version::V2025_11_25),
        false,
    );
    assert!(matches!(
        detect_era(None, &meta, &transport),
        Ok(Era::Legacy(LegacyPhase::Session(_)))
    ));
    let transport = http(None, None, SessionState::None, false);
    assert_eq!(detect_era(None, &meta, &transport).unwrap_err().code(), -32020);
}
