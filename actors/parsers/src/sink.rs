//! Where the parser's parts put what they find.

use crate::event::{Broken, Event};
use crate::matcher::{Strict, Symbol, is_space};
use crate::tools::Tool;

/// The longest run of whitespace that is held back in case a marker follows it; a longer one is text. In bytes.
pub const MAX_HELD_SPACE: usize = 256;

/// Which kind of text is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Content,
    Reasoning,
}

/// Collects events and knows what was offered.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) strict: Strict,
    pub(crate) section: Section,
    tools: Vec<Tool>,
    events: Vec<Event>,
    space: Space,
    held_space: String,
    /// Whitespace beside a marker behind content, which parts it from content to come.
    gap: String,
    /// Whether there was content.
    said: bool,
    calls: usize,
    broken: usize,
    open: Option<usize>,
    /// Did the symbol at hand begin or end a call, or add to its arguments?
    settled: bool,
    /// Has there been no text since the answer, or its last call or reasoning section, began?
    fresh: bool,
}

/// What becomes of whitespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// It stands beside a marker before it, and is dropped.
    Skip,
    /// It is held, and dropped if a marker follows.
    Hold,
    /// It is text.
    Keep,
}

impl Sink {
    pub(crate) fn new(tools: Vec<Tool>, strict: Strict, section: Section, space: Space) -> Self {
        Self {
            strict,
            section,
            tools,
            events: Vec::new(),
            space,
            held_space: String::new(),
            gap: String::new(),
            said: false,
            calls: 0,
            broken: 0,
            open: None,
            settled: false,
            fresh: true,
        }
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    pub(crate) fn is_offered(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    pub(crate) fn text(&mut self, text: &str) {
        text.chars().for_each(|character| self.character(character));
    }

    fn character(&mut self, character: char) {
        if !is_space(character) {
            self.flush_space();
            if self.section == Section::Content {
                self.part();
            }
            self.space = if self.space == Space::Skip { Space::Hold } else { self.space };
            self.fresh = false;
            return self.append(character);
        }
        match self.space {
            Space::Skip => {
                if self.section == Section::Content && self.held_space.len() < MAX_HELD_SPACE {
                    self.held_space.push(character);
                }
            }
            Space::Keep => self.append(character),
            Space::Hold => {
                self.held_space.push(character);
                if self.held_space.len() > MAX_HELD_SPACE {
                    self.flush_space();
                }
            }
        }
    }

    /// Content goes on behind a marker: one run of the whitespace there parts it from what was said before.
    fn part(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if self.said {
            gap.chars().for_each(|character| self.append(character));
        }
        self.said = true;
    }

    /// The whitespace in hand stands beside a marker. The last run beside markers may part one text from the next.
    fn keep_gap(&mut self) {
        let held = std::mem::take(&mut self.held_space);
        if self.section == Section::Content && !held.is_empty() {
            self.gap = held;
        }
    }

    /// Whitespace that was held is text after all.
    pub(crate) fn flush_space(&mut self) {
        if self.space == Space::Skip {
            return self.keep_gap();
        }
        let held = std::mem::take(&mut self.held_space);
        held.chars().for_each(|character| self.append(character));
    }

    fn append(&mut self, character: char) {
        match (self.section, self.events.last_mut()) {
            (Section::Content, Some(Event::Content(text)))
            | (Section::Reasoning, Some(Event::Reasoning(text))) => {
                text.push(character);
            }
            (Section::Content, _) => self.events.push(Event::Content(character.into())),
            (Section::Reasoning, _) => self.events.push(Event::Reasoning(character.into())),
        }
    }

    /// A marker stands here: the whitespace on both sides of it is not text.
    pub(crate) fn enter(&mut self, section: Section) {
        self.keep_gap();
        self.section = section;
        self.after_marker();
    }

    fn after_marker(&mut self) {
        self.keep_gap();
        self.space = if self.space == Space::Keep { Space::Keep } else { Space::Skip };
        self.fresh = true;
    }

    /// Called ahead of each symbol that an engine reads.
    pub(crate) fn begin_symbol(&mut self) {
        self.settled = false;
    }

    /// Did the symbol that was just read settle what all that is held back was?
    pub(crate) fn symbol_is_settled(&self) -> bool {
        self.settled
    }

    /// What was read since a call finished is its syntax, and will not be text.
    pub(crate) fn settle(&mut self) {
        self.settled = true;
    }

    /// How many calls broke.
    pub(crate) fn broken(&self) -> usize {
        self.broken
    }

    pub(crate) fn is_in_call(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn start_call(&mut self, id: Option<String>, name: &str) {
        let index = self.calls;
        self.calls += 1;
        self.open = Some(index);
        self.settled = true;
        self.enter(Section::Content);
        self.events.push(Event::CallStarted { index, id, name: name.to_owned() });
    }

    pub(crate) fn arguments(&mut self, text: &str) {
        let Some(index) = self.open.filter(|_| !text.is_empty()) else { return };
        self.settled = true;
        match self.events.last_mut() {
            Some(Event::Arguments { fragment, .. }) => fragment.push_str(text),
            _ => self.events.push(Event::Arguments { index, fragment: text.to_owned() }),
        }
    }

    pub(crate) fn finish_call(&mut self) {
        let Some(index) = self.open.take() else { return };
        self.settled = true;
        self.after_marker();
        self.events.push(Event::CallFinished { index });
    }

    /// Ends the open call, if one is, as broken.
    pub(crate) fn break_call(&mut self, reason: Broken) -> Option<usize> {
        let index = self.open.take()?;
        self.broken += 1;
        self.after_marker();
        self.events.push(Event::CallBroken { index, reason });
        Some(index)
    }
}

/// The text of symbols.
pub(crate) fn spell(symbols: &[Symbol]) -> String {
    let mut text = String::new();
    symbols.iter().for_each(|symbol| symbol.append_to(&mut text));
    text
}
