//! The rows of one table, read by a thread of their own while those before are sent.

use super::{MoveError, MoveProgress, tables::Table};
use crate::{
    executor::blocking,
    statement::{Fault, Tx, encode},
};
use longhaul_store::{Relocation, SqliteOpenError};
use parking_lot::Mutex;
use rusqlite::types::Value;
use std::{error::Error, pin::pin, sync::Arc};
use tokio::sync::mpsc;
use tokio_postgres::{
    binary_copy::BinaryCopyInWriter,
    types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};

/// So many rows are read at once.
const CHUNK: usize = 500;

type Rows = Vec<Vec<SourceValue>>;

/// Copies the rows of a table.
pub(super) async fn copy(
    tx: &Tx<'_>,
    source: &Arc<Mutex<Relocation>>,
    table: Table,
    progress: &mut impl FnMut(MoveProgress),
) -> Result<(), MoveError> {
    let (name, columns) = (table.name, table.columns());
    let fault = Fault::from;
    let client = tx.client();
    let described = client
        .prepare(&format!("SELECT {columns} FROM {name}"))
        .await
        .map_err(fault)?;
    let types: Vec<Type> = described
        .columns()
        .iter()
        .map(|column| column.type_().clone())
        .collect();
    let sink = client
        .copy_in(&format!("COPY {name} ({columns}) FROM STDIN BINARY"))
        .await
        .map_err(fault)?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    let (send, mut chunks) = mpsc::channel(2);
    let source = Arc::clone(source);
    let reading = blocking(move || read(&source.lock(), &table, &send));
    let mut rows = 0;
    while let Some(chunk) = chunks.recv().await {
        rows += chunk.len() as u64;
        for row in &chunk {
            let values: Vec<&(dyn ToSql + Sync)> = row.iter().map(|value| value as _).collect();
            writer.as_mut().write(&values).await.map_err(fault)?;
        }
        progress(MoveProgress { table: name, rows });
    }
    reading
        .await
        .map_err(|stopped| MoveError::Database(stopped.to_string()))??;
    writer.finish().await.map_err(fault)?;
    Ok(())
}

/// Reads all rows, until nobody wants them any more.
fn read(source: &Relocation, table: &Table, send: &mpsc::Sender<Rows>) -> Result<(), SqliteOpenError> {
    let read = || -> rusqlite::Result<()> {
        let mut statement = source.connection().prepare(&table.select())?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut chunk = Rows::new();
        while let Some(row) = rows.next()? {
            chunk.push(
                (0..columns)
                    .map(|column| row.get(column).map(SourceValue))
                    .collect::<Result<_, _>>()?,
            );
            if chunk.len() == CHUNK && send.blocking_send(std::mem::take(&mut chunk)).is_err() {
                return Ok(());
            }
        }
        if !chunk.is_empty() {
            let _ = send.blocking_send(chunk);
        }
        Ok(())
    };
    read().map_err(|error| source.because(error))
}

/// A value of the source, which is sent as the type of its column here.
#[derive(Debug)]
struct SourceValue(Value);

impl ToSql for SourceValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (&self.0, kind) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Integer(value), &Type::INT2) => i16::try_from(*value)?.to_sql(kind, out),
            (Value::Integer(value), &Type::INT8) => value.to_sql(kind, out),
            (Value::Real(value), &Type::FLOAT8) => value.to_sql(kind, out),
            (Value::Text(value), &Type::TEXT) => encode(value).to_sql(kind, out),
            (Value::Blob(value), &Type::BYTEA) => value.to_sql(kind, out),
            (value, kind) => Err(format!("a value of type {} cannot be stored as {kind}", value.data_type()).into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
