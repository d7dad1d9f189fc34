//! The response store: what the Responses API keeps between requests. The HTTP surface asks it.
//!
//! An actor with a thread of its own, since SQLite blocks. It holds answers that are whole, in memory or in a file that
//! survives a restart, and knows which ones are being made, so that they can be looked at and cancelled. A tenant never
//! meets another's: every message names one, and what is not its own does not exist for it.
//!
//! What it holds is bounded in bytes and age. At the bound the oldest response of the tenant that holds most goes.

mod database;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use actix::prelude::*;
use rusqlite::Connection;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::oneshot;

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

/// A response as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its id; nobody could guess it.
    pub id: String,
    /// Whose it is, by name: numbers change with the process.
    pub tenant: String,
    /// The response that it goes on from.
    pub previous: Option<String>,
    /// The response as clients get it. Its `output` is a list of items with ids.
    pub document: Value,
    /// Items of the request's own input, with ids.
    pub input: Vec<Value>,
}

/// What can be asked about one response: by whom, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// By name.
    pub tenant: String,
    /// The response.
    pub id: String,
}

/// A response begins to be made. `cancel` is fired if somebody asks for its end.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Begin {
    /// Which one.
    pub key: Key,
    /// What is known of it, until it is kept.
    pub document: Value,
    /// Held by the one who makes it.
    pub cancel: oneshot::Sender<()>,
}

/// It came to its end: keep it. Replaces nothing: ids are drawn anew.
#[derive(Message)]
#[rtype(result = "Result<(), StoreError>")]
pub struct Keep(pub Record);

/// The one who made it went away before its end.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Forget(pub Key);

/// The response, kept or in the making.
#[derive(Message)]
#[rtype(result = "Result<Option<Value>, StoreError>")]
pub struct Fetch(pub Key);

/// Deletes a kept response; false if there is none.
#[derive(Message)]
#[rtype(result = "Result<bool, StoreError>")]
pub struct Delete(pub Key);

/// Ends a response that is being made.
#[derive(Message)]
#[rtype(result = "Result<Cancelled, StoreError>")]
pub struct Cancel(pub Key);

/// What came of asking for an end.
#[derive(Debug)]
pub enum Cancelled {
    /// It ends. The receiver gets what is kept of it; it is dropped if nothing is.
    Ending(oneshot::Receiver<Value>),
    /// It had ended before.
    Over,
    /// There is none.
    Unknown,
}

/// The items of a conversation up to and including one response, oldest first.
#[derive(Message)]
#[rtype(result = "Result<Conversation, StoreError>")]
pub struct Recall(pub Key);

/// What is kept of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversation {
    /// All of it, back to its beginning.
    Whole(Vec<Value>),
    /// A response that it goes on from is not there. The items are those after it.
    Broken {
        /// Which one.
        missing: String,
        /// In order.
        items: Vec<Value>,
    },
    /// It is longer than [`MAX_CHAIN`] or [`MAX_CHAIN_BYTES`].
    TooLong,
}

/// The items that a response was made from: the conversation before it, as far as it is kept, and its own input.
#[derive(Message)]
#[rtype(result = "Result<Option<Vec<Value>>, StoreError>")]
pub struct InputItems(pub Key);

/// One item of a kept response, by the item's id.
#[derive(Message)]
#[rtype(result = "Result<Option<Value>, StoreError>")]
pub struct FindItem(pub Key);

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
    document: Value,
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
        let bytes = database::insert(&mut self.database, record, now)?;
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
        let Some(row) = database::find(&self.database, &key.tenant, &key.id)? else { return Ok(None) };
        let mut items = match &row.previous {
            None => Vec::new(),
            Some(previous) => match self.recall(&Key { id: previous.clone(), ..key.clone() })? {
                Conversation::Whole(items) | Conversation::Broken { items, .. } => items,
                Conversation::TooLong => Vec::new(),
            },
        };
        items.extend(row.input()?);
        Ok(Some(items))
    }
}

impl Actor for ResponseStore {
    type Context = Context<Self>;
}

impl Handler<Begin> for ResponseStore {
    type Result = ();

    fn handle(&mut self, Begin { key, document, cancel }: Begin, _: &mut Self::Context) {
        let running = Running { document, cancel: Some(cancel), waiting: Vec::new() };
        self.running.insert((key.tenant, key.id), running);
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
        if let Some(running) = self.running.get(&(key.tenant.clone(), key.id.clone())) {
            return Ok(Some(running.document.clone()));
        }
        let row = database::find(&self.database, &key.tenant, &key.id)?;
        row.map(|row| Ok(serde_json::from_str(&row.document)?)).transpose()
    }
}

impl Handler<Delete> for ResponseStore {
    type Result = Result<bool, StoreError>;

    fn handle(&mut self, Delete(Key { tenant, id }): Delete, _: &mut Self::Context) -> Self::Result {
        let bytes = database::delete(&self.database, &tenant, &id)?;
        if let Some(bytes) = bytes {
            self.release(&tenant, bytes);
        }
        Ok(bytes.is_some())
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
