//! Any headers around a message that names something.

use super::CHANCES;
use bolero::TypeGenerator;
use longhaul_wire::{
    AdmissionRules, Headers, Message, MessageTransport, RpcError, SessionState, admit,
    header::{decode_value, encode_value},
};
use serde_json::json;

#[test]
fn headers() {
    bolero::check!(name = "headers")
        .with_iterations(CHANCES)
        .with_type::<Case>()
        .for_each(|case| {
            case.are_picked();
            case.are_held_against_the_body();
        });
}

#[derive(Debug, Clone, TypeGenerator)]
struct Case {
    headers: Vec<(Header, Content)>,
    method: Method,
    named: String,
    strict: bool,
}

#[derive(Debug, Clone, Copy, TypeGenerator)]
enum Header {
    Version,
    Method,
    Name,
    Session,
    NameShouted,
    Other,
}

#[derive(Debug, Clone, TypeGenerator)]
enum Content {
    /// What the body says.
    Fitting,
    /// The same, wrapped although it need not be.
    FittingWrapped,
    Wrapped(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, Copy, TypeGenerator)]
enum Method {
    CallTool,
    ReadResource,
    GetTask,
}

impl Header {
    fn text(self) -> &'static str {
        match self {
            Self::Version => "MCP-Protocol-Version",
            Self::Method => "mcp-method",
            Self::Name => "Mcp-Name",
            Self::Session => "Mcp-Session-Id",
            Self::NameShouted => "MCP-NAME",
            Self::Other => "Accept",
        }
    }
}

impl Method {
    /// Its name, and the member that is mirrored.
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::CallTool => ("tools/call", "name"),
            Self::ReadResource => ("resources/read", "uri"),
            Self::GetTask => ("tasks/get", "taskId"),
        }
    }
}

impl Case {
    fn value(&self, name: Header, content: &Content) -> Vec<u8> {
        let fitting = match name {
            Header::Version => "2026-07-28",
            Header::Method => self.method.text().0,
            _ => &self.named,
        };
        match content {
            Content::Fitting => encode_value(fitting).into_owned().into_bytes(),
            Content::FittingWrapped => wrapped(fitting),
            Content::Wrapped(text) => wrapped(text),
            Content::Bytes(bytes) => bytes.clone(),
        }
    }

    fn written(&self) -> Vec<(&'static str, Vec<u8>)> {
        let write = |(name, content): &(Header, Content)| (name.text(), self.value(*name, content));
        self.headers.iter().map(write).collect()
    }

    /// The first value of a header, by other means than ours; `Err` if there are two.
    fn only<'a>(written: &'a [(&'static str, Vec<u8>)], name: &str) -> Result<Option<&'a [u8]>, ()> {
        let mut found = written.iter().filter(|(known, _)| known.to_lowercase() == name);
        let first = found.next().map(|(_, value)| value.trim_ascii());
        if found.next().is_some() { Err(()) } else { Ok(first) }
    }

    fn are_picked(&self) {
        let written = self.written();
        let picked = collect(&written);
        let names = ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"];
        match names.map(|name| Self::only(&written, name)) {
            [Ok(version), Ok(method), Ok(name), Ok(session)] => {
                let picked = picked.unwrap();
                assert_eq!(picked.protocol_version, version);
                assert_eq!(picked.method, method);
                assert_eq!(picked.name, name);
                assert_eq!(picked.session_id, session);
            }
            _ => assert_eq!(picked.unwrap_err().code(), -32020),
        }
        for (_, value) in &written {
            match decode_value(value) {
                Ok(text) => assert_eq!(decode_value(encode_value(&text).as_bytes()).unwrap(), text),
                Err(error) => assert_eq!((error.code(), error.status()), (-32020, 400)),
            }
        }
    }

    /// A modern request gets in only if each header says what the body says.
    fn are_held_against_the_body(&self) {
        let (method, member) = self.method.text();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {
            member: self.named,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            },
        }})
        .to_string();
        let Ok(Message::Request(request)) = Message::parse(body.as_bytes()) else {
            panic!("{body}")
        };
        let written = self.written();
        let Ok(headers) = collect(&written) else { return };
        let name_fits = match headers.name {
            Some(value) => decode_value(value).is_ok_and(|text| text == self.named),
            None => matches!(self.method, Method::GetTask) && !self.strict,
        };
        let fits =
            headers.protocol_version == Some(b"2026-07-28") && headers.method == Some(method.as_bytes()) && name_fits;
        let transport = MessageTransport::Http {
            headers,
            session: SessionState::None,
            sessionless: true,
        };
        let rules = AdmissionRules {
            strict_headers: self.strict,
            serves: |_| true,
        };
        match admit(&request, &transport, &rules) {
            Ok(_) => assert!(fits),
            Err(error) => {
                assert!(!fits, "{error}");
                assert_eq!((error.code(), error.status()), (-32020, 400));
            }
        }
    }
}

fn wrapped(text: &str) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    format!("=?base64?{}?=", STANDARD.encode(text)).into_bytes()
}

fn collect<'a>(written: &'a [(&'static str, Vec<u8>)]) -> Result<Headers<'a>, RpcError> {
    Headers::collect(written.iter().map(|(name, value)| (*name, value.as_slice())))
}
