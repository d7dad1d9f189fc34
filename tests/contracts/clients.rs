//! Clients that we did not write, as their users use them. Each runs its flows against a server of its own.
//!
//! The flows stand in tests/clients, a file for each client; the constants here say which of them run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, ToolServer, root};

/// What runs a client's file.
#[derive(Clone, Copy)]
enum Runtime {
    /// Python with packages from these folders of `.deps/test`.
    Python(&'static [&'static str]),
    /// Node where its packages are.
    Node,
}

/// A client, and those of its flows that run.
struct Client {
    file: &'static str,
    runtime: Runtime,
    flows: &'static [&'static str],
    /// Those that need a model whose template knows tools.
    tool_flows: &'static [&'static str],
}

const OPENAI: Client = Client {
    file: "openai_client.py",
    runtime: Runtime::Python(&["clients"]),
    flows: &[
        "models",
        "chat",
        "stream",
        "stream_helper",
        "choices",
        "cancel",
        "completion",
        "chat_logprobs",
        "errors",
        "embeddings_are_refused",
        "responses",
        "responses_stream",
        "parse",
        "json_object",
        "responses_parse",
    ],
    tool_flows: &["tools"],
};

const ANTHROPIC: Client = Client {
    file: "anthropic_client.py",
    runtime: Runtime::Python(&["clients"]),
    flows: &["models", "chat", "stream", "stop", "count_tokens", "errors"],
    tool_flows: &["tools", "tool_runner"],
};

/// No client, but the examples that the OpenAPI document gives, sent as a reader of it would.
const EXAMPLES: Client = Client {
    file: "examples.py",
    runtime: Runtime::Python(&["clients"]),
    flows: &["whole_answers", "streams"],
    tool_flows: &[],
};

const LITELLM: Client = Client {
    file: "litellm_client.py",
    runtime: Runtime::Python(&["clients"]),
    flows: &["chat", "stream", "text_completion", "errors", "embeddings_are_refused", "parse"],
    tool_flows: &["tools"],
};

const LANGCHAIN: Client = Client {
    file: "langchain_client.py",
    runtime: Runtime::Python(&["clients"]),
    flows: &["chat", "stream", "batch", "text_completion", "errors", "embeddings_are_refused", "parse"],
    tool_flows: &["tools"],
};

const LLAMA_INDEX: Client = Client {
    file: "llama_index_client.py",
    runtime: Runtime::Python(&["llama-index", "python"]),
    flows: &["chat", "stream", "text_completion", "errors", "parse"],
    tool_flows: &["tools"],
};

const LLM: Client = Client {
    file: "llm_client.py",
    runtime: Runtime::Python(&["clients"]),
    flows: &["chat", "stream", "goes_on", "errors", "parse"],
    tool_flows: &[],
};

const OPENAI_FOR_NODE: Client = Client {
    file: "npm/openai.mjs",
    runtime: Runtime::Node,
    flows: &["models", "chat", "stream", "abort", "errors", "embeddings_are_refused", "responses", "parse"],
    tool_flows: &["tools"],
};

const AI_FOR_NODE: Client = Client {
    file: "npm/ai.mjs",
    runtime: Runtime::Node,
    flows: &["chat", "stream", "errors", "embeddings_are_refused", "parse"],
    tool_flows: &["tools"],
};

impl Client {
    /// Runs the flows; each has to succeed.
    fn run(&self) {
        self.run_flows(&Server::start(&[]), self.flows);
        if !self.tool_flows.is_empty() {
            self.run_flows(&ToolServer::start("hermes"), self.tool_flows);
        }
    }

    fn run_flows(&self, server: &Server, flows: &[&str]) {
        let clients = root().join("tests/clients");
        let url = format!("http://{}", server.client.address);
        let output = match self.runtime {
            Runtime::Python(folders) => {
                python(folders).arg(clients.join(self.file)).arg(url).args(flows).output()
            }
            Runtime::Node => node(&clients.join(self.file))
                .arg(clients.join("npm/flows.mjs"))
                .arg(url)
                .args(flows)
                .output(),
        };
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", self.file));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.file);
        let last = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned);
        assert_eq!(last, Some(format!("{} flows passed", flows.len())), "{}: {said}", self.file);
    }
}

/// Python with packages from folders of `.deps/test`.
pub fn python(folders: &[&str]) -> Command {
    let folders = folders.iter().map(|name| packages(name));
    let mut python = Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()));
    python.env("PYTHONPATH", std::env::join_paths(folders).unwrap());
    python
}

/// Node, to read a program of ours from `file` as if it stood where the packages are.
fn node(file: &Path) -> Command {
    let mut node = Command::new("node");
    node.current_dir(packages("npm")).args(["--input-type=module", "-"]);
    node.stdin(Stdio::from(std::fs::File::open(file).unwrap()));
    node
}

fn packages(name: &str) -> std::path::PathBuf {
    let folder = root().join(".deps/test").join(name);
    assert!(folder.is_dir(), "{} is not there: `make test-deps` fetches it", folder.display());
    folder
}

#[test]
fn the_openai_package() {
    OPENAI.run();
}

#[test]
fn the_anthropic_package() {
    ANTHROPIC.run();
}

#[test]
fn the_document_s_examples_are_answered_as_it_describes() {
    EXAMPLES.run();
}

#[test]
fn the_litellm_package() {
    LITELLM.run();
}

#[test]
fn the_langchain_openai_package() {
    LANGCHAIN.run();
}

#[test]
fn the_llama_index_package() {
    LLAMA_INDEX.run();
}

#[test]
fn the_llm_command_line() {
    LLM.run();
}

#[test]
fn the_openai_package_for_node() {
    OPENAI_FOR_NODE.run();
}

#[test]
fn the_ai_package_for_node() {
    AI_FOR_NODE.run();
}

/// Runs a client of tests/clients against a server of its own; it makes so many checks.
pub fn passes(file: &str, checks: u32) {
    let server = Server::start(&[]);
    let output = python(&["clients"])
        .arg(root().join("tests/clients").join(file))
        .arg(format!("http://{}", server.client.address))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let last = format!("{checks} checks passed");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().last(), Some(last.as_str()), "{said}");
}
