//! What the store is asked, and what it answers.

use std::sync::Arc;

use actix::prelude::*;
use serde_json::Value;
use tokio::sync::oneshot;

use super::StoreError;

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
    pub input: Arc<[Value]>,
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
    /// What is known of it, until it is kept.
    pub record: Record,
    /// Held by the one who makes it.
    pub cancel: oneshot::Sender<()>,
}

/// It came to its end: keep it, unless it is larger than the store. Replaces nothing: ids are drawn anew.
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

/// Deletes a kept response.
#[derive(Message)]
#[rtype(result = "Result<Deleted, StoreError>")]
pub struct Delete(pub Key);

/// What came of asking for a response to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Gone,
    /// It is being made: it would be kept at its end.
    InProgress,
    /// There is none.
    Unknown,
}

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
    /// Its last response is being made.
    InProgress,
    /// It is longer than [`MAX_CHAIN`](super::MAX_CHAIN) or [`MAX_CHAIN_BYTES`](super::MAX_CHAIN_BYTES).
    TooLong,
}

/// The items that a response is made from: the conversation before it, as far as it is kept, and its own input.
#[derive(Message)]
#[rtype(result = "Result<Option<Vec<Value>>, StoreError>")]
pub struct InputItems(pub Key);

/// One item of a kept response, by the item's id.
#[derive(Message)]
#[rtype(result = "Result<Option<Value>, StoreError>")]
pub struct FindItem(pub Key);
