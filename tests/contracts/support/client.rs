//! HTTP/1.1 over one socket a request, so that a test decides what is sent, what is read, and when the socket closes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::PATIENCE;
use super::answer::{Answer, Events};
use super::named_events::NamedEvents;

/// Where to ask.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub address: SocketAddr,
}

/// An answer whose body has not been read. Dropping it closes the socket.
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

/// The body, without its framing.
pub struct Body {
    socket: BufReader<TcpStream>,
    framing: Framing,
}

enum Framing {
    /// This much is left.
    Length(u64),
    /// This much is left of a chunk, and more chunks may follow.
    Chunked(u64),
}

impl Client {
    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.send("POST", path, body.to_string().as_bytes())
    }

    /// Sends with a key of the client's own.
    pub fn send_as(&self, key: &str, method: &str, path: &str, body: &[u8]) -> Response {
        let socket = TcpStream::connect(self.address).unwrap();
        let header = format!("authorization: Bearer {key}\r\n");
        Self::write_with(&socket, (method, path), &header, body);
        Response::read(socket).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// The whole answer to a chat request, streamed or not.
    pub fn chat(&self, request: &Value) -> Answer {
        self.post("/v1/chat/completions", request).answer()
    }

    /// The whole answer to a completion request, streamed or not.
    pub fn complete(&self, request: &Value) -> Answer {
        self.post("/v1/completions", request).answer()
    }

    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> Response {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        Self::send_on(socket, method, path, body)
    }

    /// Sends on a socket of the caller's own.
    pub fn send_on(socket: TcpStream, method: &str, path: &str, body: &[u8]) -> Response {
        Self::write(&socket, method, path, body);
        Response::read(socket).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends, and leaves the answer to be read or not.
    pub fn write(socket: &TcpStream, method: &str, path: &str, body: &[u8]) {
        Self::write_with(socket, (method, path), "", body);
    }

    /// The same with further lines of the head.
    pub fn write_with(mut socket: &TcpStream, (method, path): (&str, &str), headers: &str, body: &[u8]) {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {headers}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        // A server that has refused the request may have closed its end: what it said can still be read.
        let _ = socket.write_all(&[head.as_bytes(), body].concat());
    }
}

impl Response {
    /// Reads status and headers.
    pub fn read(socket: TcpStream) -> io::Result<Self> {
        let mut socket = BufReader::new(socket);
        let status = line(&mut socket)?;
        let status =
            status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).ok_or_else(|| bad(&status))?;
        let status = status.parse().map_err(|_| bad(status))?;
        let mut headers = Vec::new();
        loop {
            let line = line(&mut socket)?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut response = Self { status, headers, body: Body { socket, framing: Framing::Length(0) } };
        response.body.framing = match response.header("content-length") {
            Some(length) => Framing::Length(length.parse().map_err(|_| bad(length))?),
            None if response.header("transfer-encoding") == Some("chunked") => Framing::Chunked(0),
            None => Framing::Length(0),
        };
        Ok(response)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        text
    }

    pub fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The body as a stream of events.
    pub fn events(self) -> Events {
        assert_eq!((self.status, self.header("content-type")), (200, Some("text/event-stream")));
        Events::new(self.body)
    }

    /// The body as a stream of events with names.
    pub fn named_events(self) -> NamedEvents {
        assert_eq!((self.status, self.header("content-type")), (200, Some("text/event-stream")));
        NamedEvents::new(self.body)
    }

    /// The body as a whole answer, whichever way it came.
    pub fn answer(self) -> Answer {
        match self.header("content-type") {
            Some("text/event-stream") => Answer::of_events(self.events()),
            _ => {
                let status = self.status;
                let document = self.json();
                assert_eq!(status, 200, "{document}");
                Answer::of_document(&document)
            }
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Framing::Chunked(left @ 0) = &mut self.framing {
            let size = line(&mut self.socket)?;
            *left = u64::from_str_radix(&size, 16).map_err(|_| bad(&size))?;
            if *left == 0 {
                line(&mut self.socket)?;
                self.framing = Framing::Length(0);
            }
        }
        let (Framing::Length(left) | Framing::Chunked(left)) = &mut self.framing;
        if *left == 0 {
            return Ok(0);
        }
        let count = self.socket.by_ref().take(*left).read(buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= count as u64;
        if matches!(self.framing, Framing::Chunked(0)) {
            line(&mut self.socket)?;
        }
        Ok(count)
    }
}

/// The next line, without its end.
fn line(socket: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if socket.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches("\r\n").to_owned())
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {what:?}"))
}
