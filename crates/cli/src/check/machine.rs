//! What of this machine keeps a server from starting. Nothing is made or changed.

use crate::{
    config::{Listen, ServerConfig},
    machine::audit::AuditLog,
};
use longhaul_admin::DiskSpace;
use longhaul_auth::keys::KeyFile;
use longhaul_client::SystemClock;
use longhaul_core::Clock as _;
use longhaul_private_dir::{PrivateDir, Unfit};
use longhaul_store::RESERVE_FILE;
use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

/// Why a server with this configuration cannot start here. Who checks it may be another user than the one who will run it.
pub(super) fn faults(server: &ServerConfig) -> Vec<String> {
    let for_any_user = |error: &io::Error| {
        let is_owner = matches!(Unfit::of(error), Some(Unfit::Owner { .. }));
        error.kind() != io::ErrorKind::PermissionDenied && !is_owner
    };
    let data_dir = PrivateDir::check(&server.data_dir);
    // Files of another user are that user's matter, as is their folder.
    let keys = match &data_dir {
        Ok(()) => damaged_keys(server),
        Err(_) => Vec::new(),
    };
    let data_dir = data_dir.err().filter(for_any_user);
    let data_dir =
        data_dir.map(|error| format!("cannot use the data directory {}: {error}", server.data_dir.display()));
    let audit = server.audit.as_ref().and_then(|audit| AuditLog::check(audit).err());
    let audit = audit.filter(|error| for_any_user(&error.source));
    let audit = audit.map(|error| error.to_string());
    [
        clock_or_disk_fault(server),
        data_dir,
        foreign_data_dir(&server.data_dir),
        audit,
        no_socket(server),
    ]
    .into_iter()
    .flatten()
    .chain(keys)
    .collect()
}

/// Why a data directory is not taken from those who read it.
pub(crate) fn foreign_data_dir(data_dir: &Path) -> Option<String> {
    let error = PrivateDir::check_foreign(data_dir).err()?;
    Some(format!("cannot use the data directory {}: {error}", data_dir.display()))
}

/// The user who owns the folder in which root would make a data directory, if that is not root. A server of that user could not use the directory.
pub(crate) fn owner_of_folder(data_dir: &Path) -> Option<String> {
    if data_dir.symlink_metadata().is_ok() || !rustix::process::geteuid().is_root() {
        return None;
    }
    let folder = data_dir
        .ancestors()
        .skip(1)
        .find_map(|folder| fs::metadata(folder).ok())?;
    (folder.uid() != 0).then(|| user_name(folder.uid()))
}

/// The owner of a data directory, if that is not the user of this process.
pub(crate) fn other_owner(data_dir: &Path) -> Option<String> {
    let owner = fs::metadata(data_dir).ok()?.uid();
    (owner != rustix::process::geteuid().as_raw()).then(|| user_name(owner))
}

fn user_name(user: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = user.to_string();
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&number)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| format!("#{number}"))
}

/// Why files of keys in the data directory cannot be used.
fn damaged_keys(server: &ServerConfig) -> Vec<String> {
    let api_keys = server.auth.api_keys.then(|| KeyFile::check(&server.data_dir).err());
    let of_admin = [longhaul_admin::ADMIN_KEY, longhaul_admin::METRICS_KEY]
        .into_iter()
        .filter_map(|name| longhaul_admin::AdminKeyFile::check(&server.data_dir, name).err());
    let api_keys = api_keys.flatten().map(|error| error.to_string());
    api_keys
        .into_iter()
        .chain(of_admin.map(|error| error.to_string()))
        .collect()
}

/// Why the reserve of a data directory does not fit on its disk now: a server starts, and refuses calls.
pub(crate) fn reserve_doubt(data_dir: &Path, bytes: u64) -> Option<String> {
    let kept = fs::metadata(data_dir.join(RESERVE_FILE)).map_or(0, |file| file.blocks().saturating_mul(512));
    DiskSpace::of(data_dir)?.doubt_reserve(bytes, kept)
}

/// Whether another file is where the server is to make its socket. One that an earlier server has left is replaced.
fn no_socket(server: &ServerConfig) -> Option<String> {
    let Listen::Unix(path) = &server.listen else {
        return None;
    };
    let found = fs::symlink_metadata(path).ok()?;
    (!found.file_type().is_socket()).then(|| {
        format!(
            "cannot listen on unix:{}: another file is there, and no socket; remove it, or name another path",
            path.display()
        )
    })
}

/// Why the clock or the disk is such that no task can be stored.
pub(crate) fn clock_or_disk_fault(server: &ServerConfig) -> Option<String> {
    let of_clock = longhaul_admin::clock_fault(SystemClock.now()).map(str::to_owned);
    of_clock.or_else(|| DiskSpace::of(&server.data_dir)?.refuse_reserve(server.disk_reserve))
}
