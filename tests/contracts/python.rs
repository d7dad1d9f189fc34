//! The `openai` Python package, as its users use it.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Server, root};

/// Python with the packages that the tests use.
fn python() -> Command {
    let packages = root().join(".deps/test/python");
    assert!(packages.is_dir(), "{} is not there: `make test-deps` fetches it", packages.display());
    let mut python = Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()));
    python.env("PYTHONPATH", packages);
    python
}

#[test]
fn the_openai_package_streams_cancels_and_understands_errors() {
    let server = Server::start(&[]);
    let output = python()
        .arg(root().join("tests/clients/openai_client.py"))
        .arg(format!("http://{}", server.client.address))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().last(), Some("7 checks passed"), "{said}");
}

#[test]
fn the_readme_s_examples_work_as_they_are_printed() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let between = |begin: &str, end: &str| {
        let (_, rest) = readme.split_once(begin).expect(begin);
        rest.split_once(end).expect(end).0.to_owned()
    };
    let server = Server::start(&[]);
    let address = server.client.address.to_string();

    let body = between("/v1/chat/completions -H 'content-type: application/json'", "'\n");
    let (_, body) = body.split_once("-d '").unwrap();
    let answer = server.client.send("POST", "/v1/chat/completions", body.as_bytes()).answer();
    // It is sampled, so what it says is not known.
    assert!(!answer.text().is_empty(), "{answer:?}");

    let program = between("```python\n", "```");
    assert!(program.contains("127.0.0.1:8080"), "{program}");
    let mut process = python().arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let program = program.replace("127.0.0.1:8080", &address);
    process.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}");
    assert!(!output.stdout.trim_ascii().is_empty(), "the stream was empty");
}
