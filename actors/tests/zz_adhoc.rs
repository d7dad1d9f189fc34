//! x
mod support;
use std::time::Instant;
use troupe_actors::template::*;
use troupe_actors::tokenizer::*;
use troupe_model_files::*;
fn rss() -> String { std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmRSS")).unwrap().to_owned() }
#[test] fn all() {
    let files = support::default_model();
    eprintln!("{}", rss());
    let t0 = Instant::now();
    let tok = Tokenizer::load(&files.tokenizer().unwrap(), files.special_tokens()).unwrap();
    eprintln!("load {:?} {}", t0.elapsed(), rss());
    let template = ChatTemplate::new(&files.chat_templates().default.clone().unwrap(), &tok.template_tokens(files.special_tokens())).unwrap();
    let messages: Vec<_> = (0..1000).map(|i| serde_json::json!({"role": if i % 2 == 0 {"user"} else {"assistant"}, "content": format!("message <|im_end|> {i} {}", "word ".repeat(50))})).collect();
    let t0 = Instant::now();
    let r = template.render(&RenderInput { messages: &messages, ..Default::default() }).unwrap();
    eprintln!("render 1000 {:?} {} bytes {} literal", t0.elapsed(), r.text.len(), r.literal.len());
    let t0 = Instant::now(); let ids = tok.encode_rendered(&r).unwrap(); eprintln!("encode {:?} {}", t0.elapsed(), ids.len());
    eprintln!("{}", rss());
    for (name, source) in support::templates() {
        let t = ChatTemplate::new(&source, &tok.template_tokens(files.special_tokens())).unwrap();
        let messages: Vec<_> = (0..2000).map(|i| serde_json::json!({"role": if i % 2 == 0 {"user"} else {"assistant"}, "content": "word ".repeat(20)})).collect();
        let t0 = Instant::now();
        let r = t.render(&RenderInput { messages: &messages, ..Default::default() });
        if r.is_err() || name.contains("Reka") || name.contains("gemma-4") || t0.elapsed().as_millis() > 500 { eprintln!("{name} {:?} {:?}", t0.elapsed(), r.map(|r| r.text.len())); }
    }
}
