//! The surface over real sockets, with a scheduler that follows a script.

mod client;
mod disconnects;
mod endpoints;
mod heartbeat;
mod refusals;
mod streams;
mod tenants;
