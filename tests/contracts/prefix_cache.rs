//! What was computed before is found again, and changes no answer. A salt of its own makes a request find nothing.

use serde_json::{Value, json};

use crate::support::{Answer, Client, Event, Server, chat, streamed, with};

const CHAT: &str = "/v1/chat/completions";

/// Tokens of a block of the server's KV cache.
const BLOCK: u64 = 32;

/// A system prompt of some 100 tokens.
const SYSTEM: &str = "You are a guide in a small museum of natural history. You answer questions of visitors about \
    animals, plants and stones in one or two short sentences. You are polite, you never make anything up, and if you \
    do not know an answer you say so. Visitors come from many countries, so you use simple words and short sentences. \
    The museum is open from nine to five, and closed on Mondays.";

fn asks(messages: &[(&str, &str)], max_tokens: u32) -> Value {
    let messages: Vec<Value> =
        messages.iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
    with(chat("", max_tokens), json!({"messages": messages}))
}

/// An answer, and how many tokens of its prompt were found.
struct Told {
    answer: Answer,
    prompt_tokens: u64,
    cached: u64,
}

fn ask(client: Client, request: &Value) -> Told {
    let mut answer = Answer::default();
    let mut usage = Value::Null;
    let response = client.post(CHAT, request);
    if request["stream"] == true {
        for event in response.events() {
            let Event::Data(chunk) = event else { continue };
            answer.add_chunk(&chunk);
            usage.clone_from(&chunk["usage"]);
        }
    } else {
        let document = response.json();
        answer = Answer::of_document(&document);
        usage.clone_from(&document["usage"]);
    }
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().expect("it is told");
    Told { answer, prompt_tokens: usage["prompt_tokens"].as_u64().unwrap(), cached }
}

/// Asks where nothing can be found, then where something may be.
fn assert_same(client: Client, request: &Value, salt: &str) -> Told {
    let cold = ask(client, &with(request.clone(), json!({"cache_salt": salt})));
    assert_eq!(cold.cached, 0, "nobody used the salt before");
    let warm = ask(client, request);
    assert_eq!(warm.answer, cold.answer);
    warm
}

#[test]
fn c018_c051_c055_c060_c130_a_warm_prompt_gives_the_same_answer_with_full_counts() {
    let server = Server::start(&[]);
    let request = with(
        asks(&[("system", SYSTEM), ("user", "What does a fox eat?")], 24),
        json!({"logprobs": true, "top_logprobs": 5, "ignore_eos": true}),
    );
    let cold = ask(server.client, &request);
    assert_eq!(cold.cached, 0);
    assert!(cold.prompt_tokens > 3 * BLOCK, "{}", cold.prompt_tokens);
    for request in [request.clone(), streamed(request.clone()), request] {
        let warm = ask(server.client, &request);
        // At least one token is computed, for what it predicts.
        assert_eq!(warm.cached, (cold.prompt_tokens - 1) / BLOCK * BLOCK);
        assert_eq!(warm.answer, cold.answer);
    }
    server.until_idle();
}

#[test]
fn c126_questions_after_one_system_prompt_have_their_own_answers() {
    let server = Server::start(&[]);
    let questions = ["What does a fox eat?", "Who was Hamlet?", "How old is a stone?"];
    for (index, question) in questions.into_iter().enumerate() {
        let request = asks(&[("system", SYSTEM), ("user", question)], 24);
        let told = assert_same(server.client, &request, question);
        assert_eq!(told.cached >= 2 * BLOCK, index > 0, "{question}: {} tokens", told.cached);
    }
}

#[test]
fn a_chat_finds_its_history() {
    let server = Server::start(&[]);
    let mut turns = vec![("system".to_owned(), SYSTEM.to_owned())];
    let (mut prompts, mut found) = (0, 0);
    for turn in 1..=4 {
        turns.push(("user".to_owned(), format!("Tell me fact number {turn} about foxes.")));
        let messages: Vec<(&str, &str)> = turns.iter().map(|(role, text)| (&role[..], &text[..])).collect();
        let told = assert_same(server.client, &asks(&messages, 40), &format!("turn {turn}"));
        if turn > 1 {
            prompts += told.prompt_tokens;
            found += told.cached;
        }
        turns.push(("assistant".to_owned(), told.answer.text().to_owned()));
    }
    // All but the new question and the last block.
    assert!(found + 3 * 2 * BLOCK > prompts, "{found} of {prompts} tokens");
}

#[test]
fn c115_a_conversation_goes_on_from_an_answer_that_was_broken_off() {
    let server = Server::start(&[]);
    let first = asks(&[("system", SYSTEM), ("user", "Tell me a long story about a fox.")], 2000);
    let endless = with(streamed(first), json!({"ignore_eos": true}));
    let mut events = server.client.post(CHAT, &endless).events();
    let mut begun = Answer::default();
    while begun.choices.first().is_none_or(|choice| choice.text.len() < 300) {
        begun.add_chunk(&events.data());
    }
    drop(events);
    server.until_idle();
    let messages = [
        ("system", SYSTEM),
        ("user", "Tell me a long story about a fox."),
        ("assistant", begun.text()),
        ("user", "Go on."),
    ];
    let told = assert_same(server.client, &asks(&messages, 24), "cold");
    // The answer's tokens need not be those that its text has as a part of a prompt; the prompt's own are.
    assert!(told.cached >= 3 * BLOCK, "{} of {} tokens", told.cached, told.prompt_tokens);
}
