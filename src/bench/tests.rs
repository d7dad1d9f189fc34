//! The whole road of a benchmark, against a small server that speaks the API and misbehaves when told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::dev::{ServerHandle, Service as _};
use actix_web::{App, HttpResponse, HttpServer, web};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::{ApiKey, Endpoint, FailureKind, Load, Options, PromptShape, Report, Stage, run};

/// How the server answers its `n`-th generation.
type Script = fn(n: usize) -> HttpResponse;

#[derive(Clone)]
struct Seen {
    bodies: Arc<Mutex<Vec<Value>>>,
    /// The key that each request had, whatever it asked for.
    keys: Arc<Mutex<Vec<Option<String>>>>,
    count: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    most_running: Arc<AtomicUsize>,
    /// Requests are answered when so many are there.
    together: Arc<Barrier>,
    script: Script,
}

struct Server {
    url: String,
    seen: Seen,
    handle: ServerHandle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // `stop` is sent when it is called; the future only waits for the end.
        drop(self.handle.stop(false));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// How the server counts tokens, if it does. One word is one token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokenize {
    Vllm,
    LlamaCpp,
    Missing,
}

async fn tokenize(form: web::Data<Tokenize>, body: web::Json<Value>) -> HttpResponse {
    let words = |key: &str| body[key].as_str().map(|text| text.split_whitespace().count());
    match **form {
        Tokenize::Missing => HttpResponse::NotFound().body("no such page"),
        Tokenize::LlamaCpp => {
            HttpResponse::Ok().json(json!({ "tokens": vec![0; words("content").unwrap_or(0)] }))
        }
        Tokenize::Vllm => match words("prompt") {
            Some(count) => HttpResponse::Ok().json(json!({ "count": count, "tokens": [] })),
            None => HttpResponse::BadRequest().json(json!({ "error": { "message": "no prompt" } })),
        },
    }
}

async fn models() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "data": [{ "id": "listed" }] }))
}

async fn generate(seen: web::Data<Seen>, body: web::Json<Value>) -> HttpResponse {
    let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
    seen.most_running.fetch_max(running, Ordering::SeqCst);
    seen.bodies.lock().unwrap().push(body.into_inner());
    seen.together.wait().await;
    seen.running.fetch_sub(1, Ordering::SeqCst);
    (seen.script)(seen.count.fetch_add(1, Ordering::SeqCst))
}

fn serve(script: Script, form: Tokenize) -> Server {
    serve_together(1, script, form)
}

fn serve_together(requests: usize, script: Script, form: Tokenize) -> Server {
    let seen = Seen {
        bodies: Arc::default(),
        keys: Arc::default(),
        count: Arc::default(),
        running: Arc::default(),
        most_running: Arc::default(),
        together: Arc::new(Barrier::new(requests)),
        script,
    };
    let data = web::Data::new(seen.clone());
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let server = HttpServer::new(move || {
                let keys = data.keys.clone();
                App::new()
                    .wrap_fn(move |request, service| {
                        let key = request.headers().get("authorization");
                        keys.lock().unwrap().push(key.map(|key| key.to_str().unwrap().to_owned()));
                        service.call(request)
                    })
                    .app_data(data.clone())
                    .app_data(web::Data::new(form))
                    .route("/tokenize", web::post().to(tokenize))
                    .route("/v1/models", web::get().to(models))
                    .route("/v1/completions", web::post().to(generate))
                    .route("/v1/chat/completions", web::post().to(generate))
            })
            .workers(1)
            .disable_signals()
            .bind(("127.0.0.1", 0))
            .unwrap();
            let address = server.addrs()[0];
            let server = server.run();
            sender.send((address, server.handle())).unwrap();
            server.await.unwrap();
        });
    });
    let (address, handle) = receiver.recv().unwrap();
    Server { url: format!("http://{address}"), seen, handle, thread: Some(thread) }
}

/// A stream of these bytes, in pieces that respect neither events nor characters.
fn sse(text: &str) -> HttpResponse {
    let pieces: Vec<_> = text.as_bytes().chunks(7).map(web::Bytes::copy_from_slice).collect();
    HttpResponse::Ok()
        .content_type("text/event-stream")
        .streaming(stream::iter(pieces.into_iter().map(Ok::<_, actix_web::Error>)))
}

fn three_tokens(_: usize) -> HttpResponse {
    sse("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"é\"}}]}\n\n\
         : still here\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"c\"},\"finish_reason\":\"length\"}]}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":3}}\n\n\
         data: [DONE]\n\n")
}

fn options(server: &Server) -> Options {
    Options {
        url: server.url.clone(),
        api_key: None,
        model: None,
        endpoint: Endpoint::Chat,
        load: Load::Concurrency(4),
        requests: 12,
        warmup: 0,
        prompts: PromptShape { tokens: 32, shared_prefix: 0, seed: 1 },
        output_tokens: 3,
        temperature: 0.0,
        ignore_eos: false,
        response_format: None,
        timeout: Duration::from_secs(60),
    }
}

fn report(options: &Options) -> Report {
    run(options, &|_: Stage, _, _| {}).unwrap()
}

fn prompts(server: &Server) -> Vec<String> {
    let prompt = |body: &Value| {
        let text = body["messages"][0]["content"].as_str().or(body["prompt"].as_str());
        text.unwrap().to_owned()
    };
    server.seen.bodies.lock().unwrap().iter().map(prompt).collect()
}

#[test]
fn a_run_is_counted_by_the_servers_usage() {
    let server = serve(three_tokens, Tokenize::Vllm);
    let report = report(&Options { warmup: 3, ..options(&server) });
    assert_eq!(server.seen.count.load(Ordering::SeqCst), 15);
    let totals = report.totals;
    assert_eq!((totals.completed, totals.failed), (12, 0));
    assert_eq!((totals.prompt_tokens, totals.output_tokens), (480, 36));
    assert!(report.usage_reported && report.prompts_counted);
    assert_eq!(report.model, "listed");
    let (ttft, e2e) = (report.ttft_seconds.unwrap(), report.e2e_seconds.unwrap());
    assert_eq!((ttft.count, report.itl_seconds.unwrap().count), (12, 24));
    assert!(0.0 < ttft.mean && ttft.mean <= e2e.mean && e2e.max <= totals.duration_seconds);
    for sample in report.samples.unwrap() {
        assert_eq!(sample.finish_reason.as_deref(), Some("length"));
        assert!(sample.ttft + sample.itl.iter().sum::<f64>() <= sample.e2e + 1e-9);
    }
}

#[test]
fn a_key_goes_with_every_request() {
    let server = serve(three_tokens, Tokenize::Vllm);
    report(&options(&server));
    assert!(server.seen.keys.lock().unwrap().drain(..).all(|key| key.is_none()));
    report(&Options { api_key: Some(ApiKey::new("mine").unwrap()), ..options(&server) });
    let keys = server.seen.keys.lock().unwrap();
    // The model's name, lengths of prompts, and twelve requests.
    assert!(keys.len() > 13, "{}", keys.len());
    assert!(keys.iter().all(|key| key.as_deref() == Some("Bearer mine")), "{keys:?}");
}

#[test]
fn requests_ask_for_what_was_said() {
    let server = serve(three_tokens, Tokenize::Vllm);
    report(&Options { requests: 1, model: Some("mine".to_owned()), ..options(&server) });
    let completions = Endpoint::Completions;
    report(&Options {
        requests: 1,
        endpoint: completions,
        ignore_eos: true,
        response_format: Some(json!({"type": "json_object"})),
        ..options(&server)
    });
    let bodies = server.seen.bodies.lock().unwrap();
    let common = |body: &Value| {
        assert_eq!((&body["max_tokens"], &body["stream"]), (&json!(3), &json!(true)));
        assert_eq!(body["stream_options"]["include_usage"], json!(true));
    };
    bodies.iter().for_each(common);
    assert_eq!((&bodies[0]["model"], bodies[0].get("ignore_eos")), (&json!("mine"), None));
    assert_eq!(bodies[1]["ignore_eos"], json!(true));
    assert_eq!(bodies[0].get("response_format"), None);
    assert_eq!(bodies[1]["response_format"], json!({"type": "json_object"}));
    assert!(bodies[1]["prompt"].is_string() && bodies[1].get("messages").is_none());
}

#[test]
fn prompts_have_the_asked_length_and_share_only_what_they_should() {
    for form in [Tokenize::Vllm, Tokenize::LlamaCpp] {
        let server = serve(three_tokens, form);
        let shape = PromptShape { tokens: 50, shared_prefix: 20, seed: 9 };
        assert!(report(&Options { prompts: shape, ..options(&server) }).prompts_counted);
        let prompts = prompts(&server);
        for prompt in &prompts {
            assert_eq!(prompt.split_whitespace().count(), 50, "{prompt}");
        }
        let words = |i: usize| prompts[i].split(' ').collect::<Vec<_>>();
        for i in 1..prompts.len() {
            assert_eq!(words(0)[..20], words(i)[..20]);
            assert_ne!(words(0)[20..23], words(i)[20..23]);
        }
    }
}

#[test]
fn a_server_without_tokenize_gets_estimated_prompts() {
    let server = serve(three_tokens, Tokenize::Missing);
    let shape = PromptShape { tokens: 130, shared_prefix: 0, seed: 1 };
    let report = report(&Options { prompts: shape, requests: 2, ..options(&server) });
    assert!(!report.prompts_counted);
    for prompt in prompts(&server) {
        assert_eq!(prompt.split_whitespace().count(), 100);
    }
}

#[test]
fn a_closed_loop_keeps_to_its_bound() {
    // Fewer than three at once would stand still at the server, and time out.
    let server = serve_together(3, three_tokens, Tokenize::Vllm);
    let report = report(&Options { load: Load::Concurrency(3), requests: 30, ..options(&server) });
    assert_eq!(report.totals.completed, 30);
    assert_eq!(server.seen.most_running.load(Ordering::SeqCst), 3);
}

#[test]
fn an_open_loop_sends_each_request_at_its_time() {
    let server = serve(three_tokens, Tokenize::Vllm);
    let report = report(&Options { load: Load::Rate(100.0), requests: 20, ..options(&server) });
    let due = super::arrivals::poisson(100.0, 20, 1);
    assert_eq!((report.rate, report.concurrency), (Some(100.0), None));
    for (sample, due) in report.samples.unwrap().iter().zip(due) {
        assert!(sample.start >= due.as_secs_f64(), "{} before {due:?}", sample.start);
    }
}

#[test]
fn failures_are_counted_by_kind_with_their_words() {
    fn script(n: usize) -> HttpResponse {
        let text = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
        match n % 6 {
            0 => HttpResponse::TooManyRequests().json(json!({ "error": { "message": "the queue is full" } })),
            1 => HttpResponse::InternalServerError().body("oops"),
            2 => {
                sse(&format!("{text}data: {{\"error\":{{\"message\":\"engine lost\"}}}}\n\ndata: [DONE]\n\n"))
            }
            3 => sse(text),
            4 => sse("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"),
            _ => sse(&format!("{text}data: [DONE]\n\n")),
        }
    }
    let server = serve(script, Tokenize::Vllm);
    let report = report(&options(&server));
    let counts: Vec<_> = report.failures.iter().map(|f| (f.kind, f.count, f.example.as_str())).collect();
    let expected = [
        (FailureKind::Status(429), 2, "the queue is full"),
        (FailureKind::Status(500), 2, ""),
        (FailureKind::Event, 2, "engine lost"),
        (FailureKind::Truncated, 2, "no [DONE]"),
        (FailureKind::Empty, 2, "stop"),
    ];
    assert_eq!(counts, expected);
    assert_eq!((report.totals.completed, report.totals.failed), (2, 10));
    // Without usage, pieces of text are what there is to count, and the report says so.
    assert!(!report.usage_reported);
    assert_eq!(report.totals.output_tokens, 2);
    let table = report.to_string();
    assert!(table.contains("failed: 2 × status 429 (the queue is full)"), "{table}");
    assert!(table.contains("the server reported no usage"), "{table}");
}

#[test]
fn a_stream_that_stands_still_times_out() {
    fn script(_: usize) -> HttpResponse {
        HttpResponse::Ok().streaming(stream::pending::<Result<web::Bytes, actix_web::Error>>())
    }
    let server = serve(script, Tokenize::Vllm);
    // What comes before the stream, the model's name and lengths of prompts, has to be answered in that time.
    let report = report(&Options { requests: 2, timeout: Duration::from_secs(3), ..options(&server) });
    assert_eq!(report.failures[0].kind, FailureKind::TimedOut);
    assert_eq!(report.failures[0].count, 2);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // Taken, so that nobody else gets it, but not listened on.
    let taken = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    taken.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let gone = taken.local_addr().unwrap().as_socket().unwrap();
    let server = serve(three_tokens, Tokenize::Vllm);
    let options = Options { url: format!("http://{gone}"), ..options(&server) };
    let error = run(&options, &|_: Stage, _, _| {}).unwrap_err();
    assert!(format!("{error:#}").starts_with(&format!("cannot connect to {gone}")), "{error:#}");
}

#[test]
fn json_holds_the_distributions_and_samples_only_if_wanted() {
    let server = serve(three_tokens, Tokenize::Vllm);
    let report = report(&options(&server));
    let with = serde_json::to_value(&report).unwrap();
    let without = serde_json::to_value(report.without_samples()).unwrap();
    assert_eq!(with["samples"].as_array().unwrap().len(), 12);
    assert_eq!(without.get("samples"), None);
    for key in ["ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds"] {
        for field in ["mean", "p50", "p90", "p95", "p99", "max"] {
            assert!(without[key][field].as_f64().unwrap() >= 0.0, "{key}.{field}");
        }
    }
}
