//! The tags around a model's reasoning.

/// How a model marks its reasoning. Formats of messages with channels mark it themselves and have none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasoning {
    /// What begins it.
    pub begin: &'static str,
    /// What ends it.
    pub end: &'static str,
}

/// Every kind that is known, each with its name and with what else gives it away, since some templates make their tags
/// of parts.
const KNOWN: &[(&str, Reasoning, &str)] = &[
    ("seed_oss", tags("<seed:think>", "</seed:think>"), "</seed:think>"),
    ("minimax_m3", tags("<mm:think>", "</mm:think>"), "</mm:think>"),
    ("hunyuan", tags("<think:opensource>", "</think:opensource>"), "set HYTK = ':opensource'"),
    ("cohere", tags("<|START_THINKING|>", "<|END_THINKING|>"), "<|END_THINKING|>"),
    ("kimi_k3", tags("<|open|>think<|sep|>", "<|close|>think<|sep|>"), "open_tag('think')"),
    ("gemma4", tags("<|channel>thought", "<channel|>"), "<channel|>"),
    ("apertus", tags("<|inner_prefix|>", "<|inner_suffix|>"), "<|inner_suffix|>"),
    ("apriel", tags("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"), "[BEGIN FINAL RESPONSE]"),
    ("mistral", tags("[THINK]", "[/THINK]"), "[/THINK]"),
    ("solar", tags("<|think|>", "<|end|>"), "assistant<|think|>"),
    ("think", tags("<think>", "</think>"), "</think>"),
];

const fn tags(begin: &'static str, end: &'static str) -> Reasoning {
    Reasoning { begin, end }
}

impl Reasoning {
    /// `<think>…</think>`.
    pub const THINK: Self = tags("<think>", "</think>");

    /// The tags that a chat template writes or looks for, if it knows any.
    pub fn detect(template: &str) -> Option<Self> {
        let knows = |(_, tags, other): &&(&str, Self, &str)| {
            template.contains(tags.begin) || template.contains(other)
        };
        KNOWN.iter().find(knows).map(|(_, tags, _)| *tags)
    }

    /// Every kind of tags that is known.
    pub fn known() -> impl Iterator<Item = Self> {
        KNOWN.iter().map(|(_, tags, _)| *tags)
    }

    /// The names that configuration knows them by, in the order of [`Self::known`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(name, _, _)| *name)
    }

    /// The tags of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        KNOWN.iter().find(|(known, _, _)| *known == name).map(|(_, tags, _)| *tags)
    }

    /// The name of these tags; none if they are of no kind that is known.
    pub fn name(&self) -> Option<&'static str> {
        KNOWN.iter().find(|(_, tags, _)| tags == self).map(|(name, _, _)| *name)
    }

    /// Is this control token one of the tags, or a part of one?
    pub fn reads(&self, control: &str) -> bool {
        self.begin.contains(control) || self.end.contains(control)
    }

    /// Does this prompt leave a section open, so that the output begins inside it?
    pub fn is_open_at_end_of(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.begin)
    }
}
