//! Batches: arrays of JSON-RPC messages, which revision 2025-03-26 has and no other one.

use crate::error::RpcError;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// The messages of a batch, in order, not yet read.
///
/// ```
/// use longhaul_wire::Batch;
/// let batch = Batch::parse(b"[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}, 1]").unwrap();
/// assert_eq!(batch.members().map(<[u8]>::len).collect::<Vec<_>>(), [54, 1]);
/// ```
#[derive(Debug)]
pub struct Batch<'a>(Vec<&'a RawValue>);

impl<'a> Batch<'a> {
    /// The most messages of one batch.
    pub const MOST: usize = 100;

    /// Whether these bytes begin as a batch does, and no other message.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.trim_ascii_start().first() == Some(&b'[')
    }

    /// Reads a batch. What its members are is found when they are read.
    ///
    /// # Errors
    /// −32700 for what is not JSON, −32600 for a batch that is empty or longer than [`Self::MOST`], both with HTTP status 400.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RpcError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|flaw| RpcError::parse(format!("Not UTF-8 at byte {}", flaw.valid_up_to())))?;
        let Members(members) =
            serde_json::from_str(text).map_err(|error| RpcError::parse(format!("Not JSON: {error}")))?;
        match members.len() {
            0 => Err(RpcError::invalid_request("A batch has at least one message")),
            1..=Self::MOST => Ok(Self(members)),
            _ => Err(RpcError::invalid_request(format!(
                "A batch has at most {} messages: send the others in another one",
                Self::MOST
            ))),
        }
    }

    /// Its messages.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a, '_> {
        self.0.iter().map(|member| member.get().as_bytes())
    }
}

/// As many as may be, and one more if there are too many.
struct Members<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Array;
        impl<'de> Visitor<'de> for Array {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = array.next_element::<&'de RawValue>()? {
                    if members.len() <= Batch::MOST {
                        members.push(member);
                    }
                }
                Ok(members)
            }
        }
        from.deserialize_seq(Array).map(Members).map_err(D::Error::custom)
    }
}
