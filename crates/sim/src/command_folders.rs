//! The folders of commands on the disks of all hosts.

use longhaul_core::{HostId, TaskId};
use longhaul_runtime::ExecutorAttempt;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// What is on the disks of all hosts: the folder of each attempt.
#[derive(Default)]
pub(crate) struct CommandFolders(Mutex<BTreeMap<(TaskId, u32), Folder>>);

struct Folder {
    host: HostId,
    /// When its command ends, in milliseconds; `None` if none was started.
    ends_at: Option<u64>,
}

impl CommandFolders {
    pub(crate) fn prepare(&self, host: &HostId, attempt: &ExecutorAttempt) {
        let folder = Folder {
            host: host.clone(),
            ends_at: None,
        };
        self.0.lock().insert((attempt.task.clone(), attempt.epoch), folder);
    }

    /// Starts a command. Returns the attempts of its task whose commands still run.
    pub(crate) fn start(&self, attempt: &ExecutorAttempt, now: u64, lasts: u64) -> Vec<u32> {
        let mut folders = self.0.lock();
        let of_task = (attempt.task.clone(), 0)..=(attempt.task.clone(), u32::MAX);
        let running = folders.range(of_task).filter(|(_, folder)| folder.runs_at(now));
        let running = running.map(|((_, epoch), _)| *epoch).collect();
        if let Some(folder) = folders.get_mut(&(attempt.task.clone(), attempt.epoch)) {
            folder.ends_at = Some(now + lasts);
        }
        running
    }

    /// The host that has the folder of an attempt.
    pub(crate) fn host_of(&self, task: &TaskId, epoch: u32) -> Option<HostId> {
        let folders = self.0.lock();
        folders.get(&(task.clone(), epoch)).map(|folder| folder.host.clone())
    }

    /// The host that has the folder of an attempt, and the end of its command if one was started.
    pub(crate) fn folder(&self, attempt: &ExecutorAttempt) -> Option<(HostId, Option<u64>)> {
        let folders = self.0.lock();
        let folder = folders.get(&(attempt.task.clone(), attempt.epoch))?;
        Some((folder.host.clone(), folder.ends_at))
    }

    /// The tasks that have folders, with their hosts.
    pub(crate) fn all(&self) -> Vec<(HostId, TaskId)> {
        let folders = self.0.lock();
        let all = folders.iter();
        all.map(|((task, _), folder)| (folder.host.clone(), task.clone()))
            .collect()
    }

    /// Whether a host has a folder of a task.
    pub(crate) fn has_folder(&self, host: &HostId, task: &TaskId) -> bool {
        let folders = self.0.lock();
        let mut of_task = folders.range((task.clone(), 0)..=(task.clone(), u32::MAX));
        of_task.any(|(_, folder)| folder.host == *host)
    }

    /// Removes a host's folders of a task.
    pub(crate) fn remove(&self, host: &HostId, task: &TaskId) {
        let mut folders = self.0.lock();
        folders.retain(|(of, _), folder| of != task || folder.host != *host);
    }

    pub(crate) fn kill(&self, attempt: &ExecutorAttempt, now: u64) {
        if let Some(folder) = self.0.lock().get_mut(&(attempt.task.clone(), attempt.epoch)) {
            folder.ends_at = folder.ends_at.map(|end| end.min(now));
        }
    }
}

impl Folder {
    fn runs_at(&self, now: u64) -> bool {
        self.ends_at.is_some_and(|end| end > now)
    }
}
