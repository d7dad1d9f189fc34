//! The response store, as the one who makes a response meets it.

use std::future::pending;
use std::sync::Arc;

use actix::Addr;
use serde_json::Value;
use tokio::sync::oneshot;
use troupe_actors::response_store::{Begin, Forget, Keep, Key, Record, ResponseStore};

use super::kept;
use crate::http::error::ApiError;

/// Keeps one response. Dropped before the end, it takes back that there is one.
pub(super) struct Keeper {
    store: Addr<ResponseStore>,
    key: Key,
    previous: Option<String>,
    input: Arc<[Value]>,
    state: State,
}

/// How far it has come.
enum State {
    /// The store does not know of it.
    Unknown,
    /// It was announced. The receiver hears of its cancellation.
    Running(oneshot::Receiver<()>),
    /// It is with the store.
    Kept,
}

impl Keeper {
    /// For a response that goes on from `previous` and was asked with `input`.
    pub(super) fn new(
        store: Addr<ResponseStore>,
        key: Key,
        previous: Option<String>,
        input: Vec<Value>,
    ) -> Self {
        Self { store, key, previous, input: input.into(), state: State::Unknown }
    }

    /// Announces the response, so that others can see and cancel it.
    pub(super) async fn begin(&mut self, document: Value) {
        let (cancel, cancelled) = oneshot::channel();
        // A store that is gone tells at the end, when there is something to keep.
        if self.store.send(Begin { record: self.record(document), cancel }).await.is_ok() {
            self.state = State::Running(cancelled);
        }
    }

    /// Resolves if somebody cancels it.
    pub(super) async fn cancelled(&mut self) {
        if let State::Running(cancelled) = &mut self.state {
            if cancelled.await.is_ok() {
                return;
            }
            // The store is gone, and nobody can ask any more.
            self.state = State::Unknown;
        }
        pending().await
    }

    /// Keeps the response as it is now.
    ///
    /// # Errors
    /// If the store cannot.
    pub(super) async fn keep(&mut self, document: Value) -> Result<(), ApiError> {
        let result = kept(self.store.send(Keep(self.record(document))).await);
        self.state = State::Kept;
        result
    }

    fn record(&self, document: Value) -> Record {
        Record {
            id: self.key.id.clone(),
            tenant: self.key.tenant.clone(),
            previous: self.previous.clone(),
            document,
            input: Arc::clone(&self.input),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let State::Running(_) = self.state {
            self.store.do_send(Forget(self.key.clone()));
        }
    }
}
