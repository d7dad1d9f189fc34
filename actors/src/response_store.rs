//! The response store: what the Responses API keeps between requests. The HTTP surface asks it.
//!
//! An actor with a thread of its own, since SQLite blocks. It holds answers that are whole, in memory or in a file that
//! survives a restart, and knows which ones are being made, so that they can be looked at and cancelled. A tenant never
//! meets another's: every message names one, and what is not its own does not exist for it.
//!
//! What it holds is bounded in bytes and age. At the bound the oldest response of the tenant that holds most goes; what
//! is larger than the bound by itself is not kept, so that it costs nobody theirs.

mod database;
mod messages;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use actix::prelude::*;
use rusqlite::Connection;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::oneshot;

use database::NewRow;
pub use messages::{
    Begin, Cancel, Cancelled, Conversation, Delete, Deleted, Fetch, FindItem, Forget, InputItems, Keep, Key,
    Recall, Record,
};

/// The most responses that one conversation is followed back through.
pub const MAX_CHAIN: usize = 1024;
/// The most bytes of JSON that a conversation is read back from.
pub const MAX_CHAIN_BYTES: usize = 32 << 20;

/// Where responses are kept, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Folder of the database; without one it is in memory, and ends with the process.
    pub dir: Option<PathBuf>,
    /// The most bytes of all responses.
    pub max_bytes: u64,
    /// How old a response gets.
    pub max_age_s: u64,
}

/// Why the store cannot do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder or file cannot be used.
    #[error("cannot use {}: {error}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The system's word for it.
        error: std::io::Error,
    },
    /// The database refused; the text is SQLite's.
    #[error("the response store failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// A row is not what was written.
    #[error("a stored response is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// The database is of a later program.
    #[error("the response store has format {found}, and this program reads {known}: choose another folder")]
    Format {
        /// Its format.
        found: i64,
        /// Ours.
        known: i64,
    },
}

/// The actor.
pub struct ResponseStore {
    database: Connection,
    options: StoreOptions,
    /// Bytes that each tenant holds.
    held: HashMap<String, u64>,
    /// Responses in the making; bounded by the server's connections.
    running: HashMap<(String, String), Running>,
}

struct Running {
    record: Record,
    /// `None` once it was fired.
    cancel: Option<oneshot::Sender<()>>,
    /// Who wait for the end.
    waiting: Vec<oneshot::Sender<Value>>,
}

impl ResponseStore {
    /// Opens the database and starts the actor on a thread of its own.
    ///
    /// # Errors
    /// A folder or file that cannot be used, or that a later program wrote.
    pub fn start(options: StoreOptions) -> Result<Addr<Self>, StoreError> {
        let store = Self::open(options)?;
        Ok(Self::start_in_arbiter(&Arbiter::new().handle(), |_| store))
    }

    fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let database = database::open(options.dir.as_deref())?;
        let held = database::held(&database)?;
        Ok(Self { database, options, held, running: HashMap::new() })
    }

    /// Keeps a response at `now`, in seconds since 1970, and makes room for it.
    fn keep(&mut self, record: &Record, now: u64) -> Result<(), StoreError> {
        self.expire(now)?;
        let row = NewRow::of(record)?;
        let bytes = row.bytes();
        if bytes > self.options.max_bytes {
            return Ok(());
        }
        database::insert(&mut self.database, record, &row, now)?;
        *self.held.entry(record.tenant.clone()).or_default() += bytes;
        while self.held.values().sum::<u64>() > self.options.max_bytes {
            let Some(tenant) = self.held.iter().max_by_key(|(_, bytes)| **bytes).map(|(name, _)| name) else {
                break;
            };
            let Some((id, bytes)) = database::oldest(&self.database, tenant)? else { break };
            let tenant = tenant.clone();
            database::delete(&self.database, &tenant, &id)?;
            self.release(&tenant, bytes);
        }
        Ok(())
    }

    /// Drops what is too old.
    fn expire(&mut self, now: u64) -> Result<(), StoreError> {
        if database::expire(&self.database, now.saturating_sub(self.options.max_age_s))? > 0 {
            self.held = database::held(&self.database)?;
        }
        Ok(())
    }

    fn release(&mut self, tenant: &str, bytes: u64) {
        if let Some(held) = self.held.get_mut(tenant) {
            *held = held.saturating_sub(bytes);
        }
    }

    /// Items of the conversation that ends with a response, itself included.
    fn recall(&self, key: &Key) -> Result<Conversation, StoreError> {
        // Those before it have ended: nobody goes on from one that has not.
        if self.running(key).is_some() {
            return Ok(Conversation::InProgress);
        }
        let mut turns = Vec::new();
        let mut next = Some(key.id.clone());
        let mut bytes = 0;
        let mut missing = None;
        while let Some(id) = next {
            let Some(row) = database::find(&self.database, &key.tenant, &id)? else {
                missing = Some(id);
                break;
            };
            bytes += row.document.len() + row.input.len();
            if turns.len() == MAX_CHAIN || bytes > MAX_CHAIN_BYTES {
                return Ok(Conversation::TooLong);
            }
            next = row.previous.clone();
            turns.push(row);
        }
        let mut items = Vec::new();
        for turn in turns.into_iter().rev() {
            items.extend(turn.input()?);
            items.extend(turn.output()?);
        }
        Ok(match missing {
            None => Conversation::Whole(items),
            Some(missing) => Conversation::Broken { missing, items },
        })
    }

    fn input_items(&self, key: &Key) -> Result<Option<Vec<Value>>, StoreError> {
        let (previous, input) = match self.running(key) {
            Some(Running { record, .. }) => (record.previous.clone(), record.input.to_vec()),
            None => match database::find(&self.database, &key.tenant, &key.id)? {
                Some(row) => (row.previous.clone(), row.input()?),
                None => return Ok(None),
            },
        };
        let mut items = match previous {
            None => Vec::new(),
            Some(previous) => match self.recall(&Key { id: previous, ..key.clone() })? {
                Conversation::Whole(items) | Conversation::Broken { items, .. } => items,
                Conversation::InProgress | Conversation::TooLong => Vec::new(),
            },
        };
        items.extend(input);
        Ok(Some(items))
    }

    /// The response, if it is in the making.
    fn running(&self, Key { tenant, id }: &Key) -> Option<&Running> {
        self.running.get(&(tenant.clone(), id.clone()))
    }
}

impl Actor for ResponseStore {
    type Context = Context<Self>;
}

impl Handler<Begin> for ResponseStore {
    type Result = ();

    fn handle(&mut self, Begin { record, cancel }: Begin, _: &mut Self::Context) {
        let key = (record.tenant.clone(), record.id.clone());
        self.running.insert(key, Running { record, cancel: Some(cancel), waiting: Vec::new() });
    }
}

impl Handler<Keep> for ResponseStore {
    type Result = Result<(), StoreError>;

    fn handle(&mut self, Keep(record): Keep, _: &mut Self::Context) -> Self::Result {
        let kept = self.keep(&record, now());
        if let Some(running) = self.running.remove(&(record.tenant, record.id)) {
            for waiting in running.waiting {
                // One that is gone does not want to know.
                let _ = waiting.send(record.document.clone());
            }
        }
        kept
    }
}

impl Handler<Forget> for ResponseStore {
    type Result = ();

    fn handle(&mut self, Forget(key): Forget, _: &mut Self::Context) {
        self.running.remove(&(key.tenant, key.id));
    }
}

impl Handler<Fetch> for ResponseStore {
    type Result = Result<Option<Value>, StoreError>;

    fn handle(&mut self, Fetch(key): Fetch, _: &mut Self::Context) -> Self::Result {
        self.expire(now())?;
        if let Some(running) = self.running(&key) {
            return Ok(Some(running.record.document.clone()));
        }
        let row = database::find(&self.database, &key.tenant, &key.id)?;
        row.map(|row| Ok(serde_json::from_str(&row.document)?)).transpose()
    }
}

impl Handler<Delete> for ResponseStore {
    type Result = Result<Deleted, StoreError>;

    fn handle(&mut self, Delete(key): Delete, _: &mut Self::Context) -> Self::Result {
        if self.running(&key).is_some() {
            return Ok(Deleted::InProgress);
        }
        let Some(bytes) = database::delete(&self.database, &key.tenant, &key.id)? else {
            return Ok(Deleted::Unknown);
        };
        self.release(&key.tenant, bytes);
        Ok(Deleted::Gone)
    }
}

impl Handler<Cancel> for ResponseStore {
    type Result = Result<Cancelled, StoreError>;

    fn handle(&mut self, Cancel(key): Cancel, _: &mut Self::Context) -> Self::Result {
        if let Some(running) = self.running.get_mut(&(key.tenant.clone(), key.id.clone())) {
            let (waiting, ended) = oneshot::channel();
            running.waiting.push(waiting);
            if let Some(cancel) = running.cancel.take() {
                // Whoever made it may have gone a moment ago; then it is forgotten next.
                let _ = cancel.send(());
            }
            return Ok(Cancelled::Ending(ended));
        }
        Ok(match database::find(&self.database, &key.tenant, &key.id)? {
            Some(_) => Cancelled::Over,
            None => Cancelled::Unknown,
        })
    }
}

impl Handler<Recall> for ResponseStore {
    type Result = Result<Conversation, StoreError>;

    fn handle(&mut self, Recall(key): Recall, _: &mut Self::Context) -> Self::Result {
        self.expire(now())?;
        self.recall(&key)
    }
}

impl Handler<InputItems> for ResponseStore {
    type Result = Result<Option<Vec<Value>>, StoreError>;

    fn handle(&mut self, InputItems(key): InputItems, _: &mut Self::Context) -> Self::Result {
        self.expire(now())?;
        self.input_items(&key)
    }
}

impl Handler<FindItem> for ResponseStore {
    type Result = Result<Option<Value>, StoreError>;

    fn handle(&mut self, FindItem(Key { tenant, id }): FindItem, _: &mut Self::Context) -> Self::Result {
        self.expire(now())?;
        let Some(row) = database::find_by_item(&self.database, &tenant, &id)? else { return Ok(None) };
        let mut items = row.input()?;
        items.extend(row.output()?);
        Ok(items.into_iter().find(|item| item["id"] == id.as_str()))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
