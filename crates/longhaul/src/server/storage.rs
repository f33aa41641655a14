//! Where a server stores its tasks, as its builder is told.

use super::Storage;
use crate::Server;
use longhaul_core::{Store, store::NewNode};
use std::{path::Path, sync::Arc, time::Duration};

impl Server {
    /// Stores tasks in this directory. It is created if needed, and belongs to one process at a time. A task is on disk before its client
    /// learns its id.
    pub fn data_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.storage = Storage::Directory(path.as_ref().to_owned());
        self
    }

    /// Uses the [data directory](Self::data_dir) even if its database was restored from a backup. Without this such a server is read-only, and logs why:
    /// tasks that the backup has as queued or running may have run since, and would run again.
    pub fn accept_restored_database(mut self, accept: bool) -> Self {
        self.accept_restored = accept;
        self
    }

    /// Stores tasks in a store of your own. What survives depends on that store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.storage = Storage::Store(store);
        self
    }

    /// The id of the host that this server runs on, for a [`store`](Self::store) that several servers share. After a crash, work that lives outside of
    /// this process, such as a command, is resumed by a server with the same id. One server at a time uses an id. A [data directory](Self::data_dir) has
    /// an id of its own. Without either, each start is a new host. A [`NewNode`] also has what operators see of the server.
    ///
    /// ```
    /// use longhaul::{Server, internals::core::{HostId, store::NewNode}};
    ///
    /// let node = NewNode {
    ///     address: Some("http://10.0.0.1:7411/mcp".into()),
    ///     ..HostId("web1".into()).into()
    /// };
    /// let server = Server::new("jobs", "1.0.0").host(node);
    /// ```
    pub fn host(mut self, node: impl Into<NewNode>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// How long another [host](Self::host) of the store must have been without a server before it is given up; by default ten minutes. Then the other servers end
    /// the attempts that are bound to it, or retry them.
    pub fn lost_after(mut self, time: Duration) -> Self {
        self.lost_after = time;
        self
    }

    /// For tests: wraps the store in a layer, for example one that fails now and then. A [`StoreLayer`](longhaul_core::StoreLayer)
    /// implements only the methods that it changes.
    pub fn wrap_store(mut self, wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send + 'static) -> Self {
        self.wrap_store = Some(Box::new(wrap));
        self
    }

    /// Puts a layer around the store as the engine sees it: in front of the plain calls that are kept in memory, which a layer of
    /// [`wrap_store`](Self::wrap_store) does not see. To count what becomes of all calls, for instance.
    pub fn wrap_engine_store(mut self, wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send + 'static) -> Self {
        self.wrap_engine_store = Some(Box::new(wrap));
        self
    }
}
