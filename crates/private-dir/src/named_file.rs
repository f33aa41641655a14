//! Files that a user names: configurations, keys, certificates, secrets.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// Where the descriptors are that this process was given.
const DESCRIPTORS: [&str; 4] = ["/dev/fd", "/dev/stdin", "/proc/self/fd", "/dev/null"];

/// Opens a regular file that a user has named, to be read. It never waits for the other end of a FIFO, and no device is read. A descriptor that this process
/// was given may be a pipe: `/dev/stdin`, and `/dev/fd/63` of a shell's `<(…)`.
///
/// # Errors
/// The system's, and that it is no regular file.
pub fn open_named(path: &Path) -> io::Result<File> {
    if DESCRIPTORS.iter().any(|folder| path.starts_with(folder)) {
        return File::open(path);
    }
    // Before it is opened, because opening a device may do something; and after, because it may be another one by then.
    check(&fs::metadata(path)?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(super::flags(rustix::fs::OFlags::NONBLOCK))
        .open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads the file that [`open_named`] opens.
///
/// # Errors
/// As [`open_named`].
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_named(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of the file that [`open_named`] opens.
///
/// # Errors
/// As [`open_named`], and that it is not UTF-8.
pub fn read_named_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_named(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Checks a regular file that others will open, if it is there.
///
/// # Errors
/// The system's, and that it is no regular file.
pub fn check_named(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) => check(&found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    // A directory has an error of its own when it is read.
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    let what = match () {
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::other(format!("it is {what}, and should be a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, Mode, mknodat};

    #[test]
    fn a_named_fifo_or_device_is_refused_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let error = read_named_text(&fifo).unwrap_err().to_string();
        assert_eq!(error, "it is a named pipe, and should be a regular file");
        let error = read_named(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "it is a device, and should be a regular file");
        let file = folder.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(read_named_text(&file).unwrap(), "text");
        assert!(read_named_text(folder.path()).is_err());
        assert_eq!(read_named(Path::new("/dev/null")).unwrap(), b"");
    }

    #[test]
    fn a_pipe_that_was_handed_over_is_read() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"text").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_named_text(Path::new(&path)).unwrap(), "text");
    }
}
