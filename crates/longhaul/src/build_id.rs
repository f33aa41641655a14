//! Which build this is, if its author does not say.

use longhaul_runtime::BuildId;
use std::{
    env,
    fs::File,
    hash::Hasher,
    io::{self, Read},
};

/// Read at once.
const CHUNK: usize = 1 << 20;

/// Names the build by what is in the executable. It is opened now, since after the next deploy another file is at its path, and read when a
/// task is first blocked, if one ever is.
pub(crate) fn of_executable() -> BuildId {
    // Not by its path where that can be helped: it may have been deployed over already.
    let executable = File::open("/proc/self/exe").or_else(|_| env::current_exe().and_then(File::open));
    BuildId::lazy(move || match executable.and_then(hash) {
        Ok(hash) => Some(hash),
        Err(error) => {
            tracing::warn!(%error, "the executable cannot be read: name the build with `Server::build_id`");
            None
        }
    })
}

/// Not for security: builds are told apart that nobody made alike on purpose. The hasher may be another one in the next version of Rust, and
/// with it the program would be another one too. It is the fastest there is in programs that were compiled without optimization.
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
