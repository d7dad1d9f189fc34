//! Time of compiling grammars and of working out masks, over the vocabulary of the default model:
//! `cargo bench -p troupe-actors --bench masks`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use troupe_actors::guide::{Grammar, Guide, Progress, Vocabulary};
use troupe_actors::tokenizer::{AddSpecial, ParseSpecial, Tokenizer};
use troupe_model_files::ModelFiles;

/// How often each document is said.
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let files = ModelFiles::open(&path)?;
    let tokenizer = Arc::new(Tokenizer::load(&files.tokenizer()?, files.special_tokens())?);
    let size = tokenizer.vocab_size() as u32;
    let vocabulary = Arc::new(Vocabulary::new(Arc::clone(&tokenizer), size));
    let start = Instant::now();
    Guide::new(&vocabulary, &Grammar::json_object(), &[])?;
    println!("{size} tokens: the vocabulary's index and the first grammar take {:.1?}", start.elapsed());
    println!(
        "{:13} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "grammar", "compile", "masks", "p50", "p90", "p99", "most"
    );
    for (name, grammar, document) in documents()? {
        measure(name, &vocabulary, &grammar, &encode(&tokenizer, &document)?)?;
    }
    Ok(())
}

/// A grammar, with the document that is said by it.
type Case = (&'static str, Grammar, String);

fn documents() -> Result<Vec<Case>, Box<dyn Error>> {
    let person = json!({"type": "object", "required": ["name", "age", "tags"], "additionalProperties": false, "properties": {
        "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["mathematics", "engineering", "poetry"]}},
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "number": {"type": "number"}}}}});
    let said = json!({"name": "Augusta Ada King, Countess of Lovelace", "age": 36, "tags": ["mathematics", "poetry"],
        "address": {"street": "St James's Square", "number": 12.5}});
    let order = json!({"type": "object", "required": ["title", "day", "code", "lines"], "properties": {
        "title": {"type": "string", "maxLength": 80}, "day": {"type": "string", "format": "date"},
        "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
        "lines": {"type": "array", "minItems": 1, "maxItems": 20, "items": {"anyOf": [
            {"type": "object", "required": ["sku", "count"], "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}},
            {"type": "object", "required": ["note"], "properties": {"note": {"type": "string", "minLength": 3}}}]}}}});
    let ordered = json!({"title": "Candles, copper wire and a lantern for the harbour", "day": "2026-03-14", "code": "ABC-1234",
        "lines": [{"sku": "candle", "count": 12}, {"note": "wrap them in paper"}, {"sku": "lantern", "count": 1}]});
    let call = r#"
start: (text call)+ text
text: /[^<]{0,200}/
call: "<call>" NAME "(" [argument ("," argument)*] ")</call>"
argument: NAME "=" (NUMBER | %json {"type": "string"})
NAME: /[a-z_]+/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
"#;
    let text: Value = json!({"text": "It was a bright cold day in April, and the clocks were striking thirteen. ".repeat(4)});
    Ok(vec![
        ("json_object", Grammar::json_object(), serde_json::to_string_pretty(&said)?),
        ("schema", Grammar::json_schema(person.clone())?, said.to_string()),
        ("schema, wide", Grammar::json_schema(person)?, serde_json::to_string_pretty(&said)?),
        ("schema, lines", Grammar::json_schema(order)?, ordered.to_string()),
        ("long string", Grammar::json_object(), text.to_string()),
        (
            "regex",
            Grammar::regex(r"(\w+ ){3,20}[0-9]{3}-[0-9]{4}\.")?,
            "please call the number 555-1234.".to_owned(),
        ),
        (
            "choice",
            Grammar::choice(&["it is rather positive".into(), "it is rather negative".into()])?,
            "it is rather negative".to_owned(),
        ),
        (
            "lark",
            Grammar::lark(call)?,
            r#"Let me look. <call>get_weather(city="Köln",days=3)</call> And the time: <call>now()</call> There."#.to_owned(),
        ),
    ])
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    Ok(tokenizer.encode(text, AddSpecial::Never, ParseSpecial::AsText)?)
}

/// Says a document, each time by a guide that has seen nothing.
fn measure(
    name: &str,
    vocabulary: &Arc<Vocabulary>,
    grammar: &Grammar,
    tokens: &[u32],
) -> Result<(), Box<dyn Error>> {
    let (mut compile, mut masks) = (Duration::MAX, Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut guide = Guide::new(vocabulary, grammar, &[])?;
        compile = compile.min(start.elapsed());
        guide.mask()?;
        for &token in tokens {
            let start = Instant::now();
            if guide.advance(token)? == Progress::Complete {
                break;
            }
            guide.mask()?;
            masks.push(start.elapsed());
        }
    }
    masks.sort_unstable();
    let part = |percent: usize| masks[(masks.len() - 1) * percent / 100];
    let [p50, p90, p99, most] = [50, 90, 99, 100].map(part).map(|time| format!("{time:.1?}"));
    println!(
        "{name:13} {:>9} {:7} {p50:>9} {p90:>9} {p99:>9} {most:>9}",
        format!("{compile:.1?}"),
        masks.len()
    );
    Ok(())
}
