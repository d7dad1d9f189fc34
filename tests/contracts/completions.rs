//! `POST /v1/completions`, and `/tokenize` and `/detokenize` beside it.

use serde_json::{Value, json};

use crate::support::{Server, streamed, with};

const PROMPT: &str = "The quick brown fox jumps over";

fn request(prompt: &Value) -> Value {
    json!({"prompt": prompt, "max_tokens": 8, "temperature": 0})
}

#[test]
fn c028_prompts_times_choices_in_order() {
    let server = Server::start(&[]);
    let fox = server.client.complete(&request(&json!(PROMPT)));
    let count = server.client.complete(&request(&json!("1, 2, 3, 4, 5,")));
    assert_ne!(fox.text(), count.text());
    let both = with(request(&json!([PROMPT, "1, 2, 3, 4, 5,"])), json!({"n": 2, "best_of": 2}));
    let answer = server.client.complete(&both);
    assert_eq!(answer.texts(), [fox.text(), fox.text(), count.text(), count.text()]);
    assert_eq!(server.client.complete(&streamed(both)), answer);
}

#[test]
fn a_prompt_may_be_tokens_and_the_tokens_are_those_of_its_text() {
    let server = Server::start(&[]);
    let tokenized = server.client.post("/tokenize", &json!({"prompt": PROMPT})).json();
    assert_eq!(tokenized["count"], tokenized["tokens"].as_array().unwrap().len());
    let text = server.client.post("/detokenize", &json!({"tokens": tokenized["tokens"]})).json();
    assert_eq!(text["prompt"], PROMPT);
    let of_tokens = server.client.complete(&request(&tokenized["tokens"]));
    assert_eq!(of_tokens, server.client.complete(&request(&json!(PROMPT))));
    assert_eq!(of_tokens.usage["prompt_tokens"], tokenized["count"]);

    let echoed = server.client.complete(&with(request(&json!(PROMPT)), json!({"echo": true})));
    assert_eq!(echoed.text(), format!("{PROMPT}{}", of_tokens.text()));
}

#[test]
fn an_echo_tells_how_likely_the_prompt_is() {
    let server = Server::start(&[]);
    let ask = |prompt: &str, more: Value| {
        let body = with(request(&json!(prompt)), json!({"echo": true, "logprobs": 1}));
        server.client.post("/v1/completions", &with(body, more)).json()
    };
    let list =
        |answer: &Value, name: &str| answer["choices"][0]["logprobs"][name].as_array().unwrap().clone();
    let likelihood = |text: &str| {
        let answer = ask(text, json!({"max_tokens": 0}));
        assert_eq!(
            (&answer["choices"][0]["text"], &answer["usage"]["completion_tokens"]),
            (&json!(text), &json!(0))
        );
        let logprobs = list(&answer, "token_logprobs");
        assert!(logprobs[0].is_null() && logprobs[1..].iter().all(Value::is_f64), "{answer}");
        logprobs[1..].iter().filter_map(Value::as_f64).sum::<f64>()
    };
    let [paris, oslo] =
        ["Paris", "Oslo"].map(|city| likelihood(&format!("The capital of France is {city}.")));
    assert!(paris > oslo, "{paris} {oslo}");

    // What a model says is as likely as it was when it said it: the prompt's tokens come from the cache or not.
    let said = ask(PROMPT, json!({}));
    let text = said["choices"][0]["text"].as_str().unwrap();
    let again = ask(text, json!({"max_tokens": 0}));
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(list(&said, name), list(&again, name), "{name}");
    }
    assert_eq!(list(&said, "tokens").iter().filter_map(Value::as_str).collect::<String>(), text);
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

#[test]
fn c071_log_probabilities_line_up_with_the_text() {
    let server = Server::start(&[]);
    let asked = with(request(&json!(PROMPT)), json!({"logprobs": 2}));
    let answer = server.client.post("/v1/completions", &asked).json();
    let (text, logprobs) =
        (answer["choices"][0]["text"].as_str().unwrap(), &answer["choices"][0]["logprobs"]);
    let list = |name: &str| logprobs[name].as_array().unwrap().clone();
    let tokens = list("tokens");
    assert_eq!(tokens.iter().filter_map(Value::as_str).collect::<String>(), text);
    let mut offset = 0;
    for (index, token) in tokens.iter().enumerate() {
        assert_eq!(list("text_offset")[index], offset);
        offset += token.as_str().unwrap().chars().count();
        let top = list("top_logprobs")[index].as_object().unwrap().clone();
        assert_eq!((top.len(), &top[token.as_str().unwrap()]), (2, &list("token_logprobs")[index]));
    }
}
