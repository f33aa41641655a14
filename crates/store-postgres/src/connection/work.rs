//! Changes that are transactions of their own.

use super::{Connections, locks};
use crate::statement::{Execute, Fault, Param, Retries, Tx};
use longhaul_core::store::StoreError;

/// A change that is tried again when others were in its way, or the database could not be reached.
pub(crate) trait Work: Sync {
    /// What it answers.
    type Answer: Send;

    /// Makes the change in a transaction, which is committed if it succeeds.
    fn run(&self, tx: &Tx<'_>) -> impl Future<Output = Result<Self::Answer, Fault>> + Send;
}

/// Makes a change, and returns once it is committed.
pub(crate) async fn transact<W: Work>(connections: &Connections, work: &W) -> Result<W::Answer, StoreError> {
    let mut retries = Retries::default();
    loop {
        match transact_once(connections, work).await {
            Err(fault) => {
                let fault = locks::named(connections, fault).await;
                retries.wait(fault).await.map_err(Fault::into_store_error)?;
            }
            Ok(answer) => return Ok(answer),
        }
    }
}

async fn transact_once<W: Work>(connections: &Connections, work: &W) -> Result<W::Answer, Fault> {
    let mut connection = connections.get().await?;
    let tx = connection.begin();
    let outcome = async {
        let answer = work.run(&tx).await?;
        tx.commit().await?;
        Ok(answer)
    };
    let outcome = outcome.await;
    connection.settle(outcome)
}

/// A change by one statement.
pub(crate) struct Statement<'a> {
    pub(crate) sql: &'static str,
    pub(crate) params: Vec<Param<'a>>,
}

impl Work for Statement<'_> {
    type Answer = ();

    async fn run(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        tx.execute(self.sql, &self.params).await.map(drop)
    }
}

/// Waits until no other transaction has this turn, which lasts until the commit.
pub(crate) async fn take_turn(tx: &Tx<'_>, name: &str) -> Result<(), Fault> {
    tx.rows("SELECT 1 FROM turns WHERE name = $1 FOR UPDATE", &[&name])
        .await
        .map(drop)
}
