//! The README's examples, as they are printed.

use std::io::Write;
use std::process::Stdio;

use crate::clients::python;
use crate::support::{Server, root};

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
    assert!(answer.text().contains("Paris"), "{answer:?}");

    let program = between("```python\n", "```");
    assert!(program.contains("127.0.0.1:8080"), "{program}");
    let mut process =
        python(&["clients"]).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let program = program.replace("127.0.0.1:8080", &address);
    process.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Paris"), "{said}");
}
