use thiserror::Error;
use troupe_protocol::Fault;

use super::grammar::Grammar;

/// Why a grammar is refused. The client's to mend, but for the last two.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GrammarError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is longer than a grammar may be.
    #[error("{bytes} bytes are more than {limit}")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The most that there may be.
        limit: usize,
    },
    /// There are more choices than there may be.
    #[error("{count} choices are more than {limit}")]
    TooManyChoices {
        /// The choices.
        count: usize,
        /// The most that there may be.
        limit: usize,
    },
    /// A choice says nothing.
    #[error("choice {index} is empty")]
    EmptyChoice {
        /// Which.
        index: usize,
    },
    /// A schema is something else than an object or a boolean.
    #[error("a schema is an object or a boolean")]
    NotASchema,
    /// A schema is nested deeper than it may be.
    #[error("it is nested deeper than {limit} levels")]
    TooDeep {
        /// The most levels that there may be.
        limit: usize,
    },
    /// A schema refers more often than it may.
    #[error("there are more than {limit} references")]
    TooManyReferences {
        /// The most that there may be.
        limit: usize,
    },
    /// A schema refers to another document.
    #[error("the reference {reference:?} is not within the schema; it has to begin with '#'")]
    RemoteReference {
        /// As it is written.
        reference: String,
    },
    /// A schema has a keyword that would change how it is read.
    #[error("the keyword {keyword:?} is not supported")]
    UnsupportedKeyword {
        /// As it is written.
        keyword: &'static str,
    },
    /// A schema compares with a number that would be taken for another.
    #[error("the number {number} is beyond 2^53, and numbers beyond that are not held exactly")]
    InexactNumber {
        /// As it is read.
        number: String,
    },
    /// A schema asks for more properties than it names as required, where keys may repeat.
    #[error(
        "\"minProperties\" is {least} and {required} are required: more can be asked for only where \"additionalProperties\" \
         is false and there are no \"patternProperties\", since other keys may repeat"
    )]
    RepeatableKeys {
        /// How many it asks for.
        least: String,
        /// How many it requires by name.
        required: usize,
    },
    /// It cannot be compiled; the text is llguidance's.
    #[error("{message}")]
    Compile {
        /// What is wrong.
        message: String,
    },
    /// Tokens of this model stand for no exact bytes.
    #[error("this model's tokenizer spells no exact bytes, so its answers cannot be held to a format")]
    Tokenizer,
    /// The library broke on it.
    #[error("the grammar's compiler broke on it: {message}")]
    Broken {
        /// What it said.
        message: String,
    },
}

/// Why a sequence cannot be guided any further: its grammar takes more work than one token may.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct GuideError {
    /// What is too much; llguidance's words.
    pub message: String,
}

impl From<GuideError> for Fault {
    fn from(GuideError { message }: GuideError) -> Self {
        Self::Guide { message }
    }
}

/// llguidance's words without what it appends about itself.
pub(super) fn words(error: &impl ToString) -> String {
    let text = error.to_string();
    // It speaks of an option that would let invalid documents pass.
    if text.contains("coerce_one_of") {
        return "oneOf is supported only where its alternatives exclude each other".to_owned();
    }
    if text.contains("too many expressions") {
        return "a text can be read in too many ways, as where counts stand within counts: `(a{1,9}){1,9}`"
            .to_owned();
    }
    if text.contains("NoExtensionBias") {
        return "no text can satisfy it".to_owned();
    }
    text.split("\n<").next().unwrap_or_default().trim().replace('\n', " ")
}

/// llguidance's words on a grammar that it does not compile, in one line and without the lines of the grammar that it
/// shows. Where in it the fault is, is told of one whose lines the client knows.
pub(super) fn words_of_compiler(error: &impl ToString, grammar: &Grammar) -> String {
    let text = error.to_string();
    let shown = text.lines().take_while(|line| !is_excerpt(line)).collect::<Vec<_>>().join("\n");
    let (place, reason) = split_place(&shown);
    // The parser of expressions shows the expression, with a mark below it, before it says what is wrong.
    let reason = match reason.split_once("regex parse error:") {
        Some((before, after)) => {
            let reason = after.rsplit_once("\nerror: ").map_or(after, |(_, reason)| reason);
            format!("{before}regex parse error: {}", reason.trim_start())
        }
        None => reason.to_owned(),
    };
    match place.filter(|_| grammar.has_lines()) {
        Some((line, column)) => format!("line {line}, column {column}: {}", words(&reason)),
        None => words(&reason),
    }
}

/// Whether it is a line as llguidance shows one: its number, a bar, and what it says.
fn is_excerpt(line: &str) -> bool {
    let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.trim_start().len() && rest.starts_with(" |")
}

/// What stands behind `at LINE(COLUMN): `, and these two, if the text begins so.
fn split_place(text: &str) -> (Option<(u32, u32)>, &str) {
    let split = || {
        let (place, rest) = text.strip_prefix("at ").unwrap_or(text).split_once("): ")?;
        let (line, column) = place.split_once('(')?;
        Some(((line.parse().ok()?, column.parse().ok()?), rest))
    };
    split().map_or((None, text), |(place, rest)| (Some(place), rest))
}
