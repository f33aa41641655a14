use super::*;
use longhaul_core::{UnixMillis, store::SessionStore as _};
use longhaul_store::MemoryStore;
use std::os::unix::fs::PermissionsExt as _;

fn ports() -> Ports {
    Ports::system()
}

async fn prepared(dir: &Path, store: &dyn Store) -> Result<SecretKeys, SecretKeysError> {
    let keys = SecretKeys::open(dir, &ports())?;
    keys.prepare(true, store).await?;
    Ok(keys)
}

#[tokio::test]
async fn what_is_encrypted_belongs_to_its_context_and_survives_a_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    let keys = prepared(dir.path(), &store).await.unwrap();
    let mode = dir.path().join(FILE).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let sealed = keys.encrypt("\"hunter2\"", b"task 1");
    assert!(!sealed.contains("hunter2"));
    assert_ne!(sealed, keys.encrypt("\"hunter2\"", b"task 1"), "a nonce is used once");
    assert_eq!(keys.decrypt(&sealed, b"task 1").unwrap(), "\"hunter2\"");
    assert!(
        keys.decrypt(&sealed, b"task 2").is_err(),
        "it was moved to another task"
    );
    let mut damaged = sealed.clone();
    damaged.pop();
    assert!(keys.decrypt(&damaged, b"task 1").is_err());

    let ports = ports();
    let (_, count) = rotate(dir.path(), &*ports.entropy, ports.clock.wall()).unwrap();
    assert_eq!(count, 2);
    // The one that runs goes on with its key until it reads the file again, and another one can read both.
    let with_old = keys.encrypt("1", b"");
    let other = prepared(dir.path(), &store).await.unwrap();
    let with_new = other.encrypt("1", b"");
    assert_ne!(with_old.split('.').next(), with_new.split('.').next());
    for (keys, sealed) in [(&keys, &with_new), (&other, &with_old), (&other, &sealed)] {
        let context: &[u8] = if sealed.len() == with_old.len() { b"" } else { b"task 1" };
        assert!(keys.decrypt(sealed, context).is_ok());
    }
}

#[tokio::test]
async fn a_key_that_is_lost_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    let sealed = prepared(dir.path(), &store).await.unwrap().encrypt("1", b"");
    let id = sealed.split('.').next().unwrap().to_owned();
    std::fs::remove_file(dir.path().join(FILE)).unwrap();
    // With one server it goes on, with a key of its own.
    let keys = prepared(dir.path(), &store).await.unwrap();
    let error = keys.decrypt(&sealed, b"").unwrap_err().to_string();
    assert!(error.contains(FILE) && error.contains(&id), "{error}");
    std::fs::write(dir.path().join(FILE), "{}").unwrap();
    let Err(error) = SecretKeys::open(dir.path(), &ports()) else {
        panic!("it was accepted")
    };
    assert!(error.to_string().contains(FILE), "{error}");
}

#[tokio::test]
async fn servers_of_one_database_need_the_same_key() {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let store = MemoryStore::new();
    let keys = prepared(first.path(), &store).await.unwrap();
    let own = keys.keys.read().clone();
    let other = prepared(second.path(), &store).await.unwrap();
    let compare = |keys: &SecretKeys| {
        let (all, newest) = (keys.keys.read().clone(), keys.keys.read()[0].clone());
        let newest = SigningKey {
            id: newest.number,
            secret: newest.fingerprint(),
        };
        let used = futures_util::FutureExt::now_or_never(store.signing_keys(PURPOSE, newest));
        keys.compare(&all, &used.unwrap().unwrap(), true)
    };
    assert!(compare(&keys).is_ok());
    let error = compare(&other).unwrap_err().to_string();
    assert!(error.contains(FILE) && error.contains("copy the file"), "{error}");
    std::fs::copy(first.path().join(FILE), second.path().join(FILE)).unwrap();
    let other = prepared(second.path(), &store).await.unwrap();
    assert!(compare(&other).is_ok());
    // A server with the newer key is taken, and from then on one without it is not.
    let ports = ports();
    rotate(first.path(), &*ports.entropy, UnixMillis(1_800_000_000_000)).unwrap();
    let newer = prepared(first.path(), &store).await.unwrap();
    assert!(compare(&newer).is_ok());
    assert_eq!(newer.keys.read()[1].id(), own[0].id());
    assert!(compare(&other).is_err());
}
