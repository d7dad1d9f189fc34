//! What happens around every request: it gets an id, is counted, and is logged.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ResponseHead, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method, Version};
use actix_web::middleware::Next;
use actix_web::{HttpMessage as _, web};
use bytes::Bytes;
use tokio::sync::watch;
use troupe_actors::metrics::{self, ActiveRequest};

use super::generate::entropy;
use super::state::AppState;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id of a client's own that is given back.
const MAX_REQUEST_ID: usize = 128;

/// The id of a request, among its extensions.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) HeaderValue);

/// Wraps a request's handling.
///
/// # Errors
/// Those of `next`, which the framework turns into answers.
pub(super) async fn around(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let active = Active::begin(&request);
    let id = request_id(&request);
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = method_label(request.method());
    let version = request.version();
    let mut response = next.call(request).await?;
    response.headers_mut().insert(REQUEST_ID, id.clone());
    if version < Version::HTTP_11 && response.response().body().size() == BodySize::Stream {
        end_with_connection(response.response_mut().head_mut());
    }
    let route = response.request().match_pattern().unwrap_or_else(|| "unmatched".to_owned());
    let status = response.status().as_u16();
    metrics::http_request(&route, method, status);
    tracing::debug!(id = id.to_str().unwrap_or_default(), method, route, status, "answered");
    Ok(response.map_body(|_, body| Counted { body: body.boxed(), _active: active }))
}

/// A client of HTTP/1.0 cannot read chunks: a body of unknown length ends where its connection does.
fn end_with_connection(head: &mut ResponseHead) {
    head.no_chunking(true);
    head.set_connection_type(ConnectionType::Close);
}

/// The client's own id if it is a plain word, else a fresh one.
fn request_id(request: &ServiceRequest) -> HeaderValue {
    let plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(byte);
        (1..=MAX_REQUEST_ID).contains(&bytes.len()) && bytes.iter().all(is_plain)
    };
    match request.headers().get(REQUEST_ID).filter(plain) {
        Some(value) => value.clone(),
        None => HeaderValue::from_str(&format!("req-{:016x}", entropy()))
            .unwrap_or_else(|_| HeaderValue::from_static("req")),
    }
}

/// A label from a closed set: a client may invent methods.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Counts a request as active, for the metrics and for boot, until it is dropped.
struct Active {
    _gauge: ActiveRequest,
    count: Option<watch::Sender<usize>>,
}

impl Active {
    fn begin(request: &ServiceRequest) -> Self {
        let count = request.app_data::<web::Data<AppState>>().map(|state| state.active.clone());
        if let Some(count) = &count {
            count.send_modify(|active| *active += 1);
        }
        Self { _gauge: ActiveRequest::begin(), count }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            count.send_modify(|active| *active -= 1);
        }
    }
}

/// A body whose request counts as active until the body is sent or dropped.
struct Counted {
    body: BoxBody,
    _active: Active,
}

impl MessageBody for Counted {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}
