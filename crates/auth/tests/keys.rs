//! API keys, as their file and as requests have them.

mod support;

use longhaul_auth::keys::{ApiKey, KeyAuthenticator, KeyFile, KeyFileError, KeyName, NewKey, Rotation};
use longhaul_core::{Entropy, Principal};
use longhaul_runtime::Ports;
use longhaul_server::{
    audit::{Audit, AuditEvent},
    auth::{Authenticator as _, Denied, Identity, Permission},
};
use parking_lot::Mutex;
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    sync::Arc,
    time::Duration,
};
use support::{START, TestClock, present};
use tempfile::TempDir;

/// Longer than any test waits.
const HOUR: Duration = Duration::from_secs(60 * 60);

struct Keys {
    dir: TempDir,
    file: KeyFile,
    clock: Arc<TestClock>,
    ports: Ports,
}

impl Keys {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = KeyFile::open(dir.path()).expect("a file");
        let (clock, ports) = TestClock::ports();
        Self {
            dir,
            file,
            clock,
            ports,
        }
    }

    fn entropy(&self) -> &dyn Entropy {
        &*self.ports.entropy
    }

    fn add(&self, name: &str) -> ApiKey {
        self.add_with(name, |_| {}).expect("a key")
    }

    fn add_with(&self, key: &str, change: impl FnOnce(&mut NewKey)) -> Result<ApiKey, KeyFileError> {
        let mut new = NewKey::named(name(key));
        change(&mut new);
        self.file.add(&new, self.entropy(), self.ports.clock.wall())
    }

    fn rotate(&self, key: &str, overlap: Duration) -> Result<ApiKey, KeyFileError> {
        let rotation = Rotation { overlap, expires: None };
        self.file
            .rotate(&name(key), &rotation, self.entropy(), self.ports.clock.wall())
    }

    fn revoke(&self, key: &str) -> Result<(), KeyFileError> {
        self.file.revoke(&name(key), self.ports.clock.wall())
    }

    fn start(&self) -> KeyAuthenticator {
        let file = KeyFile::open(self.dir.path()).expect("a file");
        KeyAuthenticator::start(file, &self.ports).expect("keys")
    }

    /// Lets time pass until this has happened.
    async fn soon(&self, happened: impl AsyncFn() -> bool) {
        while !happened().await {
            self.clock.pass(Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
    }

    fn replace_text(&self, text: &str) {
        fs::write(self.file.path(), text).expect("written");
    }
}

fn name(name: &str) -> KeyName {
    KeyName::new(name).expect("a name")
}

async fn identify(authenticator: &KeyAuthenticator, key: &ApiKey) -> Result<Arc<Identity>, Denied> {
    present(authenticator, key.expose())
        .await
        .expect("an API key is this authenticator's")
}

async fn is_accepted(authenticator: &KeyAuthenticator, key: &ApiKey) -> bool {
    identify(authenticator, key).await.is_ok()
}

/// A key for every tool is one for everything; another one has resources and prompts only if that was said.
#[tokio::test]
async fn a_key_for_some_tools_has_resources_only_if_it_was_given_them() {
    let keys = Keys::new();
    let some = || vec!["build*".parse().expect("a pattern")];
    let given = [
        (keys.add("all"), true),
        (keys.add_with("some", |new| new.tools = some()).expect("a key"), false),
        (
            keys.add_with("more", |new| (new.tools, new.resources) = (some(), true))
                .expect("a key"),
            true,
        ),
    ];
    let authenticator = keys.start();
    for (key, resources) in &given {
        let identity = identify(&authenticator, key).await.expect("accepted");
        let permissions = identity.permissions();
        assert_eq!(permissions.allows(Permission::ReadResources), *resources);
        assert!(permissions.allows(Permission::WriteTasks));
    }
    let listed: Vec<bool> = keys
        .file
        .list()
        .expect("keys")
        .iter()
        .map(|key| key.resources)
        .collect();
    assert_eq!(listed, [true, false, true]);
}

#[tokio::test]
async fn a_key_is_known_by_its_name_and_may_call_what_fits_its_patterns() {
    let keys = Keys::new();
    let key = keys
        .add_with("ci", |new| new.tools = vec!["build*".parse().expect("a pattern")])
        .expect("a key");
    let authenticator = keys.start();
    let identity = identify(&authenticator, &key).await.expect("accepted");
    assert_eq!(identity.principal().as_str(), "key:ci");
    assert!(identity.permissions().allows(Permission::Call("build_all")));
    assert!(identity.permissions().allows(Permission::WriteTasks));
    assert!(!identity.permissions().allows(Permission::Call("deploy")));
    assert!(!identity.permissions().allows(Permission::ReadResources));
    assert_eq!(authenticator.active_keys(), 1);
}

#[tokio::test]
async fn what_begins_like_a_key_is_nobody_elses_and_other_tokens_are_not_its_own() {
    let keys = Keys::new();
    let key = keys.add("ci");
    let authenticator = keys.start();
    let mut wrong = key.expose().to_owned();
    let last = wrong.pop().expect("it is long");
    wrong.push(if last == 'A' { 'B' } else { 'A' });
    for refused in [&*wrong, "lhk_", "lhk_x", &format!("{}x", key.expose())] {
        let denied = present(&authenticator, refused).await.expect("it decides");
        assert_eq!(denied.err(), Some(Denied::invalid("the key is unknown")), "{refused}");
    }
    for other in ["", "eyJhbGciOiJub25lIn0.e30.", "opaque", "LHK_x"] {
        assert!(present(&authenticator, other).await.is_none(), "{other}");
    }
}

#[tokio::test]
async fn only_a_hash_is_kept_in_a_file_that_only_its_owner_reads() {
    let keys = Keys::new();
    let key = keys.add("ci");
    let text = fs::read_to_string(keys.file.path()).expect("a file");
    assert!(!text.contains(&key.expose()["lhk_".len()..]), "{text}");
    let mode = fs::metadata(keys.file.path()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!keys.dir.path().join("keys.json.new").exists());
}

#[tokio::test]
async fn a_name_is_used_once_also_after_it_was_revoked() {
    let keys = Keys::new();
    keys.add("ci");
    assert!(matches!(keys.add_with("ci", |_| {}), Err(KeyFileError::Exists(_))));
    keys.revoke("ci").expect("revoked");
    assert!(matches!(
        keys.add_with("ci", |_| {}),
        Err(KeyFileError::NameWasRevoked(_))
    ));
    assert!(matches!(
        keys.rotate("ci", Duration::ZERO),
        Err(KeyFileError::Revoked(_))
    ));
    assert!(matches!(keys.revoke("ci"), Err(KeyFileError::Revoked(_))));
    assert!(matches!(keys.revoke("other"), Err(KeyFileError::Unknown(_))));
    let listed = keys.file.list().expect("a list");
    assert_eq!((listed.len(), listed[0].revoked), (1, Some(START)));
    assert!(!listed[0].is_active(START));
}

#[tokio::test]
async fn keys_that_could_do_nothing_are_not_made() {
    let keys = Keys::new();
    let ends = keys.add_with("ci", |new| new.expires = Some(START));
    assert!(matches!(ends, Err(KeyFileError::EndsInThePast(_))));
    assert!(matches!(
        keys.add_with("ci", |new| new.tools.clear()),
        Err(KeyFileError::NoTools(_))
    ));
    assert!(keys.file.list().expect("a list").is_empty());
}

#[tokio::test]
async fn a_running_server_sees_new_and_revoked_keys_and_ends_what_they_opened() {
    let keys = Keys::new();
    let stays = keys.add("stays");
    let authenticator = keys.start();
    let staying = identify(&authenticator, &stays).await.expect("accepted");
    let key = keys.add("ci");
    assert!(!is_accepted(&authenticator, &key).await);
    keys.soon(async || is_accepted(&authenticator, &key).await).await;
    let identity = identify(&authenticator, &key).await.expect("accepted");
    keys.revoke("ci").expect("revoked");
    let ci = identity.principal();
    assert!(!authenticator.is_withdrawn(ci));
    keys.soon(async || identity.is_revoked()).await;
    assert!(!is_accepted(&authenticator, &key).await);
    for authenticator in [&authenticator, &keys.start()] {
        assert!(authenticator.is_withdrawn(ci) && !authenticator.is_withdrawn(staying.principal()));
        assert!(
            !authenticator.is_withdrawn(&Principal::named("ci")),
            "another kind of principal"
        );
    }
    assert!(!staying.is_revoked());
    let again = identify(&authenticator, &stays).await.expect("accepted");
    assert!(
        Arc::ptr_eq(&again, &staying),
        "a change of another key makes nobody a new identity"
    );
}

#[tokio::test]
async fn a_rotated_key_keeps_its_principal_and_the_old_secret_ends_with_the_overlap() {
    let keys = Keys::new();
    let old = keys.add("ci");
    let authenticator = keys.start();
    let before = identify(&authenticator, &old).await.expect("accepted");
    let new = keys.rotate("ci", HOUR).expect("rotated");
    keys.soon(async || is_accepted(&authenticator, &new).await).await;
    assert!(is_accepted(&authenticator, &old).await && !before.is_revoked());
    let after = identify(&authenticator, &new).await.expect("accepted");
    assert_eq!(after.principal(), before.principal());
    assert_eq!(
        keys.file.list().expect("a list")[0].overlap_until,
        Some(START.plus(3_600_000))
    );
    keys.clock.pass(HOUR);
    let denied = identify(&authenticator, &old).await;
    assert_eq!(
        denied.err(),
        Some(Denied::ended_of(before.principal(), "the key has expired"))
    );
    keys.soon(async || before.is_revoked()).await;
    assert!(is_accepted(&authenticator, &new).await && !after.is_revoked());
    assert!(!authenticator.is_withdrawn(before.principal()), "its tasks stay");
}

#[tokio::test]
async fn a_rotation_without_overlap_ends_the_old_secret_at_once() {
    let keys = Keys::new();
    let old = keys.add("ci");
    let authenticator = keys.start();
    let before = identify(&authenticator, &old).await.expect("accepted");
    let new = keys.rotate("ci", Duration::ZERO).expect("rotated");
    keys.soon(async || is_accepted(&authenticator, &new).await).await;
    assert!(!is_accepted(&authenticator, &old).await);
    assert!(before.is_revoked());
}

/// Who uses a stolen key that was revoked is named in the audit log, also after a restart.
#[tokio::test]
async fn s_07_a_revoked_key_is_told_from_an_unknown_one() {
    let keys = Keys::new();
    let key = keys.add("ci");
    let authenticator = keys.start();
    let holder = identify(&authenticator, &key).await.expect("accepted");
    keys.file.revoke(&name("ci"), keys.ports.clock.wall()).expect("revoked");
    keys.soon(async || holder.is_revoked()).await;
    let revoked = Denied::ended_of(holder.principal(), "the key was revoked");
    for authenticator in [authenticator, keys.start()] {
        assert_eq!(identify(&authenticator, &key).await.err(), Some(revoked.clone()));
        assert_eq!(authenticator.active_keys(), 0);
    }
}

/// Keeps the details of what it is told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Audit for Told {
    fn record(&self, event: &AuditEvent) {
        let principal = event.principal.as_deref().unwrap_or_default();
        let detail = event.detail.as_deref().unwrap_or_default();
        self.0.lock().push(format!("{principal} {detail}"));
    }
}

/// Whoever may write the file can change what keys may do without `longhaul keys`.
#[tokio::test]
async fn s_07_each_change_of_a_key_by_hand_is_recorded() {
    let keys = Keys::new();
    keys.add_with("ci", |new| new.tools = vec!["build*".parse().expect("a pattern")])
        .expect("a key");
    keys.revoke("ci").expect("revoked");
    let revoked = fs::read_to_string(keys.file.path()).expect("a file");
    let parsed: serde_json::Value = serde_json::from_str(&revoked).expect("JSON");
    let edited = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut document = parsed.clone();
        document["keys"][0].as_object_mut().expect("a record").remove("revoked");
        edit(&mut document);
        document.to_string()
    };
    let told = Arc::new(Told::default());
    let file = KeyFile::open(keys.dir.path()).expect("a file");
    let _authenticator = KeyAuthenticator::start_audited(file, &keys.ports, Arc::<Told>::clone(&told)).expect("keys");
    for (text, change) in [
        (edited(&|_| {}), "made valid again"),
        (
            edited(&|document| document["keys"][0]["tools"] = serde_json::json!(["*"])),
            "given other tools",
        ),
        (
            edited(&|document| document["keys"][0]["expires"] = serde_json::json!("2100-01-01T00:00:00Z")),
            "given other tools, given another end",
        ),
        (
            edited(&|document| document["keys"] = serde_json::json!([])),
            "removed from the file",
        ),
        (edited(&|_| {}), "added"),
        (revoked.clone(), "revoked"),
    ] {
        keys.replace_text(&text);
        keys.soon(async || !told.0.lock().is_empty()).await;
        let lines = std::mem::take(&mut *told.0.lock());
        assert_eq!(lines, [format!("key:ci {change}, as the server sees it")]);
    }
}

#[tokio::test]
async fn a_file_that_vanishes_ends_no_key() {
    let keys = Keys::new();
    let key = keys.add("ci");
    let authenticator = keys.start();
    let text = fs::read(keys.file.path()).expect("a file");
    fs::remove_file(keys.file.path()).expect("removed");
    for _ in 0..10 {
        keys.clock.pass(Duration::from_secs(1));
        assert!(is_accepted(&authenticator, &key).await);
        tokio::task::yield_now().await;
    }
    fs::write(keys.file.path(), text).expect("written");
    let other = keys.add("other");
    keys.soon(async || is_accepted(&authenticator, &other).await).await;
}

/// A key expires by the system's clock; if that clock was wrong, the key is as valid as before.
#[tokio::test]
async fn a_key_that_has_expired_by_a_wrong_clock_is_accepted_again() {
    let keys = Keys::new();
    let key = keys
        .add_with("ci", |new| new.expires = Some(START.plus(36_000_000)))
        .expect("a key");
    let authenticator = keys.start();
    for _ in 0..2 {
        let identity = identify(&authenticator, &key).await.expect("accepted");
        assert!(!identity.is_revoked());
        keys.clock.set_off_by(72_000_000);
        keys.soon(async || authenticator.active_keys() == 0).await;
        assert!(!is_accepted(&authenticator, &key).await);
        keys.clock.set_off_by(0);
        keys.soon(async || {
            identify(&authenticator, &key)
                .await
                .is_ok_and(|identity| !identity.is_revoked())
        })
        .await;
    }
}

#[tokio::test]
async fn a_key_ends_by_itself_and_needs_a_new_end_to_be_rotated() {
    let keys = Keys::new();
    let key = keys
        .add_with("ci", |new| new.expires = Some(START.plus(3_600_000)))
        .expect("a key");
    let authenticator = keys.start();
    let identity = identify(&authenticator, &key).await.expect("accepted");
    assert_eq!(identity.expires_at(), Some(START.plus(3_600_000)));
    keys.clock.pass(HOUR);
    assert!(!is_accepted(&authenticator, &key).await);
    keys.soon(async || authenticator.active_keys() == 0).await;
    // It ends what it has opened by its time. A revocation would also end calls that were admitted.
    assert!(!identity.is_revoked());
    assert!(matches!(
        keys.rotate("ci", Duration::ZERO),
        Err(KeyFileError::Expired(_))
    ));
    let rotation = Rotation {
        expires: Some(START.plus(360_000_000)),
        ..Rotation::default()
    };
    let rotated = keys
        .file
        .rotate(&name("ci"), &rotation, keys.entropy(), keys.ports.clock.wall());
    let rotated = rotated.expect("rotated");
    keys.soon(async || is_accepted(&authenticator, &rotated).await).await;
}

#[tokio::test]
async fn fewer_tools_end_what_was_opened_with_more() {
    let keys = Keys::new();
    let key = keys.add("ci");
    let authenticator = keys.start();
    let before = identify(&authenticator, &key).await.expect("accepted");
    let text = fs::read_to_string(keys.file.path()).expect("a file");
    keys.replace_text(&text.replace("\"*\"", "\"build\""));
    keys.soon(async || before.is_revoked()).await;
    let after = identify(&authenticator, &key).await.expect("accepted");
    assert!(!after.is_revoked() && !after.permissions().allows(Permission::Call("deploy")));
}

#[tokio::test]
async fn a_broken_file_changes_nothing_while_the_server_runs_and_is_refused_when_it_starts() {
    let keys = Keys::new();
    let key = keys.add("ci");
    let authenticator = keys.start();
    let good = fs::read_to_string(keys.file.path()).expect("a file");
    keys.replace_text(&good[..good.len() / 2]);
    // Nothing is to happen, so a later change shows that the broken one was read: the file is looked at in turn.
    for _ in 0..20 {
        keys.clock.pass(Duration::from_millis(900));
        tokio::task::yield_now().await;
        assert!(is_accepted(&authenticator, &key).await);
    }
    let error = KeyFile::open(keys.dir.path()).expect_err("it is broken").to_string();
    assert!(error.contains("keys.json, line "), "{error}");
    keys.replace_text(&good);
    let other = keys.add("other");
    keys.soon(async || is_accepted(&authenticator, &other).await).await;
    assert!(is_accepted(&authenticator, &key).await);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let secret = format!(
        r#"{{"sha256": "{}", "created": "2026-01-01T00:00:00Z"}}"#,
        "ab".repeat(32)
    );
    let key = |name: &str, rest: &str| {
        format!("{{\"name\": \"{name}\", \"tools\": [\"*\"], \"created\": \"2026-01-01T00:00:00Z\"{rest}}}")
    };
    let one = |rest: &str| format!("{{\"version\": 1,\n\"keys\": [\n{}]}}", key("a", rest));
    let fine = format!(", \"secrets\": [{secret}]");
    assert!(read(&one(&fine)).is_ok());
    let twice = format!("{{\"version\": 1, \"keys\": [{0}, {0}]}}", key("a", &fine));
    let same = format!(
        "{{\"version\": 1, \"keys\": [{}, {}]}}",
        key("a", &fine),
        key("b", &fine)
    );
    for (text, reason) in [
        ("", "line 1: EOF"),
        ("{\"version\": 2, \"keys\": []}", "its version is 2"),
        (
            "{\"version\": 1, \"keys\": [], \"more\": 1}",
            "line 1: unknown field `more`",
        ),
        (&one(""), "not revoked and has no secret"),
        (
            &one(&format!(", \"secrets\": [{secret}, {secret}]")),
            "has no \"until\"",
        ),
        (
            &one(&fine).replace("abab", "ab"),
            "line 3: sha256 must be 64 hexadecimal digits",
        ),
        (&one(&fine).replace("\"a\"", "\"a b\""), "line 3: \"a b\" is no name"),
        (&one(&fine).replace("\"*\"", "\"a b\""), "line 3: \"a b\" is no pattern"),
        (
            &one(&fine).replace("2026-01-01T", "2026-13-01T"),
            "line 3: \"2026-13-01T00:00:00Z\" is no time",
        ),
        (&twice, "two keys have the name \"a\""),
        (&same, "two keys have the same sha256"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

fn read(text: &str) -> Result<KeyFile, KeyFileError> {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("keys.json"), text).expect("written");
    KeyFile::open(dir.path())
}

#[tokio::test]
async fn a_file_that_others_could_change_is_not_used() {
    let keys = Keys::new();
    keys.add("ci");
    let path = keys.file.path();
    let opened = |mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
        KeyFile::open(keys.dir.path())
    };
    assert_eq!(opened(0o600).expect("it is private").earlier_mode(), None);
    assert_eq!(opened(0o644).expect("it is made private").earlier_mode(), Some(0o644));
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let error = opened(0o664).expect_err("others may have written it").to_string();
    assert!(error.contains("keys.json: ") && error.contains("chmod 600"), "{error}");
    keys.file.list().expect_err("a running server does not read it, either");
}

#[tokio::test]
async fn a_file_that_was_planted_is_not_used() {
    let keys = Keys::new();
    keys.add("ci");
    let elsewhere = keys.dir.path().join("elsewhere");
    fs::rename(keys.file.path(), &elsewhere).expect("renamed");
    std::os::unix::fs::symlink(&elsewhere, keys.file.path()).expect("linked");
    assert!(matches!(KeyFile::open(keys.dir.path()), Err(KeyFileError::Io { .. })));
}

#[tokio::test]
async fn processes_that_add_keys_at_the_same_time_lose_none() {
    const THREADS: usize = 4;
    const EACH: usize = 8;
    let keys = Keys::new();
    let add_some = |thread: usize| {
        // As another process would, with a file of its own.
        let file = KeyFile::open(keys.dir.path()).expect("a file");
        for key in 0..EACH {
            let new = NewKey::named(name(&format!("{thread}-{key}")));
            file.add(&new, keys.entropy(), START).expect("a key");
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || add_some(thread));
        }
    });
    assert_eq!(keys.file.list().expect("a list").len(), THREADS * EACH);
}

#[tokio::test]
async fn a_crash_before_the_rename_leaves_the_old_file() {
    let keys = Keys::new();
    keys.add("ci");
    let inode = |path: &Path| fs::metadata(path).expect("a file").ino();
    let before = inode(&keys.file.path());
    fs::write(keys.dir.path().join("keys.json.new"), "{\"version\": 1, \"ke").expect("written");
    assert_eq!(
        KeyFile::open(keys.dir.path())
            .expect("a file")
            .list()
            .expect("a list")
            .len(),
        1
    );
    keys.add("other");
    assert_ne!(
        inode(&keys.file.path()),
        before,
        "the file is replaced, not overwritten"
    );
    assert_eq!(keys.file.list().expect("a list").len(), 2);
}
