//! What every handler can reach.

use std::sync::{Arc, OnceLock};

use actix::{Addr, Recipient};
use tokio::sync::watch;
use troupe_actors::metrics::PrometheusHandle;
use troupe_actors::model_card::ModelCard;
use troupe_actors::response_store::ResponseStore;
use troupe_actors::scheduler::{Inspect, Observe, SchedulerCommand};
use troupe_actors::tokenizer_pool::TokenizerPool;
use troupe_protocol::RejectReason;

use super::error::ApiError;
use super::tenants::{Directory, Tenant};

/// The model that is served and the pool that encodes for it.
#[derive(Clone, Debug)]
pub struct Served {
    /// The model.
    pub card: Arc<ModelCard>,
    /// Its tokenizer and template, at work.
    pub pool: Addr<TokenizerPool>,
}

/// Made by boot before the server listens.
#[derive(Clone)]
pub struct AppState {
    /// Takes sequences.
    pub scheduler: Recipient<SchedulerCommand>,
    /// Says how the scheduler is.
    pub observe: Recipient<Observe>,
    /// Says everything that the scheduler knows.
    pub inspect: Recipient<Inspect>,
    /// Whom the server serves. Boot replaces it when the configuration is read again.
    pub tenants: watch::Receiver<Arc<Directory>>,
    /// Set by boot when the model is loaded. Until then the API answers 503.
    pub served: Arc<OnceLock<Served>>,
    /// Keeps what the Responses API answered.
    pub responses: Addr<ResponseStore>,
    /// Renders `/metrics`.
    pub metrics: PrometheusHandle,
    /// Requests whose answers are not complete. Boot watches it fall to zero before it ends the process.
    pub active: watch::Sender<usize>,
    /// The most bytes of a request's body.
    pub body_limit: usize,
}

impl AppState {
    /// Whom the server serves now.
    pub(super) fn tenants(&self) -> Arc<Directory> {
        Arc::clone(&self.tenants.borrow())
    }

    /// The name of a tenant, which outlives the process. One that nobody configured is called by its number.
    pub(super) fn tenant_name(&self, tenant: &Tenant) -> String {
        let tenants = self.tenants.borrow();
        tenants.names.get(&tenant.id).cloned().unwrap_or_else(|| format!("#{}", tenant.id.0))
    }

    /// The model, once there is one.
    ///
    /// # Errors
    /// [`RejectReason::NotReady`] before that.
    pub(super) fn served(&self) -> Result<&Served, ApiError> {
        self.served.get().ok_or(ApiError::Busy(RejectReason::NotReady))
    }
}
