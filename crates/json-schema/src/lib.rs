//! JSON Schemas, compiled and checked within limits: the one place where the project does either.
//!
//! A schema or a value may come from anybody. So patterns are matched by an engine that takes linear time, which has neither look-around nor
//! backreferences, and a schema's size, its references and its patterns are limited. What is cheap to check is checked at once
//! ([`Schema::check_now`]); the rest belongs on a [thread for long checks](off_thread), where [`Schema::check`] ends at a deadline.
//!
//! ```
//! use longhaul_json_schema::{SchemaAuthor, Schema};
//! use serde_json::json;
//!
//! let schema = Schema::compile(&json!({"type": "string", "pattern": "^[a-z]+$"}), SchemaAuthor::Own).unwrap();
//! let first = |violations: &mut dyn Iterator<Item = longhaul_json_schema::Violation<'_>>| violations.next().unwrap().to_string();
//! assert_eq!(schema.check_now(&json!("abc"), 5, first), Some(Ok(())));
//! assert_eq!(schema.check_now(&json!("?"), 3, first), Some(Err("\"?\" does not match \"^[a-z]+$\"".to_owned())));
//!
//! let password = Schema::compile(&json!({"pattern": r"(?=.*\d).{8,}"}), SchemaAuthor::Own).err().unwrap();
//! assert!(password.to_string().starts_with("/pattern: "));
//! ```

mod error;
mod guard;
mod pattern;
mod schema;
mod survey;
mod threads;

pub use error::{SchemaError, SchemaProblem};
pub use jsonschema::{
    ValidationError as Violation,
    error::{TypeKind, ValidationErrorKind as ViolationKind},
    types::JsonType,
};
pub use schema::{Schema, SchemaAuthor, Unchecked, text_len};
pub use threads::{Busy, off_thread};
