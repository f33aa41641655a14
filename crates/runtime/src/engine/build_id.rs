//! Which build of the program runs.

use crate::Ports;
use longhaul_core::{CodeFingerprint, SpecId};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// The name of builds whose name is unknown: they all count as the same build.
const UNKNOWN: &str = "unknown";

type Find = Box<dyn FnOnce() -> Option<String> + Send>;

/// Names the build of the program that durable tools are a part of. A task that is blocked is tried again as soon as another build, or another
/// definition of its tool, is there to run it.
#[derive(Clone)]
pub struct BuildId(Arc<Build>);

struct Build {
    name: OnceLock<Arc<str>>,
    find: Mutex<Option<Find>>,
}

impl BuildId {
    /// A build of this name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(Build {
            name: OnceLock::from(name.into()),
            find: Mutex::new(None),
        }))
    }

    /// A build whose name is found out when it is first needed, on a thread that may block: most servers never have a task that is blocked.
    /// `None` if it cannot be found out.
    pub fn lazy(find: impl FnOnce() -> Option<String> + Send + 'static) -> Self {
        Self(Arc::new(Build {
            name: OnceLock::new(),
            find: Mutex::new(Some(Box::new(find))),
        }))
    }

    /// What names the code of a tool of this definition.
    pub(crate) async fn fingerprint(&self, ports: &Ports, spec: &SpecId) -> CodeFingerprint {
        let name = match self.0.name.get() {
            Some(name) => Arc::clone(name),
            None => self.find(ports).await,
        };
        format!("{} {name}", spec.as_str()).into()
    }

    async fn find(&self, ports: &Ports) -> Arc<str> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let build = Arc::clone(&self.0);
        ports.spawner.spawn_blocking(Box::new(move || {
            let find = || {
                let find = build.find.lock().take();
                find.and_then(|find| find()).map_or_else(|| UNKNOWN.into(), Arc::from)
            };
            let _ = tell.send(Arc::clone(build.name.get_or_init(find)));
        }));
        told.await.unwrap_or_else(|_| UNKNOWN.into())
    }
}
