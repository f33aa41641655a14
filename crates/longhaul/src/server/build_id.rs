//! The default build id: a hash of the executable.

use longhaul_runtime::BuildId;
use std::{
    env,
    fs::File,
    hash::Hasher,
    io::{self, Read},
};

/// How many bytes are read at once.
const CHUNK: usize = 1 << 20;

/// A hash of the executable. The file is opened now, because the next deploy may replace it. It is read when a task is first blocked.
pub(crate) fn of_executable() -> BuildId {
    // By path only where there is no `/proc`: a deploy may have replaced the file at that path already.
    let executable = File::open("/proc/self/exe").or_else(|_| env::current_exe().and_then(File::open));
    BuildId::lazy(move || match executable.and_then(hash) {
        Ok(hash) => Some(hash),
        Err(error) => {
            tracing::warn!(%error, "the executable cannot be read: name the build with `Server::build_id`");
            None
        }
    })
}

/// A hash of the file. It only tells builds apart, so it need not be secure. It may change with the version of Rust.
fn hash(mut executable: File) -> io::Result<String> {
    let mut hasher = std::hash::DefaultHasher::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match executable.read(&mut chunk)? {
            0 => return Ok(format!("{:016x}", hasher.finish())),
            read => hasher.write(&chunk[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn another_executable_has_another_hash() {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            File::create(&path).unwrap().write_all(bytes).unwrap();
            hash(File::open(path).unwrap()).unwrap()
        };
        let mut bytes = vec![7; 3 * CHUNK + 5];
        let first = written("a", &bytes);
        assert_eq!(first, written("b", &bytes));
        bytes[2 * CHUNK] = 8;
        assert_ne!(first, written("c", &bytes));
        assert!(env::current_exe().and_then(File::open).and_then(hash).is_ok());
    }
}
