//! Reading: short reads on the caller's thread, long ones on a thread of their own.

use crate::sqlite::{Fault, SqliteOpenError, connection};
use longhaul_core::store::StoreError;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;
use std::{
    path::Path,
    sync::mpsc::{Sender, channel},
    thread::{Builder, JoinHandle},
};
use tokio::sync::oneshot;

/// Connections for concurrent readers; each costs its cache. Another caller waits some microseconds.
const MOST_CONNECTIONS: usize = 4;

type ReadJob = Box<dyn FnOnce(&Connection) + Send>;

/// The connections that read.
pub(crate) struct Readers {
    connections: Vec<Mutex<Connection>>,
    questions: Option<Sender<ReadJob>>,
    thread: Option<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn open(path: &Path) -> Result<Self, SqliteOpenError> {
        let count = std::thread::available_parallelism()
            .map_or(2, usize::from)
            .clamp(2, MOST_CONNECTIONS);
        let pool = (0..count).map(|_| connection::reader(path).map(Mutex::new));
        let connections = pool.collect::<Result<_, _>>()?;
        let patient = connection::reader(path)?;
        let (questions, asked) = channel::<ReadJob>();
        let thread = Builder::new()
            .name("longhaul-reader".to_owned())
            .spawn(move || asked.iter().for_each(|question| question(&patient)))
            .map_err(|source| SqliteOpenError::Io {
                action: "start the reader of",
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            connections,
            questions: Some(questions),
            thread: Some(thread),
        })
    }

    /// Runs a read of a few microseconds on the caller's thread.
    pub(crate) fn at_once<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        question(&self.free_connection()).map_err(|error| Fault::from(error).to_store_error())
    }

    /// Runs a read whose cost grows with its result, without blocking the caller's thread.
    pub(crate) async fn in_turn<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (waiting, answer) = oneshot::channel();
        let question: ReadJob = Box::new(move |connection| {
            let _ = waiting.send(question(connection).map_err(|error| Fault::from(error).to_store_error()));
        });
        let questions = self.questions.as_ref().ok_or(StoreError::Closed)?;
        questions.send(question).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// The first is preferred, so that its cache is warm and the others' stay small.
    fn free_connection(&self) -> MutexGuard<'_, Connection> {
        let free = self.connections.iter().find_map(Mutex::try_lock);
        free.unwrap_or_else(|| self.connections[0].lock())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
