//! The contracts: what a client, an operator or a shell script may rely on, asked of the real program with the real
//! default model, over loopback.
//!
//! Each test has a process (or several) of its own, so tests may run at once. Nothing here sleeps: what has to be
//! waited for is an event (a line, a byte, an end of file), and every wait has a limit.

mod bad_input;
mod cancellation;
mod cases;
mod chat;
mod clients;
mod command_line;
mod completions;
mod formats;
mod fuzz;
mod logs;
mod messages;
mod metrics;
mod openapi;
mod pages;
mod prefix_cache;
mod queue;
mod readme;
#[cfg(target_os = "linux")]
mod resources;
mod responses;
mod sampling;
mod shutdown;
#[cfg(unix)]
mod slow_clients;
mod startup;
mod store;
mod support;
#[cfg(unix)]
mod tenants;
mod tools;
