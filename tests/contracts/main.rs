//! The contracts: what a client, an operator or a shell script may rely on, asked of the real program with the real
//! default model, over loopback.
//!
//! Each test has a process (or several) of its own, so tests may run at once. Nothing here sleeps: what has to be
//! waited for is an event (a line, a byte, an end of file), and every wait has a limit.

mod bad_input;
mod cancellation;
mod cases;
mod chat;
mod command_line;
mod completions;
mod logs;
mod metrics;
mod prefix_cache;
mod python;
mod queue;
#[cfg(target_os = "linux")]
mod resources;
mod sampling;
mod shutdown;
#[cfg(unix)]
mod slow_clients;
mod startup;
mod store;
mod support;
#[cfg(unix)]
mod tenants;
