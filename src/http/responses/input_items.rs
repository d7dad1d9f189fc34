//! `GET /v1/responses/{id}/input_items`: what a response was made from, page by page.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};
use troupe_actors::response_store::InputItems;

use super::{id_of, kept, key_of, query};
use crate::http::error::{ApiError, echo};
use crate::http::state::AppState;
use crate::http::tenants::Caller;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// Asks the store, and cuts a page out.
pub(in crate::http) async fn handle(
    request: HttpRequest,
    state: web::Data<AppState>,
    Caller(tenant): Caller,
) -> Result<HttpResponse, ApiError> {
    let page = Page::read(query(&request)?)?;
    let key = key_of(&request, &state, &tenant);
    let id = key.id.clone();
    let items = kept(state.responses.send(InputItems(key)).await)?;
    Ok(HttpResponse::Ok().json(page.of(items.ok_or(ApiError::ResponseNotFound { id })?)?))
}

/// Which of the items.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    order: Order,
    limit: usize,
    /// Those behind the item with this id.
    after: Option<String>,
}

#[derive(Debug, PartialEq)]
enum Order {
    OldestFirst,
    NewestFirst,
}

impl Page {
    /// Reads the parameters of a query.
    pub(super) fn read(query: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut page = Self { order: Order::NewestFirst, limit: DEFAULT_LIMIT, after: None };
        for (name, value) in query {
            match (name.as_str(), value.as_str()) {
                ("order", "asc") => page.order = Order::OldestFirst,
                ("order", "desc") => page.order = Order::NewestFirst,
                ("order", other) => {
                    let reason = format!("{:?} is not one of asc, desc", echo(other));
                    return Err(ApiError::invalid("order", reason));
                }
                ("limit", text) => match text.parse() {
                    Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => page.limit = limit,
                    _ => {
                        let reason = format!("{:?} is not between 1 and {MAX_LIMIT}", echo(text));
                        return Err(ApiError::invalid("limit", reason));
                    }
                },
                ("after", _) => page.after = Some(value),
                ("before" | "include" | "include[]", _) => {
                    let reason = "this server does not implement it".to_owned();
                    return Err(ApiError::Unsupported { param: name, reason });
                }
                _ => return Err(ApiError::Unrecognized { param: name }),
            }
        }
        Ok(page)
    }

    /// The page of all items, which come oldest first.
    pub(super) fn of(&self, mut items: Vec<Value>) -> Result<Value, ApiError> {
        if self.order == Order::NewestFirst {
            items.reverse();
        }
        if let Some(after) = &self.after {
            let at = items.iter().position(|item| id_of(item) == after);
            let at = at
                .ok_or_else(|| ApiError::invalid("after", format!("no item has the id {:?}", echo(after))))?;
            items.drain(..=at);
        }
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        Ok(json!({
            "object": "list",
            "first_id": items.first().map(id_of),
            "last_id": items.last().map(id_of),
            "has_more": has_more,
            "data": items,
        }))
    }
}
