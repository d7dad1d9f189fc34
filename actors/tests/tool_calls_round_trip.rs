//! Real chat templates write a model's earlier calls as the model does. What the parsers read of that text is what
//! was rendered: formats that we did not write.

mod support;

use serde_json::{Map, Value as Json, json};
use troupe_actors::template::{ChatTemplate, Ending, RenderInput, TemplateTokens};
use troupe_parsers::{Event, Format, Parser, Piece, Reasoning, Setup, Start, Tool};

/// Templates whose calls cannot be read back, with the reason.
const UNREAD: &[(&str, &str)] = &[
    ("Apriel-1.6-15b-Thinker-fixed", "leaves out of earlier turns what opens the reasoning"),
    ("CohereForAI-c4ai-command-r-plus-tool_use", "reads a field that schemas of parameters do not have"),
    (
        "GigaChat3-10B-A1.8B",
        "writes a call as a message of its own role, behind the token that ends generation",
    ),
    ("HuggingFaceTB-SmolLM3-3B", "knows no calls"),
    ("Kimi-K2-Instruct", "changes a list in place, which the sandbox of templates refuses"),
    ("Kimi-K2-Thinking", "changes a list in place, which the sandbox of templates refuses"),
    ("LFM2-8B-A1B", "lists tools but renders no calls"),
    ("LFM2.5-Instruct", "lists tools but renders no calls"),
    ("MiniMax-M3", "nests elements in a form that we do not read"),
    (
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
        "drops calls beside a content, and null content is made empty",
    ),
    ("google-gemma-2-2b-it", "knows no calls"),
    ("ibm-granite-granite-3.3-2B-Instruct", "tells the model how to call but renders no calls"),
    ("llama-cpp-rwkv-world", "knows no calls"),
    ("meetkai-functionary-medium-v3.2", "writes names as recipients in a form that we do not read"),
    ("microsoft-Phi-3.5-mini-instruct", "knows no calls"),
    ("muse-glimmer", "writes a message to a recipient for each call, in a form that we do not read"),
    ("the default model", "knows no calls"),
];

/// Templates whose calls cannot be read back if there is content beside them.
const UNREAD_WITH_CONTENT: &[(&str, &str)] = &[
    ("NVIDIA-Nemotron-Nano-v2", "puts content into reasoning that it does not close"),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "makes the content a message after the calls"),
    ("llama-cpp-deepseek-r1", "drops calls beside a content"),
    ("openai-gpt-oss-120b", "refuses content beside reasoning and calls"),
];

/// Templates that render one call at a time.
const ONE_CALL: &[&str] = &[
    "GigaChat3.1-10B-A1.8B",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "openai-gpt-oss-120b",
];

const CONTENT: &str = "Let me look.";
const THOUGHT: &str = "They want a forecast.";

fn tools() -> Vec<Json> {
    let function = |name: &str, parameters: Json| {
        json!({"type": "function", "function": {
            "name": name, "description": "What it does.", "parameters": parameters,
            "return": {"type": "string", "description": "what it says"},
        }})
    };
    vec![
        function(
            "get_weather",
            json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "where"},
                    "days": {"type": "integer", "description": "how many"},
                    "flags": {"type": "array", "description": "some", "items": {"type": "boolean"}},
                    "nested": {"type": "object", "description": "more", "properties": {"q": {"type": "string", "description": "q"}}},
                },
                "required": ["city"],
                "additionalProperties": false,
            }),
        ),
        function("now", json!({"type": "object", "properties": {}, "additionalProperties": false})),
    ]
}

fn arguments() -> [(&'static str, Json); 2] {
    [
        (
            "get_weather",
            json!({"city": "Köln \"x\"\n🙂 <b>", "days": 3, "flags": [true, null, 1.5], "nested": {"q": "a'b"}}),
        ),
        ("now", json!({})),
    ]
}

fn id(index: usize) -> String {
    format!("abcdefgh{index}")
}

fn answer(content: &str, calls: usize) -> Json {
    let calls: Vec<Json> = arguments()
        .into_iter()
        .take(calls)
        .enumerate()
        .map(|(index, (name, arguments))| {
            let function = json!({"name": name, "arguments": arguments});
            json!({"id": id(index), "type": "function", "function": function})
        })
        .collect();
    json!({"role": "assistant", "content": content, "reasoning_content": THOUGHT, "tool_calls": calls})
}

fn render(template: &ChatTemplate, messages: &[Json], ending: Ending) -> Result<String, String> {
    let variables: Map<String, Json> = json!({
        "enable_thinking": true, "thinking": true, "datetime": "today", "functions": "[]", "reasoning_effort": "high",
        "preserve_thinking": true, "preserved_thinking": true, "keep_past_thinking": true,
    })
    .as_object()
    .expect("a mapping")
    .clone();
    let tools = tools();
    let input = RenderInput {
        messages,
        tools: Some(&tools),
        documents: None,
        ending,
        variables: Some(&variables),
        now: support::now(),
    };
    template.render(&input).map(|rendered| rendered.text).map_err(|error| error.to_string())
}

/// How much of both texts is the same, but for half a tag at the end.
fn common(left: &str, right: &str) -> usize {
    let same = left.char_indices().zip(right.chars()).take_while(|((_, left), right)| left == right);
    let end = same.last().map_or(0, |((at, character), _)| at + character.len_utf8());
    match (left[..end].rfind('<'), left[..end].rfind('>')) {
        (Some(open), closed) if closed.is_none_or(|closed| closed < open) && end < right.len() => open,
        _ => end,
    }
}

/// The calls that are read back from a rendered answer.
fn round_trip(
    source: &str,
    template: &ChatTemplate,
    content: &str,
    calls: usize,
) -> Result<Vec<(String, Json)>, String> {
    let user = json!({"role": "user", "content": "What is the weather?"});
    let prompt = render(template, std::slice::from_ref(&user), Ending::GenerationPrompt)?;
    let whole = render(template, &[user, answer(content, calls)], Ending::Closed)?;
    let at = common(&prompt, &whole);
    let (prompt, output) = (&whole[..at], &whole[at..]);
    let format = Format::detect(source).ok_or("its format is unknown")?;
    let reasoning = Reasoning::detect(source);
    let in_reasoning = reasoning.is_some_and(|tags| tags.is_open_at_end_of(prompt));
    let setup = Setup {
        format: Some(format),
        reasoning,
        start: if in_reasoning { Start::Reasoning } else { Start::Message },
        tools: tools()
            .iter()
            .map(|tool| &tool["function"])
            .map(|tool| Tool {
                name: tool["name"].as_str().expect("a name").to_owned(),
                parameters: tool["parameters"].clone(),
            })
            .collect(),
        control: Vec::new(),
        ..Setup::default()
    };
    let mut parser = Parser::new(setup);
    let mut events = parser.push(Piece::Text(output));
    events.extend(parser.finish().0);
    read(&events, output)
}

fn read(events: &[Event], output: &str) -> Result<Vec<(String, Json)>, String> {
    let (mut calls, mut finished, mut thought, mut content) = (Vec::new(), 0, String::new(), String::new());
    // One behind the arguments is not waited for.
    let ids_lead = output.find(&id(0)).is_some_and(|at| output[at..].contains("nested"));
    for event in events {
        match event {
            Event::CallStarted { index, id: found, name } => {
                calls.push((name.clone(), String::new()));
                let written = Some(id(*index)).filter(|id| ids_lead && output.contains(id));
                if written.is_some() && *found != written {
                    return Err(format!("the id of call {index} in {output:?} is {found:?}"));
                }
            }
            Event::Arguments { index, fragment } => calls[*index].1.push_str(fragment),
            Event::CallFinished { .. } => finished += 1,
            Event::CallBroken { .. } => return Err(format!("a broken call in {output:?}")),
            Event::Reasoning(text) => thought.push_str(text),
            Event::Content(text) => content.push_str(text),
        }
    }
    if finished == 0 {
        return Err(format!("no calls in {output:?}"));
    }
    assert_eq!(finished, calls.len());
    if output.contains(THOUGHT) && thought != THOUGHT {
        return Err(format!("the reasoning of {output:?} is {thought:?}"));
    }
    if output.contains(CONTENT) && !content.starts_with(CONTENT) {
        return Err(format!("the content of {output:?} is {content:?}"));
    }
    let parsed = |(name, arguments): (String, String)| {
        let arguments =
            serde_json::from_str(&arguments).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        (name, arguments)
    };
    Ok(calls.into_iter().map(parsed).collect())
}

#[test]
fn calls_of_real_templates_are_read_as_they_were_rendered() {
    let tokens = TemplateTokens {
        named: support::NAMED_TOKENS
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect(),
        control: Vec::new(),
    };
    let (mut problems, mut read) = (Vec::new(), 0);
    for (name, source) in support::templates() {
        let template = ChatTemplate::new(&source, &tokens).unwrap_or_else(|error| panic!("{name}: {error}"));
        let calls = if ONE_CALL.contains(&name.as_str()) { 1 } else { 2 };
        let expected: Vec<(String, Json)> = arguments()
            .into_iter()
            .take(calls)
            .map(|(name, arguments)| (name.to_owned(), arguments))
            .collect();
        for content in ["", CONTENT] {
            match (round_trip(&source, &template, content, calls), unread_because(&name, content)) {
                (Ok(found), None) if found == expected => read += 1,
                (Err(_), Some(_)) => {}
                (Ok(_), Some(reason)) => problems.push(format!("{name} was read, though it {reason}")),
                (found, None) => problems.push(format!("{name} ({content:?}): {found:?}")),
            }
        }
    }
    assert!(problems.is_empty(), "{} problems, {read} read:\n{}", problems.len(), problems.join("\n"));
    assert!(read > 90, "only {read} were read");
}

fn unread_because(name: &str, content: &str) -> Option<&'static str> {
    let with_content = UNREAD_WITH_CONTENT.iter().filter(|_| !content.is_empty());
    UNREAD.iter().chain(with_content).find(|(unread, _)| *unread == name).map(|(_, reason)| *reason)
}
