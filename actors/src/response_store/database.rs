//! Responses as rows. Every statement names a tenant, but for those that look after all.

use std::collections::HashMap;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::{Record, StoreError};

/// The file's name in its folder.
const NAME: &str = "responses.sqlite";
/// What `PRAGMA user_version` says of a database that this program wrote.
const FORMAT: i64 = 1;
/// How long another process may hold the file.
const BUSY: Duration = Duration::from_secs(5);
/// What a row takes beside its texts, about.
const ROW_BYTES: u64 = 512;

const SCHEMA: &str = "
    CREATE TABLE responses (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        kept_at INTEGER NOT NULL,
        previous TEXT,
        document TEXT NOT NULL,
        input TEXT NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX responses_by_tenant ON responses (tenant, number);
    CREATE INDEX responses_by_age ON responses (kept_at);
    CREATE TABLE items (
        id TEXT NOT NULL,
        response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE
    ) STRICT;
    CREATE INDEX items_by_id ON items (id);
    CREATE INDEX items_by_response ON items (response);
    PRAGMA user_version = 1;
";

/// A row, its JSON unread.
pub(super) struct Row {
    pub(super) previous: Option<String>,
    pub(super) document: String,
    pub(super) input: String,
}

impl Row {
    /// Items of the request's own input.
    pub(super) fn input(&self) -> Result<Vec<Value>, StoreError> {
        Ok(serde_json::from_str(&self.input)?)
    }

    /// Items of the answer.
    pub(super) fn output(&self) -> Result<Vec<Value>, StoreError> {
        let mut document: Value = serde_json::from_str(&self.document)?;
        Ok(serde_json::from_value(document["output"].take())?)
    }
}

/// Opens the database of a folder, which is made if there is none, or one in memory.
pub(super) fn open(dir: Option<&Path>) -> Result<Connection, StoreError> {
    let database = match dir {
        Some(dir) => Connection::open(prepare(dir)?)?,
        None => Connection::open_in_memory()?,
    };
    database.busy_timeout(BUSY)?;
    database.pragma_update(None, "foreign_keys", true)?;
    // What was deleted is not left for others to read.
    database.pragma_update(None, "secure_delete", true)?;
    if dir.is_some() {
        // A commit costs no wait for the disk; a crash of the machine may cost the last ones, never the database.
        database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        database.pragma_update(None, "synchronous", "NORMAL")?;
    }
    match database.pragma_query_value(None, "user_version", |row| row.get(0))? {
        0 => database.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;"))?,
        FORMAT => {}
        found => return Err(StoreError::Format { found, known: FORMAT }),
    }
    Ok(database)
}

/// The path of the file. It is made for its owner alone before SQLite, which takes over its mode, sees it.
fn prepare(dir: &Path) -> Result<PathBuf, StoreError> {
    let path = dir.join(NAME);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir).and_then(|()| {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map(drop)
    });
    made.map_err(|error| StoreError::File { path: path.clone(), error })?;
    Ok(path)
}

/// Bytes that each tenant holds.
pub(super) fn held(database: &Connection) -> Result<HashMap<String, u64>, StoreError> {
    let mut statement = database.prepare("SELECT tenant, sum(bytes) FROM responses GROUP BY tenant")?;
    let sums = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(sums.collect::<Result<_, _>>()?)
}

/// What a response is written as.
pub(super) struct NewRow {
    document: String,
    input: String,
}

impl NewRow {
    pub(super) fn of(record: &Record) -> Result<Self, StoreError> {
        Ok(Self { document: record.document.to_string(), input: serde_json::to_string(&*record.input)? })
    }

    /// What it counts for.
    pub(super) fn bytes(&self) -> u64 {
        (self.document.len() + self.input.len()) as u64 + ROW_BYTES
    }
}

/// Adds a response.
pub(super) fn insert(
    database: &mut Connection,
    record: &Record,
    row: &NewRow,
    now: u64,
) -> Result<(), StoreError> {
    let NewRow { document, input } = row;
    let transaction = database.transaction()?;
    transaction
        .prepare(
            "INSERT INTO responses (id, tenant, kept_at, previous, document, input, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![record.id, record.tenant, now, record.previous, document, input, row.bytes()])?;
    let number = transaction.last_insert_rowid();
    {
        let output = record.document["output"].as_array().into_iter().flatten();
        let ids = record.input.iter().chain(output).filter_map(|item| item["id"].as_str());
        let mut statement = transaction.prepare("INSERT INTO items (id, response) VALUES (?1, ?2)")?;
        for id in ids {
            statement.execute(params![id, number])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// A tenant's response.
pub(super) fn find(database: &Connection, tenant: &str, id: &str) -> Result<Option<Row>, StoreError> {
    const FIND: &str = "SELECT previous, document, input FROM responses WHERE id = ?1 AND tenant = ?2";
    query_row(database, FIND, id, tenant)
}

/// The newest of a tenant's responses that holds an item of this id.
pub(super) fn find_by_item(database: &Connection, tenant: &str, id: &str) -> Result<Option<Row>, StoreError> {
    const FIND: &str = "SELECT previous, document, input FROM responses JOIN items ON items.response = number
         WHERE items.id = ?1 AND tenant = ?2 ORDER BY number DESC LIMIT 1";
    query_row(database, FIND, id, tenant)
}

fn query_row(database: &Connection, query: &str, id: &str, tenant: &str) -> Result<Option<Row>, StoreError> {
    let row = database.prepare(query)?.query_row(params![id, tenant], |row| {
        Ok(Row { previous: row.get(0)?, document: row.get(1)?, input: row.get(2)? })
    });
    Ok(row.optional()?)
}

/// Deletes a tenant's response; returns what it counted for, if it was there.
pub(super) fn delete(database: &Connection, tenant: &str, id: &str) -> Result<Option<u64>, StoreError> {
    let bytes = database
        .prepare("DELETE FROM responses WHERE id = ?1 AND tenant = ?2 RETURNING bytes")?
        .query_row(params![id, tenant], |row| row.get(0));
    Ok(bytes.optional()?)
}

/// A tenant's oldest response, and what it counts for.
pub(super) fn oldest(database: &Connection, tenant: &str) -> Result<Option<(String, u64)>, StoreError> {
    let oldest = database
        .prepare("SELECT id, bytes FROM responses WHERE tenant = ?1 ORDER BY number LIMIT 1")?
        .query_row([tenant], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(oldest.optional()?)
}

/// Deletes what was kept before a time; returns how many that were.
pub(super) fn expire(database: &Connection, before: u64) -> Result<usize, StoreError> {
    Ok(database.prepare("DELETE FROM responses WHERE kept_at < ?1")?.execute([before])?)
}
