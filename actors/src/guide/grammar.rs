use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

use super::error::GrammarError;
use super::schema;

/// The most bytes of a schema, an expression, a grammar, or all choices together.
pub const MAX_GRAMMAR_BYTES: usize = 128 * 1024;
/// The most strings to choose from.
pub const MAX_CHOICES: usize = 1024;

/// What the text of an answer has to be, within the limits of this module. Whether it can be compiled is found out by
/// compiling it.
#[derive(Clone, Debug, PartialEq)]
pub struct Grammar(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Json(Value),
    Regex(String),
    /// A client's own.
    Lark(String),
    /// One that was made of something else, which a client wrote.
    MadeLark(String),
    /// The same of texts of which a part is worth nothing.
    MadeLarkOfWholes(String),
}

impl Grammar {
    /// Any JSON object.
    pub fn json_object() -> Self {
        Self(Kind::Json(json!({"type": "object"})))
    }

    /// JSON that is valid by a JSON Schema, of draft 2020-12 unless it names another.
    ///
    /// # Errors
    /// A schema beyond the limits, or one that refers to other documents.
    pub fn json_schema(schema: Value) -> Result<Self, GrammarError> {
        check_size(schema.to_string().len())?;
        schema::check(&schema)?;
        Ok(Self(Kind::Json(schema)))
    }

    /// Text that a regular expression matches as a whole. Anchors at its ends change nothing.
    ///
    /// # Errors
    /// An expression beyond the limits.
    pub fn regex(pattern: &str) -> Result<Self, GrammarError> {
        check_size(pattern.len())?;
        match without_anchors(pattern) {
            "" => Err(GrammarError::Empty),
            pattern => Ok(Self(Kind::Regex(pattern.to_owned()))),
        }
    }

    /// Text of a context-free grammar in llguidance's dialect of Lark, from its rule `start`. `%json {…}` in a rule stands
    /// for JSON by a schema, and `<|name|>` for a special token.
    ///
    /// # Errors
    /// A grammar beyond the limits, or a schema in it beyond those of [`Self::json_schema`].
    pub fn lark(grammar: &str) -> Result<Self, GrammarError> {
        check_lark(grammar)?;
        schema::check_embedded(grammar)?;
        Ok(Self(Kind::Lark(grammar.to_owned())))
    }

    /// The same, where a client wrote something else of which the grammar was made: errors do not speak of its lines.
    ///
    /// # Errors
    /// A grammar beyond the limits.
    pub fn made_lark(grammar: &str) -> Result<Self, GrammarError> {
        check_lark(grammar)?;
        Ok(Self(Kind::MadeLark(grammar.to_owned())))
    }

    /// The same, of texts of which a part is worth nothing, as of JSON.
    ///
    /// # Errors
    /// A grammar beyond the limits.
    pub fn made_lark_of_wholes(grammar: &str) -> Result<Self, GrammarError> {
        check_lark(grammar)?;
        Ok(Self(Kind::MadeLarkOfWholes(grammar.to_owned())))
    }

    /// The schema, if the text is JSON by one.
    pub fn schema(&self) -> Option<&Value> {
        match &self.0 {
            Kind::Json(schema) => Some(schema),
            Kind::Regex(_) | Kind::Lark(_) | Kind::MadeLark(_) | Kind::MadeLarkOfWholes(_) => None,
        }
    }

    /// One of these strings.
    ///
    /// # Errors
    /// None, too many, or an empty one.
    pub fn choice(choices: &[String]) -> Result<Self, GrammarError> {
        if choices.is_empty() {
            return Err(GrammarError::Empty);
        }
        if choices.len() > MAX_CHOICES {
            return Err(GrammarError::TooManyChoices { count: choices.len(), limit: MAX_CHOICES });
        }
        check_size(choices.iter().map(String::len).sum())?;
        if let Some(index) = choices.iter().position(String::is_empty) {
            return Err(GrammarError::EmptyChoice { index });
        }
        let literals: Vec<String> = choices.iter().map(|choice| json!(choice).to_string()).collect();
        Ok(Self(Kind::MadeLark(format!("start: CHOICE\nCHOICE: {}\n", literals.join(" | ")))))
    }

    /// Whether a part of the text is worth nothing, as of JSON.
    pub(super) fn is_whole_or_nothing(&self) -> bool {
        matches!(self.0, Kind::Json(_) | Kind::MadeLarkOfWholes(_))
    }

    /// Whether a client knows the lines that the compiler speaks of.
    pub(super) fn has_lines(&self) -> bool {
        matches!(self.0, Kind::Lark(_))
    }

    /// Whether something that is repeated a varying number of times stands in a group that is repeated too. By the look of its
    /// text, whatever the language: some that have none are taken for it.
    pub(super) fn nests_counts(&self) -> bool {
        match &self.0 {
            Kind::Json(schema) => nests_counts(&schema.to_string()),
            Kind::Regex(text) | Kind::Lark(text) | Kind::MadeLark(text) | Kind::MadeLarkOfWholes(text) => {
                nests_counts(text)
            }
        }
    }

    pub(super) fn to_library(&self) -> TopLevelGrammar {
        match &self.0 {
            Kind::Json(schema) => TopLevelGrammar::from_json_schema(schema::compact(schema)),
            Kind::Regex(pattern) => TopLevelGrammar::from_regex(pattern),
            Kind::Lark(grammar) | Kind::MadeLark(grammar) | Kind::MadeLarkOfWholes(grammar) => {
                TopLevelGrammar::from_lark(grammar.clone())
            }
        }
    }
}

fn nests_counts(text: &str) -> bool {
    // Of each group that is open, and of what stands in none: whether such a count is in it.
    let mut groups = vec![false];
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'\\' => rest = after.get(1..).unwrap_or_default(),
            b'(' => groups.push(false),
            b')' => {
                let has_count = groups.len() > 1 && groups.pop() == Some(true);
                if has_count && matches!(after, [b'{' | b'*' | b'+', ..]) {
                    return true;
                }
                groups.last_mut().into_iter().for_each(|outer| *outer |= has_count);
            }
            b'{' if is_varying_count(after) => groups.last_mut().into_iter().for_each(|group| *group = true),
            _ => {}
        }
    }
    false
}

/// Whether a number and a comma come next, as in `{1,3}` behind the brace.
fn is_varying_count(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.get(digits) == Some(&b',') && (digits > 0 || text.get(1).is_some_and(u8::is_ascii_digit))
}

fn check_lark(grammar: &str) -> Result<(), GrammarError> {
    check_size(grammar.len())?;
    if grammar.trim().is_empty() { Err(GrammarError::Empty) } else { Ok(()) }
}

fn check_size(bytes: usize) -> Result<(), GrammarError> {
    if bytes > MAX_GRAMMAR_BYTES {
        return Err(GrammarError::TooLarge { bytes, limit: MAX_GRAMMAR_BYTES });
    }
    Ok(())
}

/// An expression without `^` at its start and `$` at its end: it matches a whole text anyway.
fn without_anchors(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    match pattern.strip_suffix('$') {
        // An odd number of backslashes makes the sign itself.
        Some(rest) if rest.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 0 => rest,
        _ => pattern,
    }
}
