//! Literals of Python, and of formats that write values between braces, turned into JSON one character at a time.

mod words;

pub(crate) use words::{append_text, python_to_json};

use crate::json::{MAX_DEPTH, NotJson, append_escaped};
use crate::matcher::{Matcher, Strict, Symbol};
use words::append_word;

/// The longest number or word, in bytes.
const MAX_WORD: usize = 256;

/// How literals are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `{'a': [True, None, (1, 2)], "b": 'x\n'}`.
    Python,
    /// `{a:[true,1],b:<quote>x<quote>}`: keys without quotes, strings without escapes.
    Braced { quote: &'static str },
}

/// How a literal stands after a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// It ended with the symbol.
    Done,
    /// It ended ahead of the symbol.
    DoneBefore,
}

/// Reads one literal.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    style: Style,
    state: State,
    /// The closing brackets of what is open, the innermost last, and whether it has an item yet.
    stack: Vec<(char, bool)>,
    matcher: Matcher,
    word: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    Key,
    /// In a key without quotes.
    BareKey,
    Colon,
    Text {
        end: Quote,
        role: Role,
    },
    Escape {
        end: Quote,
        role: Role,
    },
    Code {
        end: Quote,
        role: Role,
        left: u8,
        value: u32,
    },
    Word,
    After,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

/// What a string stands between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    Mark(char),
    Token,
}

/// A character, or the quote of the style that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    Quote,
}

type Step = Result<Progress, NotJson>;

impl Literal {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            state: State::Value,
            stack: Vec::new(),
            matcher: Matcher::default(),
            word: String::new(),
        }
    }

    /// Takes a symbol and appends the JSON that it makes to `out`.
    pub(crate) fn feed(&mut self, symbol: Symbol, strict: &Strict, out: &mut String) -> Step {
        let (mut released, mut found) = (String::new(), None);
        match self.style {
            Style::Braced { quote } => found = self.matcher.feed(symbol, &[quote], strict, &mut released),
            Style::Python => symbol.append_to(&mut released),
        }
        let mut progress = Progress::More;
        for token in released.chars().map(Token::Char).chain(found.map(|_| Token::Quote)) {
            if progress != Progress::More {
                return Err(NotJson);
            }
            progress = self.token(token, out)?;
        }
        Ok(progress)
    }

    fn token(&mut self, token: Token, out: &mut String) -> Step {
        match self.state {
            State::Text { end, role } => return self.text(token, end, role, out),
            State::Escape { end, role } => return self.escape(token, end, role, out),
            State::Code { end, role, left, value } => return self.code(token, end, role, (left, value), out),
            _ => {}
        }
        let character = match token {
            Token::Char(character) => character,
            Token::Quote => return self.open_text(Quote::Token, out),
        };
        match self.state {
            State::Word => self.word(character, out),
            State::BareKey => self.bare_key(character, out),
            _ if character.is_whitespace() => Ok(Progress::More),
            State::Value => self.value(character, out),
            State::Key => self.key(character, out),
            State::Colon if character == ':' => {
                out.push(':');
                self.go(State::Value)
            }
            State::After => self.after(character, out),
            _ => Err(NotJson),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Ok(Progress::More)
    }

    /// A value ended.
    fn end_value(&mut self) -> Step {
        if self.stack.is_empty() {
            self.state = State::Done;
            return Ok(Progress::Done);
        }
        self.go(State::After)
    }

    /// Writes the comma that JSON wants ahead of an item. It is written late because Python allows one at the end.
    fn begin_item(&mut self, out: &mut String) {
        if let Some((_, has_items)) = self.stack.last_mut() {
            if *has_items {
                out.push(',');
            }
            *has_items = true;
        }
    }

    fn begin_value(&mut self, out: &mut String) {
        if self.stack.last().is_some_and(|(closing, _)| *closing != '}') {
            self.begin_item(out);
        }
    }

    fn value(&mut self, character: char, out: &mut String) -> Step {
        let is_python = self.style == Style::Python;
        match character {
            ']' | ')' if self.stack.last().is_some_and(|(closing, _)| *closing == character) => {
                self.close(out)
            }
            '{' => self.open('}', '{', State::Key, out),
            '[' => self.open(']', '[', State::Value, out),
            '(' if is_python => self.open(')', '[', State::Value, out),
            '\'' | '"' if is_python => self.open_text(Quote::Mark(character), out),
            ',' | ':' | ']' | ')' | '}' => Err(NotJson),
            _ => {
                self.begin_value(out);
                self.state = State::Word;
                self.word(character, out)
            }
        }
    }

    fn open(&mut self, closing: char, bracket: char, state: State, out: &mut String) -> Step {
        if self.stack.len() >= MAX_DEPTH as usize {
            return Err(NotJson);
        }
        self.begin_value(out);
        self.stack.push((closing, false));
        out.push(bracket);
        self.go(state)
    }

    fn close(&mut self, out: &mut String) -> Step {
        let (closing, _) = self.stack.pop().ok_or(NotJson)?;
        out.push(if closing == '}' { '}' } else { ']' });
        self.end_value()
    }

    fn after(&mut self, character: char, out: &mut String) -> Step {
        match (character, self.stack.last()) {
            (',', Some(('}', _))) => self.go(State::Key),
            (',', Some(_)) => self.go(State::Value),
            (_, Some((closing, _))) if *closing == character => self.close(out),
            _ => Err(NotJson),
        }
    }

    fn key(&mut self, character: char, out: &mut String) -> Step {
        match character {
            '}' => self.close(out),
            '\'' | '"' if self.style == Style::Python => self.open_text(Quote::Mark(character), out),
            _ if self.style == Style::Python => Err(NotJson),
            ':' | ',' | '{' => Err(NotJson),
            _ => {
                self.state = State::BareKey;
                self.bare_key(character, out)
            }
        }
    }

    fn bare_key(&mut self, character: char, out: &mut String) -> Step {
        if character != ':' {
            return self.push_word(character);
        }
        self.begin_item(out);
        let key = std::mem::take(&mut self.word);
        append_text(key.trim(), out);
        out.push(':');
        self.go(State::Value)
    }

    fn push_word(&mut self, character: char) -> Step {
        self.word.push(character);
        if self.word.len() > MAX_WORD { Err(NotJson) } else { Ok(Progress::More) }
    }

    fn open_text(&mut self, end: Quote, out: &mut String) -> Step {
        let role = match self.state {
            State::Value => {
                self.begin_value(out);
                Role::Value
            }
            State::Key => {
                self.begin_item(out);
                Role::Key
            }
            _ => return Err(NotJson),
        };
        out.push('"');
        self.go(State::Text { end, role })
    }

    fn text(&mut self, token: Token, end: Quote, role: Role, out: &mut String) -> Step {
        match (token, end) {
            (Token::Quote, Quote::Token) => self.close_text(role, out),
            (Token::Char(character), Quote::Mark(mark)) if character == mark => self.close_text(role, out),
            (Token::Char('\\'), Quote::Mark(_)) => self.go(State::Escape { end, role }),
            (Token::Char(character), _) => {
                append_escaped(character, out);
                Ok(Progress::More)
            }
            (Token::Quote, Quote::Mark(_)) => Err(NotJson),
        }
    }

    fn close_text(&mut self, role: Role, out: &mut String) -> Step {
        out.push('"');
        match role {
            Role::Key => self.go(State::Colon),
            Role::Value => self.end_value(),
        }
    }

    fn escape(&mut self, token: Token, end: Quote, role: Role, out: &mut String) -> Step {
        let Token::Char(character) = token else { return Err(NotJson) };
        let digits = match character {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            return self.go(State::Code { end, role, left: digits, value: 0 });
        }
        match character {
            '\n' => {}
            'n' => out.push_str("\\n"),
            't' => out.push_str("\\t"),
            'r' => out.push_str("\\r"),
            '\\' | '\'' | '"' => append_escaped(character, out),
            // Python keeps a backslash that escapes nothing.
            _ => {
                out.push_str("\\\\");
                append_escaped(character, out);
            }
        }
        self.go(State::Text { end, role })
    }

    fn code(&mut self, token: Token, end: Quote, role: Role, code: (u8, u32), out: &mut String) -> Step {
        let Token::Char(character) = token else { return Err(NotJson) };
        let (left, value) = code;
        let digit = character.to_digit(16).ok_or(NotJson)?;
        let value = value << 4 | digit;
        if left > 1 {
            return self.go(State::Code { end, role, left: left - 1, value });
        }
        append_escaped(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER), out);
        self.go(State::Text { end, role })
    }

    fn word(&mut self, character: char, out: &mut String) -> Step {
        let goes_on = match self.style {
            Style::Python => character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '+' | '-'),
            Style::Braced { .. } => !matches!(character, ',' | '}' | ']' | '{' | '['),
        };
        if goes_on {
            return self.push_word(character);
        }
        let word = std::mem::take(&mut self.word);
        append_word(word.trim(), self.style, out)?;
        if self.stack.is_empty() {
            self.state = State::Done;
            return Ok(Progress::DoneBefore);
        }
        self.state = State::After;
        match character.is_whitespace() {
            true => Ok(Progress::More),
            false => self.after(character, out),
        }
    }
}

#[cfg(test)]
mod tests;
