//! Answers as clients put them together.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::client::Body;

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Data(Value),
    Done,
}

/// Events as they come. Dropping it closes the socket.
pub struct Events {
    body: BufReader<Body>,
}

impl Events {
    pub fn new(body: Body) -> Self {
        Self { body: BufReader::new(body) }
    }

    /// The next event that is JSON.
    pub fn data(&mut self) -> Value {
        match self.next() {
            Some(Event::Data(data)) => data,
            other => panic!("{other:?} where data was expected"),
        }
    }
}

impl Iterator for Events {
    type Item = Event;

    /// An event is one `data: ` line and an empty one; a line that begins with a colon is a comment.
    fn next(&mut self) -> Option<Event> {
        loop {
            let mut lines = [String::new(), String::new()];
            for line in &mut lines {
                self.body.read_line(line).unwrap();
            }
            let [line, end] = lines;
            if line.is_empty() {
                return None;
            }
            assert_eq!(end, "\n", "after {line:?}");
            match line.trim_end().strip_prefix("data: ") {
                Some("[DONE]") => return Some(Event::Done),
                Some(data) => return Some(Event::Data(serde_json::from_str(data).expect(data))),
                None => assert!(line.starts_with(':'), "{line:?} is no event"),
            }
        }
    }
}

/// A whole answer: its choices in order, and the usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub choices: Vec<Choice>,
    /// Without what the cache held of the prompt: that depends on who asked before, and an answer does not.
    pub usage: Value,
    /// Set if a stream ended in an error.
    pub error: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    pub text: String,
    pub finish_reason: String,
    pub reasoning: String,
    /// Calls of tools, without their ids, which no two answers share.
    pub calls: Vec<Call>,
    /// Entries of a chat's `logprobs.content`.
    pub logprobs: Vec<Value>,
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

impl Answer {
    /// The text of an answer with one choice.
    pub fn text(&self) -> &str {
        assert_eq!(self.choices.len(), 1, "{self:?}");
        &self.choices[0].text
    }

    /// Why the only choice ended.
    pub fn finish_reason(&self) -> &str {
        assert_eq!(self.choices.len(), 1, "{self:?}");
        &self.choices[0].finish_reason
    }

    pub fn texts(&self) -> Vec<&str> {
        self.choices.iter().map(|choice| choice.text.as_str()).collect()
    }

    pub fn of_document(document: &Value) -> Self {
        let mut answer = Self { usage: usage(document), ..Self::default() };
        for (index, choice) in document["choices"].as_array().unwrap().iter().enumerate() {
            assert_eq!(choice["index"], index, "{document}");
            answer.add(choice);
        }
        answer
    }

    /// Reads to the end of the connection: `[DONE]` comes once, and is the last event.
    pub fn of_events(events: Events) -> Self {
        let mut answer = Self::default();
        answer.follow(events);
        answer
    }

    /// Adds the rest of a stream to what was read of it.
    pub fn follow(&mut self, events: Events) {
        let events: Vec<Event> = events.collect();
        let (last, data) = events.split_last().expect("a stream without an event");
        assert_eq!(*last, Event::Done);
        for event in data {
            let Event::Data(chunk) = event else { panic!("[DONE] before the end") };
            self.add_chunk(chunk);
        }
    }

    /// Adds chunks until the only choice has said all of `beginning` and nothing else, then leaves.
    pub fn follow_to(&mut self, mut events: Events, beginning: &str) {
        while self.choices.first().is_none_or(|choice| choice.text.len() < beginning.len()) {
            self.add_chunk(&events.data());
        }
        assert!(self.text().starts_with(beginning), "{self:?} does not begin with {beginning:?}");
    }

    /// Adds a chunk of a stream.
    pub fn add_chunk(&mut self, chunk: &Value) {
        assert_eq!(self.error, None, "{chunk} after an error");
        if let Some(error) = chunk.get("error") {
            self.error = Some(error.clone());
            return;
        }
        for choice in chunk["choices"].as_array().unwrap() {
            self.add(choice);
        }
        if !chunk["usage"].is_null() {
            self.usage = usage(chunk);
        }
    }

    /// Adds a choice of a document, or a part of one in a chunk.
    fn add(&mut self, part: &Value) {
        let index = part["index"].as_u64().unwrap() as usize;
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        let choice = &mut self.choices[index];
        assert_eq!(choice.finish_reason, "", "{part} after the end of its choice");
        let texts = [&part["message"]["content"], &part["delta"]["content"], &part["text"]];
        choice.text.extend(texts.into_iter().filter_map(Value::as_str));
        let thoughts = [&part["message"]["reasoning_content"], &part["delta"]["reasoning_content"]];
        choice.reasoning.extend(thoughts.into_iter().filter_map(Value::as_str));
        let calls = [&part["message"]["tool_calls"], &part["delta"]["tool_calls"]];
        calls.into_iter().filter_map(Value::as_array).flatten().for_each(|call| choice.add_call(call));
        if let Some(reason) = part["finish_reason"].as_str() {
            reason.clone_into(&mut choice.finish_reason);
        }
        choice.logprobs.extend(part["logprobs"]["content"].as_array().into_iter().flatten().cloned());
    }
}

impl Choice {
    /// Adds a call, or more of the last one, as a delta or a whole message has it.
    fn add_call(&mut self, part: &Value) {
        let function = &part["function"];
        if let Some(name) = function["name"].as_str() {
            assert!(part["id"].as_str().is_some_and(|id| !id.is_empty()), "{part}");
            self.calls.push(Call { name: name.to_owned(), arguments: String::new() });
        }
        if let Some(index) = part.get("index") {
            assert_eq!(index.as_u64(), Some(self.calls.len() as u64 - 1), "{part}");
        }
        self.calls.last_mut().unwrap().arguments += function["arguments"].as_str().unwrap();
    }
}

fn usage(document: &Value) -> Value {
    let mut usage = document["usage"].clone();
    if let Some(fields) = usage.as_object_mut() {
        let details = fields.remove("prompt_tokens_details").expect("what the cache held is told");
        assert!(details["cached_tokens"].as_u64() <= fields["prompt_tokens"].as_u64(), "{document}");
    }
    usage
}
