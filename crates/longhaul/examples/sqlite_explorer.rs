//! Looks into an SQLite database: queries are tools, tables are resources. `sqlite_explorer DATABASE`, over standard input and output.

use longhaul::{
    CompletionRequest, Error, Json, Prompt, ResourceTemplate, Server, TaskContext, Tool, schemars::JsonSchema,
};
use rusqlite::{Connection, OpenFlags, Row, params_from_iter, types::ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const TABLES: &str = "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view')";
const COLUMNS: &str = "SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1)";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: sqlite_explorer DATABASE")?;
    let db = Database(path.leak());
    let query = Tool::new("query", move |cx, args: Query| db.select(Some(cx), args.sql, None));
    let columns = move |args: Table| db.select(None, COLUMNS.to_owned(), Some(args.table));
    let describe = Tool::new("describe", columns).description("Lists the columns of a table");
    let tables = move || db.select(None, TABLES.to_owned(), None);
    let list_tables = Tool::new("list_tables", tables).description("Lists tables and views");
    let complete = move |request: CompletionRequest| db.complete(request.value);
    let table = ResourceTemplate::new("sqlite://main/{table}", move |args: Table| db.first_rows(args.table));
    let analyze = async |args: Table| format!("Query the table `{}`, and say what stands out.", args.table);
    let server = Server::new("sqlite-explorer", env!("CARGO_PKG_VERSION"))
        .tools([query, describe, list_tables].map(Tool::read_only))
        .template(table.name("table").complete("table", complete))
        .prompt(Prompt::new("analyze", analyze).complete("table", complete));
    Ok(server.serve_stdio().await?)
}

/// Runs one SQL statement that only reads.
#[derive(Deserialize, JsonSchema)]
struct Query {
    /// A statement such as `SELECT * FROM albums WHERE year > 2000`.
    sql: String,
}

#[derive(Deserialize, JsonSchema)]
struct Table {
    /// The name of a table or a view.
    table: String,
}

#[derive(Serialize, JsonSchema)]
struct Rows {
    columns: Vec<String>,
    /// The first 200 rows.
    rows: Vec<Vec<Value>>,
}

/// The path of the database.
#[derive(Clone, Copy)]
struct Database(&'static str);

impl Database {
    /// Runs a statement on a thread that may block and a connection that cannot write, until its call is cancelled.
    #[expect(clippy::disallowed_methods, reason = "an application's own thread")]
    async fn select(self, cx: Option<TaskContext>, sql: String, param: Option<String>) -> Result<Json<Rows>, Error> {
        let select = move || {
            let mut db = Connection::open_with_flags(self.0, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            db.progress_handler(1000, cx.map(|cx| move || cx.is_cancelled()))?;
            let mut statement = db.prepare(&sql)?;
            let columns: Vec<String> = statement.column_names().map(Into::into).collect();
            let width = columns.len();
            let read = |row: &Row<'_>| (0..width).map(|at| row.get_ref(at).map(to_json)).collect();
            let rows = statement.query_map(params_from_iter(param), read)?;
            let rows = rows.take(200).collect::<Result<_, _>>()?;
            Ok::<_, rusqlite::Error>(Json(Rows { columns, rows }))
        };
        Ok(tokio::task::spawn_blocking(select).await??)
    }

    /// The names of tables that begin so.
    async fn complete(self, prefix: String) -> Result<Vec<String>, Error> {
        let Json(tables) = self.select(None, TABLES.to_owned(), None).await?;
        let names = tables.rows.iter().filter_map(|row| row[0].as_str());
        Ok(names.filter(|name| name.starts_with(&prefix)).map(Into::into).collect())
    }

    async fn first_rows(self, table: String) -> Result<Json<Rows>, Error> {
        if !self.complete(table.clone()).await?.contains(&table) {
            return Err(Error::not_found());
        }
        let quoted = table.replace('"', "\"\"");
        self.select(None, format!("SELECT * FROM \"{quoted}\""), None).await
    }
}

fn to_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => json!({"blob": format!("{} bytes", bytes.len())}),
    }
}
