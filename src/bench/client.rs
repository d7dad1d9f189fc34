//! A small HTTP/1.1 client for one server. Each request has a connection of its own, and its time begins before
//! the connection is made, as it does for a new client.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::chunk::error_message;

/// The largest answer that is read whole.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A key that the server knows the tenant by. Nothing prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey(HeaderValue);

impl ApiKey {
    /// A key as it was issued.
    ///
    /// # Errors
    /// Characters that a header cannot hold.
    pub fn new(key: &str) -> Result<Self> {
        let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
        let mut value = bearer.ok().context("the API key has characters that a header cannot hold")?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// Where the server is.
#[derive(Clone, Debug)]
pub(super) struct Client {
    host: String,
    port: u16,
    /// What stands before the paths of the API, without a slash at its end.
    base: String,
    timeout: Duration,
    /// Sent with every request.
    key: Option<ApiKey>,
}

impl Client {
    /// Reads a base address such as `http://127.0.0.1:8080`. A trailing `/v1` is dropped, since
    /// other clients want it.
    pub(super) fn new(url: &str, timeout: Duration, key: Option<ApiKey>) -> Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("`{url}` is not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some(scheme) => bail!("{scheme} is not supported, only http: {url}"),
            None => bail!("`{url}` does not begin with http://"),
        }
        let host = uri.host().with_context(|| format!("`{url}` has no host"))?.to_owned();
        let base = uri.path().trim_end_matches('/').trim_end_matches("/v1").to_owned();
        Ok(Self { host, port: uri.port_u16().unwrap_or(80), base, timeout, key })
    }

    /// How long one request may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The name of the first model that the server lists.
    pub(super) async fn first_model(&self) -> Result<String> {
        let (status, body) = self.whole(Method::GET, "/v1/models", None).await?;
        match body["data"][0]["id"].as_str() {
            Some(id) if status.is_success() => Ok(id.to_owned()),
            _ => bail!("the server names no model (status {}): give --model", status.as_u16()),
        }
    }

    /// Tokens of `text`; `None` if the server has no `/tokenize` of this form.
    pub(super) async fn count_tokens(&self, form: TokenizeForm, text: &str) -> Result<Option<usize>> {
        let (status, answer) = self.whole(Method::POST, "/tokenize", Some(&form.body(text))).await?;
        Ok(if status.is_success() { form.count(&answer) } else { None })
    }

    /// Sends a request and reads its whole answer; what is not JSON is `null`.
    async fn whole(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(StatusCode, Value)> {
        let exchange = async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            Ok((status, read_json(response.into_body()).await?))
        };
        tokio::time::timeout(self.timeout, exchange)
            .await
            .with_context(|| format!("no answer to {path} within {:?}", self.timeout))?
    }

    /// Sends a request and returns when the head of its answer is here.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>> {
        // An IPv6 address stands in brackets in a URL, and without them in a socket address.
        let address = (self.host.trim_matches(['[', ']']), self.port);
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("cannot connect to {}:{}", self.host, self.port))?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends by itself: with the answer's body, or when both ends of it are dropped.
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body.map_or_else(String::new, Value::to_string))))?;
        if let Some(ApiKey(bearer)) = &self.key {
            request.headers_mut().insert(header::AUTHORIZATION, bearer.clone());
        }
        Ok(sender.send_request(request).await?)
    }
}

/// How servers spell `/tokenize`. Neither adds special tokens here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenizeForm {
    /// `prompt` in, `count` out: vLLM and Troupe.
    Vllm,
    /// `content` in, `tokens` out: llama.cpp.
    LlamaCpp,
}

impl TokenizeForm {
    pub(super) const ALL: [Self; 2] = [Self::Vllm, Self::LlamaCpp];

    fn body(self, text: &str) -> Value {
        match self {
            Self::Vllm => json!({ "prompt": text, "add_special_tokens": false }),
            Self::LlamaCpp => json!({ "content": text, "add_special": false }),
        }
    }

    fn count(self, answer: &Value) -> Option<usize> {
        match self {
            Self::Vllm => answer["count"].as_u64().and_then(|count| usize::try_from(count).ok()),
            Self::LlamaCpp => answer["tokens"].as_array().map(Vec::len),
        }
    }
}

/// What the server says about a refused request.
pub(super) async fn refusal(response: Response<Incoming>) -> String {
    match read_json(response.into_body()).await {
        Ok(body) => error_message(&body).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

async fn read_json(mut body: Incoming) -> Result<Value> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() > MAX_ANSWER_BYTES {
            bail!("an answer is longer than {MAX_ANSWER_BYTES} bytes");
        }
    }
    Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_others_refused_by_name() {
        let client = |url| Client::new(url, Duration::from_secs(1), None);
        let good = [
            ("http://127.0.0.1:8080", "127.0.0.1", 8080, ""),
            ("http://localhost/", "localhost", 80, ""),
            ("http://localhost:1/v1/", "localhost", 1, ""),
            ("http://[::1]:9/proxy/v1", "[::1]", 9, "/proxy"),
        ];
        for (url, host, port, base) in good {
            let client = client(url).unwrap();
            assert_eq!(
                (client.host.as_str(), client.port, client.base.as_str()),
                (host, port, base),
                "{url}"
            );
        }
        let message = |url| format!("{:#}", client(url).unwrap_err());
        assert_eq!(message("https://a"), "https is not supported, only http: https://a");
        assert_eq!(message("localhost:80"), "`localhost:80` does not begin with http://");
        assert!(message("http://a b").starts_with("`http://a b` is not a URL"));
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = ApiKey::new("secret").unwrap();
        assert!(!format!("{key:?}").contains("secret"));
        let error = ApiKey::new("se\ncret").unwrap_err();
        assert!(!format!("{error:?}").contains("cret"));
    }
}
