//! Chat templates: from messages to the text that a model was trained on.
//!
//! Rendering follows `transformers` byte for byte: Jinja with `trim_blocks` and `lstrip_blocks`, Python's printing of
//! values, `tojson` as `json.dumps(ensure_ascii=False)`, `raise_exception`, `strftime_now`, `{% generation %}`.
//! Beyond it, a render says which bytes of its text are spellings of control tokens that the *client* wrote
//! ([`Rendered::literal`]), so that the tokenizer reads control tokens from the template alone.
//!
//! The module reads no clock, no file and no environment. A template gets a budget of work ([`RENDER_FUEL`]), which
//! bounds what it may print and how long its lists get. It is the model's, not a client's: one that nests values ten
//! thousands deep still overflows its thread's stack.

mod convert;
mod environment;
mod error;
mod guard;
mod json;
mod messages;
mod methods;
mod operands;
mod print;
mod probe;
mod render;
mod source;

pub use convert::parse_arguments;
pub use environment::RENDER_FUEL;
pub use error::TemplateError;
pub use messages::{ContentForm, REASONING_FIELDS, normalise_messages};
pub use render::{ChatTemplate, Ending, RenderInput, Rendered, SET_VARIABLES, TemplateTokens};
