//! Secret arguments: encrypted in the store, in the clear only for the attempt that runs with them.
//!
//! In the store an object stands for each of them. Its context is the task and the name, so it can be moved to no other task and to no other argument.

use super::Inner;
use crate::{
    catalog::Tool,
    ports::argument_cipher::{ArgumentCipher, DecryptError},
};
use longhaul_core::{
    Json, Principal, Task, TaskId, canonical_digest,
    store::{CreateError, Created, StoreError},
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::{BTreeMap, BTreeSet};

/// The one member of an object that stands for an encrypted argument.
const ENCRYPTED: &str = "dev.longhaul/encrypted";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EncryptedArgument {
    #[serde(rename = "dev.longhaul/encrypted")]
    value: String,
}

type Members = BTreeMap<String, Box<RawValue>>;

/// The members of arguments; `None` if they are no object.
fn members(arguments: &Json) -> Option<Members> {
    serde_json::from_str(arguments.as_str()).ok()
}

fn to_json(members: &Members) -> Json {
    Json::trusted(serde_json::to_string(members).unwrap_or_default())
}

fn encrypted(value: &RawValue) -> Option<String> {
    let read: EncryptedArgument = serde_json::from_str(value.get()).ok()?;
    Some(read.value)
}

fn has_encrypted(arguments: &Json) -> bool {
    arguments.as_str().contains(ENCRYPTED)
}

/// The members of stored arguments that are encrypted.
fn encrypted_members(arguments: &Json) -> BTreeMap<String, String> {
    if !has_encrypted(arguments) {
        return BTreeMap::new();
    }
    let all = members(arguments).unwrap_or_default();
    let encrypted = |(name, value): (String, Box<RawValue>)| Some((name, encrypted(&value)?));
    all.into_iter().filter_map(encrypted).collect()
}

fn context(task: &TaskId, name: &str) -> Vec<u8> {
    format!("argument\0{task}\0{name}").into_bytes()
}

fn decrypt(cipher: &dyn ArgumentCipher, task: &TaskId, name: &str, value: &str) -> Result<Box<RawValue>, DecryptError> {
    let failed = |why: &str| DecryptError(format!("its secret argument `{name}` cannot be decrypted: {why}"));
    let decrypted = cipher.decrypt(value, &context(task, name));
    let text = decrypted.map_err(|error| failed(&error.0))?;
    RawValue::from_string(text).map_err(|_| failed("it is damaged"))
}

/// The digest of arguments by which a call that is made again is known. It says which secrets there are, and nothing of their values, since short ones could
/// be guessed from it.
pub(crate) fn digest(arguments: &Json, secrets: &BTreeSet<String>) -> [u8; 32] {
    if secrets.is_empty() && !has_encrypted(arguments) {
        return canonical_digest(arguments);
    }
    let Some(mut all) = members(arguments) else {
        return canonical_digest(arguments);
    };
    let Ok(placeholder) = to_raw_value(ENCRYPTED) else {
        return canonical_digest(arguments);
    };
    for (name, value) in &mut all {
        if secrets.contains(name) || encrypted(value).is_some() {
            value.clone_from(&placeholder);
        }
    }
    canonical_digest(&to_json(&all))
}

/// The arguments without what `schema` does not name: it could be a secret under a wrong name.
pub(crate) fn named_by_schema(arguments: &Json, schema: &serde_json::Value) -> Json {
    let mut all = members(arguments).unwrap_or_default();
    all.retain(|name, _| schema["properties"].get(name).is_some());
    to_json(&all)
}

impl Inner {
    /// The arguments of a new task as they are stored. Without a cipher secrets are left out of it.
    pub(crate) fn encrypt_secrets(&self, secrets: &BTreeSet<String>, task: &TaskId, arguments: &Json) -> Json {
        if secrets.is_empty() {
            return arguments.clone();
        }
        // Of others than objects nothing can be told, and no tool takes them.
        let mut all = members(arguments).unwrap_or_default();
        for (name, value) in all.iter_mut().filter(|(name, _)| secrets.contains(*name)) {
            let cipher = self.cipher.as_ref();
            let encrypted = cipher.map(|cipher| cipher.encrypt(value.get(), &context(task, name)));
            let stands_for = EncryptedArgument {
                value: encrypted.unwrap_or_default(),
            };
            *value = to_raw_value(&stands_for).unwrap_or_else(|_| RawValue::NULL.to_owned());
        }
        to_json(&all)
    }

    /// The stored arguments of a task as its caller gave them, and the names of those that are secret.
    ///
    /// # Errors
    /// [`DecryptError`], for the first that cannot be decrypted.
    pub(crate) fn decrypt_secrets(
        &self,
        task: &TaskId,
        arguments: Json,
    ) -> Result<(Json, BTreeSet<String>), DecryptError> {
        let Some(cipher) = self.cipher.as_ref().filter(|_| has_encrypted(&arguments)) else {
            return Ok((arguments, BTreeSet::new()));
        };
        let mut all = members(&arguments).unwrap_or_default();
        let mut secrets = BTreeSet::new();
        for (name, value) in &mut all {
            if let Some(text) = encrypted(value) {
                *value = decrypt(&**cipher, task, name, &text)?;
                secrets.insert(name.clone());
            }
        }
        Ok((to_json(&all), secrets))
    }

    /// The task of a call that was made under the idempotency key `key`, if its arguments are the same as far as they are not secret. Which ones are is known by
    /// the first call: the tool may have changed since.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn find_keyed(
        &self,
        principal: &Principal,
        tool: &str,
        key: &str,
        arguments: &Json,
    ) -> Result<Option<Task>, StoreError> {
        let store = &self.node.store;
        let mut secrets = BTreeSet::new();
        if self.cipher.is_some() {
            let Some(first) = store.find_by_idempotency_key(principal, tool, key, None).await? else {
                return Ok(None);
            };
            let stored = store.arguments(&first.id).await?;
            secrets = stored.map_or_else(BTreeSet::new, |stored| encrypted_members(&stored).into_keys().collect());
        }
        let digest = digest(arguments, &secrets);
        store.find_by_idempotency_key(principal, tool, key, Some(digest)).await
    }

    /// Whether a task has the secret arguments of `arguments`. One that cannot be decrypted any more counts as the same.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn has_same_secrets(&self, task: &TaskId, arguments: &Json) -> Result<bool, StoreError> {
        let Some(cipher) = &self.cipher else { return Ok(true) };
        let stored = self.node.store.arguments(task).await?;
        let secrets = stored.map_or_else(BTreeMap::new, |stored| encrypted_members(&stored));
        let given = match secrets.is_empty() {
            true => return Ok(true),
            false => members(arguments).unwrap_or_default(),
        };
        let digest = |value: &RawValue| canonical_digest(&Json::from(value));
        Ok(secrets.iter().all(|(name, encrypted)| {
            let Ok(first) = decrypt(&**cipher, task, name, encrypted) else {
                return true;
            };
            given.get(name).is_some_and(|given| digest(given) == digest(&first))
        }))
    }

    /// Refuses a call that was made before, as far as the store can tell, with other secrets.
    pub(crate) async fn with_same_secrets(
        &self,
        created: Result<Created, CreateError>,
        tool: &Tool,
        arguments: &Json,
    ) -> Result<Created, CreateError> {
        let created = created?;
        let refused = match &created {
            Created::New(_) => return Ok(created),
            Created::Existing(_) => CreateError::IdempotencyKeyConflict,
            Created::Joined(live) => CreateError::NotUnique {
                live: Some(live.id.clone()),
            },
        };
        match tool.settings().secrets.is_empty() || self.has_same_secrets(&created.task().id, arguments).await? {
            true => Ok(created),
            false => Err(refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_says_which_secrets_there_are_and_nothing_of_them() {
        let secrets = BTreeSet::from(["token".to_owned()]);
        let of = |text: &str| digest(&Json::trusted(text), &secrets);
        assert_eq!(of(r#"{"a":1,"token":"x"}"#), of(r#"{"token":"y","a":1.0}"#));
        assert_eq!(
            of(r#"{"a":1,"token":"x"}"#),
            of(r#"{"a":1,"token":{"dev.longhaul/encrypted":"z"}}"#)
        );
        assert_ne!(of(r#"{"a":1,"token":"x"}"#), of(r#"{"a":1}"#));
        assert_ne!(of(r#"{"a":1,"token":"x"}"#), of(r#"{"a":2,"token":"x"}"#));
        let plain = Json::trusted(r#"{"a":1,"token":"x"}"#);
        assert_eq!(digest(&plain, &BTreeSet::new()), canonical_digest(&plain));
    }
}
