//! API keys: `lhk_` and 256 random bits, of which the server keeps the SHA-256 hash.
//!
//! They are in the file `keys.json` of the data directory, which [`KeyFile`] reads and changes while a server runs or not.

mod authenticator;
mod file;
mod record;
mod secret;
mod table;

pub use authenticator::KeyAuthenticator;
pub use file::{KeyFile, KeyFileError, KeySummary, NewKey, Rotation};
pub use record::{InvalidKeyName, KeyName};
pub use secret::{ApiKey, KEY_PREFIX, is_like_key};
