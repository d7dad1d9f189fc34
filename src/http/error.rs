//! Every refusal that a client can meet, in OpenAI's shape: `{"error": {message, type, param, code}}`.

use std::borrow::Cow;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use serde_json::{Value, json};
use thiserror::Error;
use troupe_protocol::{Fault, RejectReason};

use super::rate_headers;

mod convert;

/// The most characters of a client's own text that an error repeats at once.
const MAX_ECHO: usize = 100;
/// The most characters of a message, whatever a template or a library put into it.
const MAX_MESSAGE: usize = 1000;

/// Why a request was not served. Each variant has one status, one `type` and one `code`.
#[derive(Clone, Debug, PartialEq, Error)]
pub(super) enum ApiError {
    /// The body is not JSON; the text is the parser's.
    #[error("could not parse the body as JSON: {0}")]
    Json(String),
    /// The body's bytes are no text.
    #[error("the body is not valid UTF-8")]
    NotUtf8,
    /// The body is compressed.
    #[error("the body has the content-encoding '{}', but only one that is sent as it is, is read", echo(.encoding))]
    BodyEncoded {
        /// As the client named it.
        encoding: String,
    },
    /// The body did not arrive whole. The framework does not tell the two causes apart.
    #[error("the body did not arrive whole: it ended early, or its chunks are malformed")]
    BodyCutShort,
    /// The body did not arrive in time.
    #[error("the body did not arrive within {timeout_s} seconds")]
    BodyTimeout {
        /// How long the server waited.
        timeout_s: u64,
    },
    /// The body is larger than the server reads.
    #[error("the body exceeds the limit of {limit} bytes")]
    BodyTooLarge {
        /// The limit.
        limit: usize,
    },
    /// A value has the wrong JSON type.
    #[error("invalid type for '{}': expected {expected}, but got {got} instead", echo(.param))]
    InvalidType {
        /// The parameter, with dots and brackets for nesting.
        param: String,
        /// What it takes, with an article.
        expected: &'static str,
        /// What it was.
        got: &'static str,
    },
    /// A value has the right type and cannot be used.
    #[error("invalid value for '{}': {reason}", echo(.param))]
    InvalidValue {
        /// The parameter.
        param: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A required parameter is absent.
    #[error("missing required parameter: '{}'", echo(.param))]
    Missing {
        /// The parameter.
        param: String,
    },
    /// A parameter that OpenAI or vLLM define, asking for what this server does not do.
    #[error("'{}' is not supported: {reason}", echo(.param))]
    Unsupported {
        /// The parameter.
        param: String,
        /// What would be accepted, or that nothing is.
        reason: String,
    },
    /// A parameter that nobody defines.
    #[error("unrecognized request argument supplied: {}", echo(.param))]
    Unrecognized {
        /// The parameter.
        param: String,
    },
    /// The prompt, or prompt and answer together, exceed the context.
    #[error("this model's maximum context length is {limit} tokens, but {} were requested ({prompt} in the {part}, {completion} in the completion)", prompt + completion)]
    ContextLength {
        /// The parameter that holds the prompt, which is also its name in the message.
        part: &'static str,
        /// Tokens of the prompt.
        prompt: u64,
        /// Tokens asked for.
        completion: u64,
        /// The most that both may have.
        limit: u32,
    },
    /// The prompt exceeds the context however it is split into tokens.
    #[error("this model's maximum context length is {limit} tokens, which {bytes} bytes of text cannot fit")]
    TextTooLong {
        /// The parameter that holds the prompt.
        part: &'static str,
        /// Length of the text.
        bytes: usize,
        /// The most tokens that there may be.
        limit: u32,
    },
    /// The conversation does not suit the model's template; the text is the template's.
    #[error("{message}")]
    Template {
        /// The parameter that holds the conversation.
        part: &'static str,
        /// The template's or the engine's words.
        message: String,
    },
    /// The model's template would lose what the system says in a message.
    #[error("invalid value for '{param}': {reason}")]
    SystemDropped {
        /// The parameter that holds the conversation.
        part: &'static str,
        /// The message in it, where the client's own messages are those of chat.
        param: String,
        /// What is dropped.
        reason: String,
    },
    /// No key, or one that is nobody's: which of the two is not told.
    #[error("no valid API key: send one as 'Authorization: Bearer KEY' or 'x-api-key: KEY'")]
    Unauthorized,
    /// No such model.
    #[error("the model '{}' does not exist", echo(.model))]
    ModelNotFound {
        /// As the client spelled it.
        model: String,
    },
    /// No such response, or another tenant's: it cannot tell one from the other.
    #[error("no response has the id '{}'", echo(.id))]
    ResponseNotFound {
        /// As the client spelled it.
        id: String,
    },
    /// A conversation cannot be gone on with, since a response of it is not there.
    #[error("no response has the id '{}', from which this conversation goes on", echo(.id))]
    PreviousResponseNotFound {
        /// Of the one that is missing.
        id: String,
    },
    /// No such path.
    #[error("unknown path: {}", echo(.path))]
    UnknownPath {
        /// As the client spelled it.
        path: String,
    },
    /// The path is known, but not with this method.
    #[error("{} takes {allowed} only", echo(.path))]
    MethodNotAllowed {
        /// The path.
        path: String,
        /// The methods that it takes.
        allowed: &'static str,
    },
    /// The scheduler did not take the request at this moment.
    #[error("{0}")]
    Busy(RejectReason),
    /// The request's time was up; the text is the scheduler's.
    #[error("{0}")]
    Timeout(Fault),
    /// The client's grammar takes too much work in the midst of an answer. Its parameter is not known by then.
    #[error("{0}")]
    Grammar(Fault),
    /// The server ended before the answer did.
    #[error("{}", Fault::Shutdown)]
    Shutdown,
    /// Something broke that is not the client's to mend.
    #[error("{message}")]
    Internal {
        /// What broke.
        message: String,
    },
}

impl ApiError {
    /// An invalid value.
    pub(super) fn invalid(param: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidValue { param: param.into(), reason: reason.into() }
    }

    /// A fault of the server's own.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::Internal { message: message.into() }
    }

    /// The same error under a parameter that lies inside `parent`.
    pub(super) fn within(mut self, parent: &str) -> Self {
        if let Self::InvalidType { param, .. }
        | Self::InvalidValue { param, .. }
        | Self::Missing { param }
        | Self::Unsupported { param, .. }
        | Self::Unrecognized { param } = &mut self
        {
            *param = format!("{parent}.{param}");
        }
        self
    }

    /// The same error with its parameter as another API spells it: `names` are pairs of a parameter and its name there, for
    /// all that lies inside it too; `[]` stands for one index. What such a client did not write is not unknown but unimplemented.
    pub(super) fn renamed(self, names: &[(&'static str, &'static str)]) -> Self {
        let new_name = |param: &str| names.iter().find_map(|&(from, to)| rename(param, from, to));
        let new_part = |part| names.iter().find(|(from, _)| *from == part).map_or(part, |&(_, to)| to);
        match self {
            Self::Unrecognized { param } => match new_name(&param) {
                Some(param) => {
                    Self::Unsupported { param, reason: "this server does not implement it".to_owned() }
                }
                None => Self::Unrecognized { param },
            },
            Self::ContextLength { part, prompt, completion, limit } => {
                Self::ContextLength { part: new_part(part), prompt, completion, limit }
            }
            Self::TextTooLong { part, bytes, limit } => {
                Self::TextTooLong { part: new_part(part), bytes, limit }
            }
            Self::Template { part, message } => Self::Template { part: new_part(part), message },
            // Other APIs count their messages differently.
            Self::SystemDropped { part, reason, .. } => {
                let part = new_part(part);
                Self::SystemDropped { part, param: part.to_owned(), reason }
            }
            mut other => {
                if let Self::InvalidType { param, .. }
                | Self::InvalidValue { param, .. }
                | Self::Missing { param }
                | Self::Unsupported { param, .. } = &mut other
                    && let Some(name) = new_name(param)
                {
                    *param = name;
                }
                other
            }
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Self::InvalidType { param, .. }
            | Self::InvalidValue { param, .. }
            | Self::Missing { param }
            | Self::Unsupported { param, .. }
            | Self::SystemDropped { param, .. }
            | Self::Unrecognized { param } => Some(param),
            Self::ContextLength { part, .. }
            | Self::TextTooLong { part, .. }
            | Self::Template { part, .. } => Some(part),
            Self::ModelNotFound { .. } => Some("model"),
            Self::PreviousResponseNotFound { .. } => Some("previous_response_id"),
            _ => None,
        }
    }

    fn code(&self) -> Option<&'static str> {
        match self {
            Self::InvalidType { .. } => Some("invalid_type"),
            Self::InvalidValue { .. } | Self::Grammar(_) => Some("invalid_value"),
            Self::Missing { .. } => Some("missing_required_parameter"),
            Self::Unsupported { .. } => Some("unsupported_parameter"),
            Self::Unrecognized { .. } => Some("unknown_parameter"),
            Self::ContextLength { .. } | Self::TextTooLong { .. } => Some("context_length_exceeded"),
            Self::Template { .. } | Self::SystemDropped { .. } => Some("template_error"),
            Self::ModelNotFound { .. } => Some("model_not_found"),
            Self::ResponseNotFound { .. } => Some("response_not_found"),
            Self::PreviousResponseNotFound { .. } => Some("previous_response_not_found"),
            Self::UnknownPath { .. } => Some("unknown_url"),
            Self::BodyTooLarge { .. } => Some("body_too_large"),
            Self::BodyEncoded { .. } => Some("unsupported_content_encoding"),
            Self::Unauthorized => Some("invalid_api_key"),
            Self::Timeout(_) => Some("timeout"),
            Self::Busy(RejectReason::QueueFull { .. } | RejectReason::TenantQueueFull { .. }) => {
                Some("queue_full")
            }
            Self::Busy(RejectReason::RateLimited { .. }) => Some("rate_limit_exceeded"),
            Self::Busy(RejectReason::Draining) | Self::Shutdown => Some("shutting_down"),
            Self::Busy(_) => Some("model_not_ready"),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        match self.status_code() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            StatusCode::SERVICE_UNAVAILABLE => "service_unavailable_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The error as OpenAI clients read it.
    pub(super) fn to_json(&self) -> Value {
        json!({"error": {
            "message": cut(&self.to_string(), MAX_MESSAGE),
            "type": self.kind(),
            "param": self.param().map(echo),
            "code": self.code(),
        }})
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyEncoded { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::ModelNotFound { .. } | Self::ResponseNotFound { .. } | Self::UnknownPath { .. } => {
                StatusCode::NOT_FOUND
            }
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Busy(reason) if rate_headers::retry_after(reason).is_some() => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Busy(_) | Self::Shutdown => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code()).json(self.to_json());
        match self {
            Self::Busy(reason) => rate_headers::insert_refusal(response.headers_mut(), reason),
            Self::Unauthorized => {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::MethodNotAllowed { allowed, .. } => {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
            }
            _ => {}
        }
        response
    }
}

/// `param` with `to` in the place of `from`, if that is what it is or lies in. `[]` is any index, the same in both.
fn rename(param: &str, from: &str, to: &str) -> Option<String> {
    let (inside, to) = match from.split_once("[]") {
        None => (param.strip_prefix(from)?, to.to_owned()),
        Some((list, member)) => {
            let (index, rest) = param.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
            (rest.strip_prefix(member)?, to.replacen("[]", &format!("[{index}]"), 1))
        }
    };
    (inside.is_empty() || inside.starts_with(['.', '['])).then(|| format!("{to}{inside}"))
}

/// What a client wrote, as errors repeat it: the beginning of it if it is long.
pub(super) fn echo(text: &str) -> Cow<'_, str> {
    cut(text, MAX_ECHO)
}

fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests;
