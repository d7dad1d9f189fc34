//! The surface over real sockets, with a scheduler that follows a script.

mod client;
mod disconnects;
mod endpoints;
mod forced_calls;
mod formats;
mod heartbeat;
mod messages;
mod prompt_logprobs;
mod refusals;
mod responses;
mod streams;
mod tenants;
mod tools;
