//! `GET /metrics`.

use super::endpoint::{Access, Endpoint};

pub(super) fn endpoint() -> Endpoint {
    Endpoint::get("/metrics", "metrics", "operate", "All metrics, as Prometheus reads them")
        .for_whom(Access::Open)
        .answers_text()
}
