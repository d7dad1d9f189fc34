//! Every subcommand, as a shell uses it.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{CAPITAL, Server, model, troupe};

/// What a command writes to stdout when all goes well.
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(words: &[&str]) -> Value {
    let text = stdout(&troupe(words).output().unwrap());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
}

#[test]
fn generate_says_paris_as_text_and_as_json() {
    let model = model();
    let words = ["generate", "--model", model.to_str().unwrap(), "--prompt", CAPITAL, "--temperature", "0"];
    let text = stdout(&troupe(&words).output().unwrap());
    assert!(text.contains("Paris"), "{text}");

    let answer = json(&[&words[..], &["--json", "--logprobs", "2"]].concat());
    assert_eq!(answer["text"].as_str().unwrap(), text.trim_end_matches('\n'));
    assert_eq!(answer["finish_reason"], "stop");
    let tokens = answer["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(tokens > 1 && answer["usage"]["prompt_tokens"].as_u64().unwrap() > 1, "{answer}");
    let logprobs = answer["logprobs"].as_array().unwrap();
    // The token that ends the answer has no text.
    assert_eq!(logprobs.len() as u64, tokens - 1);
    assert!(logprobs.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() == 2), "{answer}");
}

#[test]
fn run_reads_questions_from_a_pipe_and_remembers_them() {
    let model = model();
    let mut process = troupe(&["run", "--temperature", "0", "--max-tokens", "24", "--model"])
        .arg(model)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let questions = format!("{CAPITAL}\n\nRepeat what you said.\n");
    process.stdin.take().unwrap().write_all(questions.as_bytes()).unwrap();
    let text = stdout(&process.wait_with_output().unwrap());
    let (first, second) = text.split_once('\n').unwrap();
    assert!(first.contains("Paris"), "{text}");
    // It can know that only from what was said before.
    assert!(second.contains("Paris"), "{text}");
}

#[test]
fn list_and_inspect_tell_what_is_in_a_file() {
    let model = model();
    let listed = json(&["list", "--json", "--dir", model.parent().unwrap().to_str().unwrap()]);
    let name = model.file_name().unwrap().to_str().unwrap();
    let found = listed.as_array().unwrap().iter().find(|listed| listed["name"] == name).unwrap();
    assert_eq!((&found["architecture"], &found["quantization"]), (&"llama".into(), &"Q4_1".into()));

    let inspected = json(&["inspect", model.to_str().unwrap(), "--json", "--max-num-seqs", "2"]);
    assert_eq!(inspected["num_parameters"], found["num_parameters"]);
    assert_eq!((&inspected["num_layers"], &inspected["vocab_size"]), (&30.into(), &49152.into()));
    let memory = &inspected["memory"];
    let number = |name: &str| memory[name].as_u64().expect(name);
    assert_eq!(number("kv_bytes"), number("kv_bytes_per_token") * 2 * number("max_model_len"));
    assert_eq!(number("total_bytes"), number("kv_bytes") + number("weight_bytes"));

    // Inspect promises what a server takes.
    let server = Server::start(&["--max-num-seqs", "2"]);
    let announced = server.announced("weights_mib");
    let promised = number("weight_bytes") >> 20;
    assert!(announced.abs_diff(promised) <= promised / 50, "promised {promised} MiB, taken {announced} MiB");
}

#[test]
fn bench_measures_a_running_server() {
    let server = Server::start(&[]);
    let url = format!("http://{}", server.client.address);
    let words =
        "--requests 6 --warmup 1 --concurrency 3 --prompt-tokens 32 --output-tokens 8 --ignore-eos --json";
    let words: Vec<&str> = words.split(' ').collect();
    let report = json(&[&["bench", "--url", &url], &words[..]].concat());
    let totals = &report["totals"];
    assert_eq!((&totals["completed"], &totals["failed"]), (&6.into(), &0.into()), "{report}");
    assert_eq!((&totals["output_tokens"], &report["failures"]), (&48.into(), &serde_json::json!([])));
    assert!(totals["output_tokens_per_second"].as_f64().unwrap() > 0.0, "{report}");
    for name in ["ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds"] {
        let times = ["p50", "p90", "p99", "max"].map(|part| report[name][part].as_f64().expect(name));
        assert!(times[0] > 0.0 && times.is_sorted(), "{name}: {times:?}");
    }
    assert!(report["e2e_seconds"]["max"].as_f64() > report["ttft_seconds"]["max"].as_f64(), "{report}");
}

#[test]
fn every_subcommand_has_help_and_a_wrong_word_is_a_wrong_call() {
    let help = stdout(&troupe(&["--help"]).output().unwrap());
    for name in ["serve", "generate", "run", "list", "inspect", "bench"] {
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        let own = stdout(&troupe(&[name, "--help"]).output().unwrap());
        assert!(
            own.contains(&format!("Usage: troupe {name} [OPTIONS]")) && own.contains("Examples:"),
            "{own}"
        );
        let wrong = troupe(&[name, "--no-such-flag"]).output().unwrap();
        assert_eq!(wrong.status.code(), Some(2), "{name}");
        assert!(String::from_utf8_lossy(&wrong.stderr).contains("--no-such-flag"), "{name}");
    }
}

#[test]
fn options_of_the_cpu_are_followed_or_refused_by_name() {
    let model = model();
    let generate = |flags: &[&str]| {
        let words = ["generate", "--model", model.to_str().unwrap(), "--device", "cpu", "--max-tokens", "8"];
        troupe(&[&words[..], &["--prompt", "What is the capital of France?"], flags].concat())
            .output()
            .unwrap()
    };
    let answers: Vec<String> = [
        &["--cpu-threads", "1", "--cpu-affinity", "free"][..],
        &["--cpu-threads", "3"],
        &["--cpu-activations", "f32", "--kv-cache-dtype", "f32"],
    ]
    .into_iter()
    .map(|flags| stdout(&generate(flags)))
    .collect();
    assert!(answers.iter().all(|answer| answer.contains("Paris") && *answer == answers[0]), "{answers:?}");
    for (flags, reason) in [
        (["--cpu-threads", "0"], "0 is not between 1 and 256"),
        (["--cpu-threads", "many"], "`many` is not a whole number"),
        (["--cpu-activations", "int4"], "int4"),
        (["--kv-cache-dtype", "int4"], "int4"),
    ] {
        let refused = generate(&flags);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(flags[0]) && error.contains(reason), "{flags:?}: {error}");
    }
}
