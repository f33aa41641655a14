//! JSON-RPC batches: arrays of messages. Only revision 2025-03-26 has them.

use crate::protocol::RpcError;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// The messages of a batch, in order, not yet parsed.
///
/// ```
/// use longhaul_wire::Batch;
/// let batch = Batch::parse(b"[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}, 1]").unwrap();
/// assert_eq!(batch.members().map(<[u8]>::len).collect::<Vec<_>>(), [54, 1]);
/// ```
#[derive(Debug)]
pub struct Batch<'a>(Vec<&'a RawValue>);

impl<'a> Batch<'a> {
    /// The largest number of messages in a batch.
    pub const MAX_MESSAGES: usize = 100;

    /// Whether these bytes begin with `[`, as only a batch does.
    pub fn is_batch(bytes: &[u8]) -> bool {
        bytes.trim_ascii_start().first() == Some(&b'[')
    }

    /// Splits a batch into its messages, which are not parsed yet.
    ///
    /// # Errors
    /// −32700 for what is not JSON, −32600 for a batch that is empty or longer than [`Self::MAX_MESSAGES`], both with HTTP status 400.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RpcError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| RpcError::parse(format!("Not UTF-8 at byte {}", error.valid_up_to())))?;
        let Members(members) =
            serde_json::from_str(text).map_err(|error| RpcError::parse(format!("Not JSON: {error}")))?;
        match members.len() {
            0 => Err(RpcError::invalid_request("A batch has at least one message")),
            1..=Self::MAX_MESSAGES => Ok(Self(members)),
            _ => Err(RpcError::invalid_request(format!(
                "A batch has at most {} messages: send the others in another one",
                Self::MAX_MESSAGES
            ))),
        }
    }

    /// Its messages.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a, '_> {
        self.0.iter().map(|member| member.get().as_bytes())
    }
}

/// The messages of an array. Reading stops at one more than allowed, so that a huge array costs no memory.
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
                    if members.len() <= Batch::MAX_MESSAGES {
                        members.push(member);
                    }
                }
                Ok(members)
            }
        }
        from.deserialize_seq(Array).map(Members).map_err(D::Error::custom)
    }
}
