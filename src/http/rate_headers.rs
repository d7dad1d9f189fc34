//! What a tenant's limits leave, as OpenAI's `x-ratelimit-*`, and when a refused client may come back: `Retry-After`.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use troupe_protocol::{RateStatus, RateStatuses, RejectReason};

const MICROS_PER_S: u64 = 1_000_000;

/// Seconds after which a client that met a full queue may try again, if its tenant's rates do not make it wait longer:
/// about as long as an answer takes, each of which makes room for one request.
const FULL_QUEUE_S: u64 = 1;

/// Names of the headers of one limit: what it is, what is left of it, when all of it is there again.
const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Seconds until the same request may be taken, if waiting is all that it needs.
pub(super) fn retry_after(reason: &RejectReason) -> Option<u64> {
    match reason {
        RejectReason::QueueFull { .. } => Some(FULL_QUEUE_S),
        RejectReason::TenantQueueFull { retry_after, .. } => {
            Some(retry_after.div_ceil(MICROS_PER_S).max(FULL_QUEUE_S))
        }
        RejectReason::RateLimited { retry_after, .. } => Some(retry_after.div_ceil(MICROS_PER_S).max(1)),
        RejectReason::Draining
        | RejectReason::NotReady
        | RejectReason::TooLong { .. }
        | RejectReason::EmptyPrompt => None,
    }
}

/// Says in `headers` why a request was refused.
pub(super) fn insert_refusal(headers: &mut HeaderMap, reason: &RejectReason) {
    if let Some(seconds) = retry_after(reason) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let RejectReason::RateLimited { rates, .. }
    | RejectReason::TenantQueueFull { rates, .. }
    | RejectReason::QueueFull { rates, .. } = reason
    {
        insert(headers, rates);
    }
}

/// Says in `headers` where a tenant stands with the limits that it has.
pub(super) fn insert(headers: &mut HeaderMap, rates: &RateStatuses) {
    insert_rate(headers, REQUESTS, rates.requests);
    insert_rate(headers, TOKENS, rates.tokens);
}

fn insert_rate(
    headers: &mut HeaderMap,
    [limit, remaining, reset]: [HeaderName; 3],
    rate: Option<RateStatus>,
) {
    let Some(rate) = rate else { return };
    headers.insert(limit, HeaderValue::from(rate.limit));
    headers.insert(remaining, HeaderValue::from(rate.remaining));
    if let Ok(time) = HeaderValue::from_str(&duration(rate.reset)) {
        headers.insert(reset, time);
    }
}

/// A time as OpenAI writes it: `20ms`, `1s`, `6m0s`, `1h0m0s`. Rounded up, so that nobody comes back too early.
fn duration(micros: u64) -> String {
    let millis = micros.div_ceil(1000);
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let seconds = micros.div_ceil(MICROS_PER_S);
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        (_, _) => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_and_written_as_openai_does() {
        for (micros, text) in [
            (0, "0ms"),
            (1, "1ms"),
            (999_000, "999ms"),
            (999_001, "1s"),
            (1_000_000, "1s"),
            (1_000_001, "2s"),
            (59_000_001, "1m0s"),
            (360_000_000, "6m0s"),
            (3_600_000_000, "1h0m0s"),
        ] {
            assert_eq!(duration(micros), text, "{micros}");
        }
    }
}
