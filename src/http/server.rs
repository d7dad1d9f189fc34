//! The listening server.

use std::net::TcpListener;
use std::{io, time::Duration};

use actix_web::dev::Server;
use actix_web::{App, HttpServer, web};

use super::middleware;
use super::state::AppState;

/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection without a request is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Bytes of an answer that may wait in the server for one slow client, beside what the kernel's socket holds.
const WRITE_BUFFER: usize = 16 * 1024;

/// How the server listens.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// Threads that handle requests and run sessions.
    pub workers: usize,
    /// Connections of one worker; more wait in the kernel's backlog.
    pub connections_per_worker: usize,
    /// Seconds that open answers get to finish once the server is told to stop gracefully.
    pub shutdown_timeout_s: u64,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { workers: 2, connections_per_worker: 2048, shutdown_timeout_s: 30 }
    }
}

/// Serves `state` on `listener`. The caller polls the server and stops it by its handle: it takes no signals.
///
/// A client that closes its connection, or its half of it, is gone: its request is dropped at once, whatever it waits
/// for, and with it the sessions.
///
/// # Errors
/// If the listener cannot be used.
pub fn serve(listener: TcpListener, options: HttpOptions, state: AppState) -> io::Result<Server> {
    let state = web::Data::new(state);
    let app = move || {
        App::new()
            .wrap(actix_web::middleware::from_fn(middleware::around))
            .configure(|config| super::configure(config, state.clone()))
    };
    let server = HttpServer::new(app)
        .workers(options.workers)
        .max_connections(options.connections_per_worker)
        .shutdown_timeout(options.shutdown_timeout_s)
        .client_request_timeout(HEAD_TIMEOUT)
        .keep_alive(KEEP_ALIVE)
        .h1_allow_half_closed(false)
        .h1_write_buffer_size(WRITE_BUFFER)
        .tcp_nodelay(true)
        .disable_signals()
        .listen(listener)?;
    Ok(server.run())
}
