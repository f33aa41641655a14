//! Whether a path is on a local disk. On a network file system neither our lock nor SQLite's shared memory works.

use std::{io, path::Path};

/// The kind of network file system that `path` is on, if it is on one that we know.
#[cfg(target_os = "linux")]
pub(crate) fn network_kind(path: &Path) -> io::Result<Option<String>> {
    use std::os::linux::fs::MetadataExt;
    let device = std::fs::metadata(path)?.st_dev();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let number = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok(kind_of(number, &mounts)
        .filter(|kind| is_network(kind))
        .map(str::to_owned))
}

/// Unknown on other systems.
#[cfg(not(target_os = "linux"))]
pub(crate) fn network_kind(_path: &Path) -> io::Result<Option<String>> {
    Ok(None)
}

/// The type of the file system on device `major:minor`, by the lines of `mountinfo` (proc(5)).
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn kind_of((major, minor): (u32, u32), mounts: &str) -> Option<&str> {
    let device = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    let (_, after) = line.split_once(" - ")?;
    after.split(' ').next()
}

/// Those we know. An unknown FUSE file system may as well be local.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn is_network(kind: &str) -> bool {
    const KNOWN: &[&str] = &[
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "lustre",
        "ncpfs",
        "coda",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.rclone",
        "fuse.davfs",
        "davfs",
        "fuse.juicefs",
        "fuse.curlftpfs",
    ];
    KNOWN.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
35 22 0:52 / /home rw - nfs4 nas:/home rw,vers=4.2
36 22 0:53 / /share rw shared:7 master:1 - 9p host rw,trans=virtio
37 22 0:54 / /far rw - fuse.sshfs me@far: rw
38 22 0:55 / /zip rw - fuse.archivemount zip rw
";

    #[test]
    fn network_file_systems_are_recognized() {
        let kind = |device| kind_of(device, MOUNTS).filter(|kind| is_network(kind));
        assert_eq!(kind((254, 0)), None);
        assert_eq!(kind((0, 52)), Some("nfs4"));
        assert_eq!(kind((0, 53)), Some("9p"));
        assert_eq!(kind((0, 54)), Some("fuse.sshfs"));
        assert_eq!(kind((0, 55)), None);
        assert_eq!(kind((9, 9)), None);
    }
}
