//! What the template and tokenizer tests share: fetched material, the Python reference, conversations.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chrono::{NaiveDate, NaiveDateTime};
use serde_json::{Map, Value as Json, json};
use troupe_actors::template::Ending;
use troupe_model_files::ModelFiles;

/// The special tokens that every template gets, on both sides.
pub(crate) const NAMED_TOKENS: &[(&str, &str)] =
    &[("bos_token", "<|bos|>"), ("eos_token", "<|eos|>"), ("pad_token", "<|pad|>"), ("unk_token", "<|unk|>")];

/// Where `make test-deps` puts what the tests need.
pub(crate) fn test_deps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/test")
}

/// The clock of both sides.
pub(crate) fn now() -> NaiveDateTime {
    NaiveDate::from_ymd_opt(2025, 7, 4).and_then(|day| day.and_hms_opt(13, 5, 9)).expect("a real date")
}

/// The fetched templates by file name, and that of the default model.
pub(crate) fn templates() -> Vec<(String, String)> {
    let folder = test_deps().join("templates");
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make test-deps` first", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jinja"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a readable template"))
    };
    let mut templates: Vec<(String, String)> = paths.into_iter().map(read).collect();
    let files = default_model();
    templates
        .push(("the default model".to_owned(), files.chat_templates().default.clone().expect("a template")));
    templates
}

/// The model that `make models` fetches.
pub(crate) fn default_model() -> ModelFiles {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    ModelFiles::open(&path).unwrap_or_else(|error| panic!("{error}; run `make models` first"))
}

/// What `transformers` made of a case.
#[derive(Debug)]
pub(crate) enum Reference {
    /// The rendered text.
    Text(String),
    /// The message of `raise_exception`.
    Raised(String),
    /// Any other error.
    Failed(String),
}

/// Renders all cases with `transformers`, in one process.
pub(crate) fn reference_results(cases: &[Json]) -> Vec<Reference> {
    let results = run_python("template_reference.py", &json!(cases));
    let results = results.as_array().expect("a list of results");
    results
        .iter()
        .map(|result| {
            let text = |key: &str| result.get(key).and_then(Json::as_str).map(str::to_owned);
            text("text")
                .map(Reference::Text)
                .or_else(|| text("raised").map(Reference::Raised))
                .or_else(|| text("failed").map(Reference::Failed))
                .expect("a known kind of result")
        })
        .collect()
}

/// Runs a script of this folder with the fetched Python, JSON in and JSON out.
pub(crate) fn run_python(script: &str, input: &Json) -> Json {
    let packages = test_deps().join("python");
    assert!(packages.is_dir(), "{} is missing; run `make test-deps` first", packages.display());
    let mut child = Command::new("python3")
        .env("PYTHONPATH", &packages)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("python3: {error}"));
    let mut stdin = child.stdin.take().expect("a piped input");
    let bytes = serde_json::to_vec(input).expect("plain JSON");
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().expect("the script ends");
    writer.join().expect("the writer ends").expect("the script reads its input");
    assert!(output.status.success(), "{script} failed");
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

/// A conversation that every template renders.
pub(crate) struct Conversation {
    pub(crate) name: &'static str,
    pub(crate) messages: Vec<Json>,
    pub(crate) tools: Option<Vec<Json>>,
    pub(crate) documents: Option<Vec<Json>>,
    pub(crate) ending: Ending,
    pub(crate) variables: Map<String, Json>,
}

fn conversation(name: &'static str, messages: Json) -> Conversation {
    let Json::Array(messages) = messages else { panic!("{name}: messages are a list") };
    Conversation {
        name,
        messages,
        tools: None,
        documents: None,
        ending: Ending::GenerationPrompt,
        variables: Map::new(),
    }
}

fn with_variables(mut conversation: Conversation, variables: Json) -> Conversation {
    conversation.variables = variables.as_object().expect("a mapping").clone();
    conversation
}

fn with_tools(mut conversation: Conversation) -> Conversation {
    conversation.tools = Some(tools());
    conversation
}

fn with_ending(mut conversation: Conversation, ending: Ending) -> Conversation {
    conversation.ending = ending;
    conversation
}

/// The table of conversations.
pub(crate) fn conversations() -> Vec<Conversation> {
    let user = || json!({"role": "user", "content": "What is the capital of France?"});
    let plain = || json!([{"role": "system", "content": "You are terse."}, user()]);
    let turns = || {
        json!([
            {"role": "system", "content": "  Keep the\n indentation.  \n"},
            {"role": "user", "content": " Hi <b>there</b> & \"you\" "},
            {"role": "assistant", "content": "Hello!\n\n"},
            {"role": "user", "content": "And 2 + 2?"},
            {"role": "assistant", "content": "4"},
            {"role": "user", "content": "Thanks\\n {{ messages }} {% if %}"},
        ])
    };
    let unicode =
        || json!([{"role": "user", "content": "Grüße, 世界 🙂 e\u{301} \u{200b}\u{a0}\u{2028} — ½ “q” '"}]);
    vec![
        conversation("one user message", json!([user()])),
        conversation("system and user", plain()),
        with_ending(conversation("without a generation prompt", plain()), Ending::Closed),
        conversation("turns", turns()),
        with_ending(
            conversation(
                "turns ending in an answer",
                json!([user(), {"role": "assistant", "content": "Paris."}]),
            ),
            Ending::Closed,
        ),
        conversation("unicode", unicode()),
        conversation("empty user text", json!([{"role": "user", "content": ""}])),
        conversation("two users running", json!([user(), user()])),
        conversation("assistant first", json!([{"role": "assistant", "content": "Hello"}, user()])),
        conversation(
            "system in the middle",
            json!([user(), {"role": "system", "content": "Now rhyme."}, user()]),
        ),
        conversation("an unknown role", json!([{"role": "narrator", "content": "Once"}, user()])),
        conversation("a developer message", json!([{"role": "developer", "content": "Be kind."}, user()])),
        conversation("no messages", json!([])),
        conversation(
            "reasoning in an answer",
            json!([
                user(),
                {"role": "assistant", "content": "<think>\nlet me see\n</think>\n\nParis."},
                {"role": "user", "content": "Sure?"},
            ]),
        ),
        conversation(
            "reasoning beside an answer",
            json!([
                user(),
                {"role": "assistant", "reasoning_content": "let me see", "content": "Paris."},
                {"role": "user", "content": "Sure?"},
            ]),
        ),
        conversation(
            "text parts",
            json!([
                {"role": "system", "content": [{"type": "text", "text": "Be terse."}]},
                {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": " two"}]},
            ]),
        ),
        with_variables(
            conversation("thinking on", plain()),
            json!({"enable_thinking": true, "thinking": true, "reasoning_effort": "high"}),
        ),
        with_variables(
            conversation("thinking off", plain()),
            json!({"enable_thinking": false, "thinking": false, "reasoning_effort": "low"}),
        ),
        with_variables(
            conversation("odd variables", plain()),
            json!({"date_string": "1 Jan 2000", "add_bos": 1, "xml_tools": [1.5, null, {"a": true}], "custom_tools": null, "builtin_tools": ["python"], "tools_in_user_message": false}),
        ),
        with_tools(conversation("tools", plain())),
        with_tools(conversation("tools without a system message", json!([user()]))),
        with_tools(conversation(
            "a tool call and its result",
            tool_turns(
                json!({"city": "Köln", "days": 3, "flags": [true, null, 1.5e-7], "nested": {"q": "a\"b'\n"}}),
            ),
        )),
        with_tools(conversation("a tool call without arguments", tool_turns(json!({})))),
        with_tools(conversation("two tool calls at once", two_calls())),
        with_tools(with_variables(
            conversation("tools and thinking", tool_turns(json!({"city": "Rome"}))),
            json!({"enable_thinking": true}),
        )),
        Conversation {
            documents: Some(vec![
                json!({"title": "Cities", "text": "Paris is the capital."}),
                json!({"title": "More", "text": "…", "doc_id": 7}),
            ]),
            ..conversation("documents", plain())
        },
        with_ending(
            conversation(
                "a continued answer",
                json!([user(), {"role": "assistant", "content": "The capital is"}]),
            ),
            Ending::ContinueFinalMessage,
        ),
        with_ending(
            conversation(
                "a continued answer with space at its end",
                json!([user(), {"role": "assistant", "content": "The capital is "}]),
            ),
            Ending::ContinueFinalMessage,
        ),
    ]
}

/// The same conversation with the arguments of its tool calls as compact JSON strings.
pub(crate) fn with_arguments_in_strings(conversation: &Conversation) -> Conversation {
    let mut messages = conversation.messages.clone();
    for call in messages
        .iter_mut()
        .filter_map(|message| message.get_mut("tool_calls"))
        .filter_map(Json::as_array_mut)
        .flatten()
    {
        let arguments = &mut call["function"]["arguments"];
        *arguments = Json::String(arguments.to_string());
    }
    Conversation {
        name: conversation.name,
        messages,
        tools: conversation.tools.clone(),
        documents: conversation.documents.clone(),
        ending: conversation.ending,
        variables: conversation.variables.clone(),
    }
}

fn tools() -> Vec<Json> {
    vec![
        json!({"type": "function", "function": {
            "name": "get_weather",
            "description": "The weather at a place.\nSecond line with <tags> & \"quotes\".",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where, e.g. Köln"},
                    "days": {"type": "integer", "minimum": 1, "default": 1},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "flags": {"type": "array", "items": {"type": ["boolean", "null"]}},
                    "nested": {"type": "object", "properties": {"q": {"type": "number"}}, "required": ["q"]},
                },
                "required": ["city"],
                "additionalProperties": false,
            },
            "return": {"type": "string", "description": "a report"},
        }}),
        json!({"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}),
    ]
}

fn tool_turns(arguments: Json) -> Json {
    json!([
        {"role": "system", "content": "You may use tools."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": arguments}},
        ]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather", "content": "{\"sky\": \"blue\"}"},
        {"role": "assistant", "content": "Blue sky."},
        {"role": "user", "content": "Thanks!"},
    ])
}

fn two_calls() -> Json {
    json!([
        {"role": "user", "content": "Weather and time?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "aaaaaaaa1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}},
            {"id": "aaaaaaaa2", "type": "function", "function": {"name": "now", "arguments": {}}},
        ]},
        {"role": "tool", "tool_call_id": "aaaaaaaa1", "name": "get_weather", "content": "rain"},
        {"role": "tool", "tool_call_id": "aaaaaaaa2", "name": "now", "content": "12:00"},
    ])
}
