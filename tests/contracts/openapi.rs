//! schemathesis reads the OpenAPI document, and asks the server what it describes and what it does not.

use crate::clients::python;
use crate::support::{Server, root};

/// Requests of random contents for each endpoint, beside those that the document makes necessary.
const EXAMPLES: &str = "10";
/// The context is short, so that an answer without a limit of its own is.
const FLAGS: [&str; 2] = ["--max-model-len", "64"];

#[test]
fn schemathesis_meets_no_server_error_and_no_answer_beside_its_schema() {
    let server = Server::start(&FLAGS);
    let output = python(&["clients"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(root().join("tests/clients/schemathesis.toml"))
        .arg("run")
        .arg(format!("http://{}/openapi.json", server.client.address))
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", "1"])
        // One worker: with more, the parser of Python 3.11 fails now and then ("recursion depth mismatch").
        .args(["--workers", "1", "--continue-on-failure", "--warnings", "off"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // It found the endpoints, and sent them something.
    let generated =
        said.lines().find_map(|line| line.trim().split_once(" generated, ")?.0.parse::<u32>().ok());
    assert!(generated.is_some_and(|count| count > 500), "{said}");
    // Whatever was asked, nothing of it is left.
    server.until_idle();
}
