//! The JSON-RPC error object of a response.

use crate::{RequestError, RpcFailure, address::masked_address, error::excerpt};
use longhaul_core::Json;
use longhaul_wire::CONNECTION_LOST;
use serde::Deserialize;
use serde_json::value::RawValue;

/// JSON-RPC's code for what failed inside.
pub(crate) const INTERNAL_ERROR: i32 = -32603;

/// Whether it says that nobody knows how the call has ended: Longhaul's word for that.
pub(crate) fn leaves_outcome_unknown(failure: &RpcFailure) -> bool {
    has_reason(failure, "interrupted")
}

/// The error of a request that the server at `address` has answered with `failure`.
pub(crate) fn error_of(failure: RpcFailure, address: &str) -> RequestError {
    match has_reason(&failure, CONNECTION_LOST) {
        // The relay is there, and the server is not.
        true => RequestError::Unreachable {
            address: masked_address(address),
            reason: "its server has exited before it answered".to_owned(),
            stderr: None,
            connected: true,
        },
        false => RequestError::Rpc(failure),
    }
}

fn has_reason(failure: &RpcFailure, reason: &str) -> bool {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        reason: std::borrow::Cow<'a, str>,
    }
    let data = failure.data.as_ref();
    let data = data.map(|data| serde_json::from_str::<Data<'_>>(data.as_str()));
    matches!(data, Some(Ok(data)) if data.reason == reason)
}

/// Reads a JSON-RPC error object.
pub(crate) fn read_failure(raw: &RawValue) -> Result<RpcFailure, RequestError> {
    #[derive(Deserialize)]
    struct Members<'a> {
        #[serde(borrow, default)]
        code: Option<&'a RawValue>,
        #[serde(borrow, default)]
        message: Option<&'a RawValue>,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let invalid = |what: String| RequestError::Invalid(what);
    if !raw.get().starts_with('{') {
        return Err(invalid(format!(
            "its error must be an object, and is {}",
            excerpt(raw.get())
        )));
    }
    let members: Members<'_> =
        serde_json::from_str(raw.get()).map_err(|error| invalid(format!("its error cannot be read: {error}")))?;
    let code = members
        .code
        .ok_or_else(|| invalid("its error has no `code`".to_owned()))?;
    let wrong = || {
        invalid(format!(
            "the `code` of its error must be a whole number, and is {}",
            excerpt(code.get())
        ))
    };
    let code = match code.get().parse::<i64>() {
        Ok(code) => i32::try_from(code).unwrap_or(INTERNAL_ERROR),
        // JSON makes no difference between -32000 and -32000.0.
        Err(_) => whole(code.get()).ok_or_else(wrong)?,
    };
    let message = members.message.map(|message| {
        serde_json::from_str::<String>(message.get()).map_err(|_| {
            let shown = excerpt(message.get());
            invalid(format!("the `message` of its error must be a string, and is {shown}"))
        })
    });
    Ok(RpcFailure {
        code,
        message: message.transpose()?.unwrap_or_default().into(),
        data: members.data.map(Json::from),
    })
}

/// The whole number that is written with a point or an exponent. MCP has no codes beyond 32 bits, so such a code is an internal error.
fn whole(number: &str) -> Option<i32> {
    let number: f64 = serde_json::from_str(number).ok()?;
    if number.fract() != 0.0 {
        return None;
    }
    let is_code = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the bounds")]
    Some(if is_code { number as i32 } else { INTERNAL_ERROR })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(error: &str) -> Result<RpcFailure, String> {
        let raw = RawValue::from_string(error.to_owned()).unwrap();
        read_failure(&raw).map_err(|error| match error {
            RequestError::Invalid(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_code_is_a_whole_number_however_it_is_written() {
        for (written, code) in [
            ("-32000", -32000),
            ("-32000.0", -32000),
            ("-3.2e4", -32000),
            ("99999999999", INTERNAL_ERROR),
            ("1e300", INTERNAL_ERROR),
        ] {
            let failure = read(&format!(
                r#"{{"code": {written}, "message": "a\u0062", "data": [1.10]}}"#
            ))
            .unwrap();
            assert_eq!((failure.code, &*failure.message), (code, "ab"), "{written}");
            assert_eq!(failure.data.unwrap().as_str(), "[1.10]");
        }
        assert_eq!(&*read(r#"{"code": 1}"#).unwrap().message, "");
    }

    #[test]
    fn what_is_wrong_with_an_error_is_said_in_words_of_the_protocol() {
        for (error, why) in [
            (r#""broken""#, r#"its error must be an object, and is "broken""#),
            (
                "[-32000, \"x\"]",
                r#"its error must be an object, and is [-32000, "x"]"#,
            ),
            ("{}", "its error has no `code`"),
            (
                r#"{"code": "E1"}"#,
                r#"the `code` of its error must be a whole number, and is "E1""#,
            ),
            (
                r#"{"code": 1.5}"#,
                "the `code` of its error must be a whole number, and is 1.5",
            ),
            (
                r#"{"code": 1, "message": {}}"#,
                "the `message` of its error must be a string, and is {}",
            ),
        ] {
            assert_eq!(read(error).unwrap_err(), why);
        }
    }
}
