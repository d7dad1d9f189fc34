//! `POST /v1/responses`: items in, a response out.

use actix_web::{HttpRequest, HttpResponse, web};
use troupe_actors::response_store::Key;

use super::answer::ResponseAnswer;
use super::keeper::Keeper;
use super::prompt::{self, Prompt};
use super::request::{self, Keeping};
use crate::http::error::ApiError;
use crate::http::generate::{self, random_id};
use crate::http::narrate;
use crate::http::request_body::read_object;
use crate::http::state::AppState;
use crate::http::tenants::Caller;

/// Reads, encodes, generates, answers.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let fields = read_object(&request, payload, state.body_limit).await?;
    let served = state.served()?;
    let mut request = request::read(fields)?;
    let Prompt { tokens, generation, input } = prompt::prepare(&state, served, &tenant, &mut request).await?;
    let running = generate::start(&state, served, vec![tokens], &generation, "input").await;
    let running = running.map_err(|error| error.renamed(request::NAMES))?;
    let id = random_id("resp_");
    let key = Key { tenant: state.tenant_name(&tenant), id: id.clone() };
    let keeper = match request.keeping {
        Keeping::Stored => Some(Keeper::new(state.responses.clone(), key, request.previous, input)),
        Keeping::Forgotten => None,
    };
    let narrator = ResponseAnswer::new(&id, &served.card.id, &generation, request.repeated, keeper);
    let answer = narrate::respond(running, narrator, generation.delivery).await;
    answer.map_err(|error| error.renamed(request::NAMES))
}
