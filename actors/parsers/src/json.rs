//! JSON one character at a time: checked, with strings decoded.

mod raw;

pub(crate) use raw::{RawObject, RawText, strict};

/// Values nested deeper than this are refused.
pub(crate) const MAX_DEPTH: u32 = 64;

/// What a character was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Whitespace, a comma or a colon.
    Between,
    Open,
    Close,
    /// Of a key: its opening quote, its inside, its closing quote.
    Key(Part),
    /// Of a string that is a value.
    Text(Part),
    /// Of a number, `true`, `false` or `null`.
    Scalar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Begin,
    Inside,
    End,
}

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Checks the text of one JSON value. Raw control characters and halves of surrogate pairs in strings
/// pass; [`RawText`] writes what stands for them.
#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    state: State,
    /// One bit a level: is it an object?
    objects: u64,
    depth: u32,
    role: Role,
    /// The first half of a surrogate pair, waiting for the second.
    high: Option<u16>,
    decoded: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    ValueOrClose,
    Key,
    KeyOrClose,
    Colon,
    Inside,
    Escape,
    Unicode { digits: u8, value: u16 },
    Number(Number),
    Word(&'static str),
    AfterValue,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Dot,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            state: State::Value,
            objects: 0,
            depth: 0,
            role: Role::Text,
            high: None,
            decoded: String::new(),
        }
    }
}

impl Scanner {
    /// How many objects and lists are open.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// What the last character added to the string that it stood in.
    pub(crate) fn decoded(&self) -> &str {
        &self.decoded
    }

    /// Has an object or a list at the root been closed, or a string ended?
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub(crate) fn feed(&mut self, character: char) -> Result<Mark, NotJson> {
        self.decoded.clear();
        match self.state {
            State::Inside | State::Escape | State::Unicode { .. } => self.string(character),
            State::Number(number) => self.number(number, character),
            State::Word(rest) => self.word(rest, character),
            _ if matches!(character, ' ' | '\t' | '\n' | '\r') => Ok(Mark::Between),
            State::Value => self.value(character),
            State::ValueOrClose if character == ']' => self.close(),
            State::ValueOrClose => self.value(character),
            State::KeyOrClose if character == '}' => self.close(),
            State::Key | State::KeyOrClose if character == '"' => self.open_string(Role::Key),
            State::Colon if character == ':' => self.go(State::Value, Mark::Between),
            State::AfterValue => self.after_value(character),
            State::Key | State::KeyOrClose | State::Colon | State::Done => Err(NotJson),
        }
    }

    fn go(&mut self, state: State, mark: Mark) -> Result<Mark, NotJson> {
        self.state = state;
        Ok(mark)
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn value(&mut self, character: char) -> Result<Mark, NotJson> {
        match character {
            '{' => self.open(1, State::KeyOrClose),
            '[' => self.open(0, State::ValueOrClose),
            '"' => self.open_string(Role::Text),
            '-' => self.go(State::Number(Number::Minus), Mark::Scalar),
            '0' => self.go(State::Number(Number::Zero), Mark::Scalar),
            '1'..='9' => self.go(State::Number(Number::Integer), Mark::Scalar),
            't' => self.go(State::Word("rue"), Mark::Scalar),
            'f' => self.go(State::Word("alse"), Mark::Scalar),
            'n' => self.go(State::Word("ull"), Mark::Scalar),
            _ => Err(NotJson),
        }
    }

    fn open(&mut self, kind: u64, state: State) -> Result<Mark, NotJson> {
        if self.depth == MAX_DEPTH {
            return Err(NotJson);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | kind;
        self.go(state, Mark::Open)
    }

    fn close(&mut self) -> Result<Mark, NotJson> {
        self.depth -= 1;
        self.objects >>= 1;
        self.go(self.state_after_value(), Mark::Close)
    }

    fn state_after_value(&self) -> State {
        if self.depth == 0 { State::Done } else { State::AfterValue }
    }

    fn after_value(&mut self, character: char) -> Result<Mark, NotJson> {
        match (character, self.in_object()) {
            (',', true) => self.go(State::Key, Mark::Between),
            (',', false) => self.go(State::Value, Mark::Between),
            ('}', true) | (']', false) => self.close(),
            _ => Err(NotJson),
        }
    }

    fn open_string(&mut self, role: Role) -> Result<Mark, NotJson> {
        self.role = role;
        self.state = State::Inside;
        Ok(self.mark(Part::Begin))
    }

    fn mark(&self, part: Part) -> Mark {
        match self.role {
            Role::Key => Mark::Key(part),
            Role::Text => Mark::Text(part),
        }
    }

    fn string(&mut self, character: char) -> Result<Mark, NotJson> {
        match (self.state, character) {
            (State::Unicode { digits, value }, _) => {
                let digit = character.to_digit(16).ok_or(NotJson)?;
                // A hexadecimal digit has four bits.
                let value = value << 4 | digit as u16;
                self.state = State::Unicode { digits: digits + 1, value };
                if digits == 3 {
                    self.push_unit(value);
                    self.state = State::Inside;
                }
            }
            (State::Escape, 'u') => self.state = State::Unicode { digits: 0, value: 0 },
            (State::Escape, _) => {
                let plain = unescape(character).ok_or(NotJson)?;
                self.push(plain);
                self.state = State::Inside;
            }
            (_, '\\') => self.state = State::Escape,
            (_, '"') => return self.close_string(),
            _ => self.push(character),
        }
        Ok(self.mark(Part::Inside))
    }

    fn close_string(&mut self) -> Result<Mark, NotJson> {
        self.flush_high();
        let state = match self.role {
            Role::Key => State::Colon,
            Role::Text => self.state_after_value(),
        };
        self.go(state, self.mark(Part::End))
    }

    fn push(&mut self, character: char) {
        self.flush_high();
        self.decoded.push(character);
    }

    /// Half of a pair that lacks the other half stands for no character.
    fn flush_high(&mut self) {
        if self.high.take().is_some() {
            self.decoded.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn push_unit(&mut self, unit: u16) {
        match (self.high.take(), unit) {
            (Some(high), 0xDC00..=0xDFFF) => self.decoded.extend(char::decode_utf16([high, unit]).flatten()),
            (waiting, _) => {
                self.high = waiting;
                self.flush_high();
                match unit {
                    0xD800..=0xDBFF => self.high = Some(unit),
                    _ => {
                        self.decoded.push(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER))
                    }
                }
            }
        }
    }

    fn number(&mut self, number: Number, character: char) -> Result<Mark, NotJson> {
        use Number::{Dot, Exponent, ExponentDigits, ExponentSign, Fraction, Integer, Minus, Zero};
        let next = match (number, character) {
            (Minus, '0') => Zero,
            (Minus, '1'..='9') | (Integer, '0'..='9') => Integer,
            (Zero | Integer, '.') => Dot,
            (Dot | Fraction, '0'..='9') => Fraction,
            (Zero | Integer | Fraction, 'e' | 'E') => Exponent,
            (Exponent, '+' | '-') => ExponentSign,
            (Exponent | ExponentSign | ExponentDigits, '0'..='9') => ExponentDigits,
            (Zero | Integer | Fraction | ExponentDigits, _) => {
                self.state = self.state_after_value();
                return self.feed(character);
            }
            _ => return Err(NotJson),
        };
        self.go(State::Number(next), Mark::Scalar)
    }

    fn word(&mut self, rest: &'static str, character: char) -> Result<Mark, NotJson> {
        let rest = rest.strip_prefix(character).ok_or(NotJson)?;
        let state = if rest.is_empty() { self.state_after_value() } else { State::Word(rest) };
        self.go(state, Mark::Scalar)
    }
}

fn unescape(character: char) -> Option<char> {
    Some(match character {
        '"' | '\\' | '/' => character,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => return None,
    })
}

/// Appends a character as the inside of a JSON string.
pub(crate) fn append_escaped(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\u{1f}' => {
            let code = u32::from(character);
            let digit = |shift: u32| char::from_digit(code >> shift & 0xf, 16).unwrap_or('0');
            out.extend(['\\', 'u', '0', '0', digit(4), digit(0)]);
        }
        _ => out.push(character),
    }
}

#[cfg(test)]
mod tests;
