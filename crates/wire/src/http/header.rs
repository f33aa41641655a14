//! The HTTP headers that repeat parts of a message, and the check that they agree with it. The headers that repeat arguments are
//! checked by [`ParamHeaders`](crate::ParamHeaders).

use crate::{
    params::Params,
    protocol::{Generation, Method, NameSource, RpcError},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::borrow::Cow;

/// The prefix of a header that repeats an argument.
pub(crate) const PARAM_PREFIX: &str = "Mcp-Param-";
/// Wraps the base64 of a value that is not plain ASCII.
const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// The MCP headers of an HTTP request: values as received, surrounding blanks stripped.
#[derive(Debug, Clone, Default)]
pub struct Headers<'a> {
    /// `MCP-Protocol-Version`
    pub protocol_version: Option<&'a [u8]>,
    /// `Mcp-Method`
    pub method: Option<&'a [u8]>,
    /// `Mcp-Name`
    pub name: Option<&'a [u8]>,
    /// `Mcp-Session-Id`
    pub session_id: Option<&'a [u8]>,
    /// Every `Mcp-Param-…` header, names as received. Which of them mean something depends on the tool that is called.
    pub params: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Headers<'a> {
    /// Collects the MCP headers of a request. Names are compared without regard to case.
    ///
    /// # Errors
    /// −32020/400 if one of them occurs twice, since an intermediary may have used the other value. Repeated `Mcp-Param-…` headers
    /// are collected, and refused by [`ParamHeaders::check`](crate::ParamHeaders::check) if the tool uses them.
    pub fn collect(all: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, RpcError> {
        let mut found = Self::default();
        for (name, value) in all {
            let (slot, known) = if name.eq_ignore_ascii_case("mcp-protocol-version") {
                (&mut found.protocol_version, "MCP-Protocol-Version")
            } else if name.eq_ignore_ascii_case("mcp-method") {
                (&mut found.method, "Mcp-Method")
            } else if name.eq_ignore_ascii_case("mcp-name") {
                (&mut found.name, "Mcp-Name")
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                (&mut found.session_id, "Mcp-Session-Id")
            } else {
                if is_param(name) {
                    found.params.push((name, value.trim_ascii()));
                }
                continue;
            };
            if slot.replace(value.trim_ascii()).is_some() {
                return Err(RpcError::header_mismatch(format!(
                    "Header {known} occurs more than once"
                )));
            }
        }
        Ok(found)
    }

    /// The values of the `Mcp-Param-…` header `name`.
    pub(crate) fn params(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.params
            .iter()
            .filter_map(move |(known, value)| known.eq_ignore_ascii_case(name).then_some(*value))
    }

    /// Checks that `MCP-Protocol-Version` is present and equals the version in the body. If it is not there, the error names all required headers of a
    /// request of `method` that are missing, so that who writes one by hand learns of them at once.
    pub(crate) fn check_version(&self, body: &str, method: Option<&str>) -> Result<(), RpcError> {
        match self.protocol_version {
            None => Err(RpcError::header_mismatch(self.missing(method))),
            Some(header) if header == body.as_bytes() => Ok(()),
            Some(_) => Err(RpcError::header_mismatch(
                "Header MCP-Protocol-Version does not equal the protocolVersion in _meta",
            )),
        }
    }

    fn missing(&self, method: Option<&str>) -> String {
        let mut missing = vec!["MCP-Protocol-Version"];
        if self.method.is_none() && method.is_some() {
            missing.push("Mcp-Method");
        }
        let known = method.and_then(|method| Method::parse(method, Generation::Modern));
        if self.name.is_none()
            && known.is_some_and(|known| known.name_source().is_some() && !known.name_may_be_absent())
        {
            missing.push("Mcp-Name");
        }
        match *missing {
            [only] => format!("Header {only} is missing"),
            _ => format!("Headers are missing: {}", missing.join(", ")),
        }
    }

    /// Checks that `Mcp-Method` is present and equals the method in the body, case included.
    pub(crate) fn check_method(&self, body: &str) -> Result<(), RpcError> {
        match self.method {
            None => Err(RpcError::header_mismatch("Header Mcp-Method is missing")),
            Some(header) if header == body.as_bytes() => Ok(()),
            Some(_) => Err(RpcError::header_mismatch(
                "Header Mcp-Method does not equal the method in the body",
            )),
        }
    }

    /// Checks that `Mcp-Name` equals the param it repeats. For `tasks/*` it may be absent unless `strict`. A body
    /// without that param passes here: params are validated later.
    pub(crate) fn check_name(&self, method: Method, params: &Params<'_>, strict: bool) -> Result<(), RpcError> {
        let Some(source) = method.name_source() else {
            return Ok(());
        };
        let Some(header) = self.name else {
            return if method.name_may_be_absent() && !strict {
                Ok(())
            } else {
                Err(RpcError::header_mismatch("Header Mcp-Name is missing"))
            };
        };
        let header = decode_value(header)?;
        match params.mirrored(source) {
            Some(body) if body != header => Err(RpcError::header_mismatch(match source {
                NameSource::Name => "Mcp-Name does not equal params.name",
                NameSource::Uri => "Mcp-Name does not equal params.uri",
                NameSource::TaskId => "Mcp-Name does not equal params.taskId",
            })),
            _ => Ok(()),
        }
    }
}

/// Decodes a header value: unwraps the base64 form, takes everything else literally.
///
/// # Errors
/// −32020/400 if the value is not visible ASCII, or its wrapped form is not base64 of UTF-8.
pub fn decode_value(value: &[u8]) -> Result<Cow<'_, str>, RpcError> {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) || *byte == b'\t';
    let text = std::str::from_utf8(value)
        .ok()
        .filter(|_| value.iter().all(plain))
        .ok_or_else(|| {
            RpcError::header_mismatch("A header value holds bytes outside ASCII: wrap it as =?base64?…?=")
        })?;
    let Some(wrapped) = unwrap_sentinel(text) else {
        return Ok(Cow::Borrowed(text));
    };
    STANDARD
        .decode(wrapped)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(Cow::Owned)
        .ok_or_else(|| RpcError::header_mismatch("A header value in =?base64?…?= is not base64 of UTF-8"))
}

/// Encodes `text` as a header value: unchanged if it is plain ASCII, else as wrapped base64.
///
/// ```
/// use longhaul_wire::header::encode_value;
/// assert_eq!(encode_value("render_video"), "render_video");
/// assert_eq!(encode_value("größe"), "=?base64?Z3LDtsOfZQ==?=");
/// ```
pub fn encode_value(text: &str) -> Cow<'_, str> {
    let visible = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let padded = text.starts_with(' ') || text.ends_with(' ');
    if visible && !padded && unwrap_sentinel(text).is_none() {
        return Cow::Borrowed(text);
    }
    let (start, end) = SENTINEL;
    Cow::Owned(format!("{start}{}{end}", STANDARD.encode(text)))
}

fn is_param(name: &str) -> bool {
    name.as_bytes()
        .get(..PARAM_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PARAM_PREFIX.as_bytes()))
}

fn unwrap_sentinel(text: &str) -> Option<&str> {
    text.strip_prefix(SENTINEL.0)?.strip_suffix(SENTINEL.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn header_values_round_trip(text in any::<String>()) {
            let encoded = encode_value(&text).into_owned();
            prop_assert!(encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            prop_assert_eq!(encoded.trim(), &encoded, "a proxy may strip blanks");
            prop_assert_eq!(decode_value(encoded.as_bytes()).unwrap(), text);
        }

        #[test]
        fn text_that_looks_wrapped_round_trips(inner in "[A-Za-z0-9+/=?]{0,12}") {
            let text = format!("=?base64?{inner}?=");
            let encoded = encode_value(&text).into_owned();
            prop_assert_eq!(decode_value(encoded.as_bytes()).unwrap(), text);
        }

        #[test]
        fn no_value_panics(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode_value(&value);
        }
    }

    #[test]
    fn surrounding_blanks_and_controls_are_wrapped() {
        for text in [" a", "a ", " ", "a\tb", "\u{7f}", "a\r\nMcp-Method: x"] {
            let encoded = encode_value(text).into_owned();
            assert!(encoded.starts_with("=?base64?"), "{text:?}");
            assert_eq!(decode_value(encoded.as_bytes()).unwrap(), text);
        }
        assert_eq!(encode_value("a b"), "a b");
    }

    #[test]
    fn an_incomplete_wrapper_is_literal() {
        for text in [
            "=?BASE64?YQ==?=",
            "=?base64?YQ==",
            "YQ==?=",
            "=?base64?=",
            "x=?base64?YQ==?=",
        ] {
            assert_eq!(decode_value(text.as_bytes()).unwrap(), text);
        }
        for bad in ["=?base64?YQ?=", "=?base64?Y!==?=", "=?base64?/w==?="] {
            assert_eq!(decode_value(bad.as_bytes()).unwrap_err().code(), -32020, "{bad}");
        }
        assert_eq!(decode_value(b"=?base64?aGk=?=").unwrap(), "hi");
        assert_eq!(decode_value("é".as_bytes()).unwrap_err().code(), -32020);
    }

    #[test]
    fn names_ignore_case_blanks_are_stripped_and_duplicates_refused() {
        let headers = Headers::collect([("MCP-Method", b" tools/call ".as_slice()), ("accept", b"x")]).unwrap();
        assert_eq!(headers.method, Some(b"tools/call".as_slice()));
        let twice = [("Mcp-Name", b"a".as_slice()), ("mcp-name", b"a".as_slice())];
        assert_eq!(Headers::collect(twice).unwrap_err().code(), -32020);
    }
}
