//! How a format writes calls: plain data, read by the parsers here and by whoever builds a grammar that forces a call.
//!
//! Strings stand as the model writes them, whitespace included. A parser takes any whitespace around them, but for
//! the values of [`CallBody::Parameters`], where each character counts.

/// Text before and after something. Empty where a format has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrap {
    /// Before.
    pub begin: &'static str,
    /// After.
    pub end: &'static str,
}

impl Wrap {
    /// Nothing before and nothing after.
    pub const NONE: Self = Self::new("", "");

    /// `begin` before and `end` after.
    pub const fn new(begin: &'static str, end: &'static str) -> Self {
        Self { begin, end }
    }
}

/// How a format writes the calls of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSyntax {
    /// Around all calls.
    pub section: Wrap,
    /// Around each call.
    pub call: Wrap,
    /// Between two calls.
    pub separator: &'static str,
    /// The first character of calls that may also begin an answer with no marker.
    pub bare: Option<char>,
    /// A call itself.
    pub body: CallBody,
}

impl CallSyntax {
    pub(crate) const fn new(section: Wrap, call: Wrap, separator: &'static str, body: CallBody) -> Self {
        Self { section, call, separator, bare: None, body }
    }

    /// Objects in one list, with nothing around each.
    pub(crate) const fn listed(section: Wrap) -> Self {
        Self::listed_with(section, None)
    }

    /// The same with ids.
    pub(crate) const fn listed_with(section: Wrap, id_key: Option<&'static str>) -> Self {
        let body = JsonObject { id_key, list: List::Brackets, ..JsonObject::PLAIN };
        Self::new(section, Wrap::NONE, ", ", CallBody::JsonObject(body))
    }

    pub(crate) const fn or_bare(self, first: char) -> Self {
        Self { bare: Some(first), ..self }
    }

    /// The markers that calls begin with, where a model forgets the outer ones too. The parser looks for them without the
    /// whitespace around them.
    pub fn begins(&self) -> impl Iterator<Item = &'static str> {
        let name = match self.body {
            CallBody::Parameters(body) => body.name.begin.trim(),
            _ => "",
        };
        [self.section.begin.trim(), self.call.begin.trim(), name]
            .into_iter()
            .filter(|marker| !marker.is_empty())
    }
}

/// How one call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallBody {
    /// A JSON object that holds name and arguments.
    JsonObject(JsonObject),
    /// A name in a header, then the arguments as a JSON object.
    NamedJson(NamedJson),
    /// A name, then one element for each argument.
    Parameters(Parameters),
    /// Python calls with keyword arguments, in a list: `[f(a=1), g()]`.
    Pythonic(Pythonic),
    /// `call:name{key:value}` with unquoted keys and strings between `quote`s.
    Braced {
        /// What stands on both sides of a string.
        quote: &'static str,
    },
    /// Messages to a recipient, each with a header; see the harmony format.
    Channels,
}

/// Keys of the arguments that models take for each other's.
const ARGUMENTS_KEYS: [&str; 2] = ["arguments", "parameters"];

/// Keys that models write into their calls besides the format's own, ahead of the name or in its stead.
const OTHER_KEYS: [&str; 3] = ["type", "id", "function"];

/// Calls as JSON objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonObject {
    /// How the name stands in it.
    pub name: JsonName,
    /// The key of the model's own id of the call, if the format has one. Behind the arguments it comes too late for
    /// [`Event::CallStarted`](crate::Event::CallStarted), and is dropped.
    pub id_key: Option<&'static str>,
    /// Do the objects stand in a JSON list?
    pub list: List,
}

impl JsonObject {
    /// `{"name": name, "arguments": {…}}`.
    pub(crate) const PLAIN: Self = Self {
        name: JsonName::Under { name_key: "name", arguments_key: "arguments" },
        id_key: None,
        list: List::None,
    };

    /// Whether a call without a marker may have this key ahead of its arguments' end. At another, it is given up.
    pub fn knows(&self, key: &str) -> bool {
        let is_own = self.name == JsonName::IsKey || self.is_name(key) || self.is_arguments(key);
        is_own || Some(key) == self.id_key || OTHER_KEYS.contains(&key)
    }

    /// Whether this is the key of the name.
    pub fn is_name(&self, key: &str) -> bool {
        matches!(self.name, JsonName::Under { name_key, .. } if key == name_key)
    }

    /// Whether the value of this key is taken for the arguments.
    pub fn is_arguments(&self, key: &str) -> bool {
        match self.name {
            JsonName::Under { arguments_key, .. } => key == arguments_key || ARGUMENTS_KEYS.contains(&key),
            JsonName::IsKey => false,
        }
    }
}

/// How a JSON object says the name of the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonName {
    /// `{name_key: name, arguments_key: {…}}`.
    Under {
        /// The key of the name.
        name_key: &'static str,
        /// The key of the arguments.
        arguments_key: &'static str,
    },
    /// `{name: {…}}`.
    IsKey,
}

/// Whether objects stand in a list. The parser takes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `[{…}, {…}]`.
    Brackets,
    /// Each object on its own.
    None,
}

/// Calls as a header and a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedJson {
    /// The fields of the header. The parser takes a later one's terminator for an earlier field too, so that fields
    /// between them may be missing.
    pub head: &'static [(HeadField, &'static str)],
    /// Around the arguments.
    pub arguments: Wrap,
    /// How the name is written.
    pub name: NameForm,
}

/// A field of a header; it ends at the string beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadField {
    /// The name of the tool.
    Name,
    /// The model's id of the call.
    Id,
    /// A word that is the same in all calls.
    Constant(&'static str),
}

/// How a header writes the name of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// As it is.
    Plain,
    /// `functions.name:3`, where the whole is also the id of the call.
    Numbered,
}

/// Calls with an element for each argument. The string that a call begins with stands in [`CallSyntax::call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Around the name; with no end, the name reaches to the first argument or the end of the call.
    pub name: Wrap,
    /// What ends the attributes that follow a name, if there are any.
    pub name_attributes: Option<&'static str>,
    /// Around the key of an argument.
    pub key: Wrap,
    /// What is said of the value's type between key and value.
    pub type_attribute: Option<TypeAttribute>,
    /// Around a value.
    pub value: Wrap,
    /// After the last argument, ahead of the call's own end. May be empty.
    pub end: &'static str,
    /// What else may stand around a value, the element's end included in its end. Optional in what a parser takes.
    pub padding: Option<Wrap>,
}

/// An attribute that says a value's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeAttribute {
    /// What the attribute says of a string; anything else says that the value is JSON.
    pub string: &'static str,
    /// What ends the attribute.
    pub end: &'static str,
}

/// Calls in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pythonic {
    /// Around the calls of a list: brackets, or nothing where each call stands on a line of its own.
    pub list: List,
}
