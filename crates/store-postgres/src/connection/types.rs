//! The types of the parameters of statements, where none can be prepared.
//!
//! A pooler in transaction mode may send each transaction to another session of the database, which does not know what was prepared in the one before. So
//! behind one, each statement is sent whole, with the types of its parameters. They are learned from the database itself, once for each statement.

use super::Connections;
use crate::statement::{Fault, fault::NO_DIRECT, transaction::ParamTypes};
use longhaul_core::BoxFuture;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio_postgres::types::Type;

/// The types of all statements so far.
pub(crate) struct Types {
    /// Without a pooler.
    direct: Connections,
    known: Mutex<HashMap<String, Arc<[Type]>>>,
}

impl Types {
    pub(crate) fn new(direct: Connections) -> Self {
        Self {
            direct,
            known: Mutex::default(),
        }
    }

    async fn learn(&self, sql: &str) -> Result<Arc<[Type]>, Fault> {
        if let Some(known) = self.known.lock().get(sql) {
            return Ok(Arc::clone(known));
        }
        let learned = self.ask(sql).await.map_err(|fault| match fault {
            Fault::Outage(_) => Fault::Unusable(NO_DIRECT),
            other => other,
        })?;
        self.known.lock().insert(sql.to_owned(), Arc::clone(&learned));
        Ok(learned)
    }

    async fn ask(&self, sql: &str) -> Result<Arc<[Type]>, Fault> {
        let connection = self.direct.get().await?;
        let learned = connection.types(sql).await;
        connection.settle(learned)
    }
}

impl ParamTypes for Types {
    fn of<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Arc<[Type]>, Fault>> {
        Box::pin(self.learn(sql))
    }
}
