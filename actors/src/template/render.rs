use std::collections::HashSet;
use std::ops::Range;

use chrono::NaiveDateTime;
use chrono::format::{Item, StrftimeItems};
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json};

use super::convert::{ArgumentsForm, message_value, to_value};
use super::guard::{ControlTokens, Depth, Guard, Role};
use super::messages::{ContentForm, append_to_content, normalise_messages};
use super::{TemplateError, environment, probe};

/// What a tokenizer tells a template about its tokens.
#[derive(Clone, Debug, Default)]
pub struct TemplateTokens {
    /// Variables of the template: `bos_token`, `eos_token`, `pad_token`, … with their spellings.
    pub named: Vec<(String, String)>,
    /// The spellings of all control tokens, which a client may not forge.
    pub control: Vec<String>,
}

/// One conversation to render.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenderInput<'a> {
    /// Messages in OpenAI's shape, as the client sent them.
    pub messages: &'a [Json],
    /// Tool definitions (`{"type": "function", "function": {…}}`), if the request has any.
    pub tools: Option<&'a [Json]>,
    /// Documents (`{"title", "text"}`), if the request has any.
    pub documents: Option<&'a [Json]>,
    /// What the text ends in.
    pub ending: Ending,
    /// Further variables (`chat_template_kwargs`).
    pub variables: Option<&'a Map<String, Json>>,
    /// The local time that `strftime_now` prints.
    pub now: NaiveDateTime,
}

/// What a rendered conversation ends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The last message.
    Closed,
    /// The header of an assistant's message to come.
    #[default]
    GenerationPrompt,
    /// The text of the last message, unclosed, for the model to go on with.
    ContinueFinalMessage,
}

/// A rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The whole text.
    pub text: String,
    /// Byte ranges, in order, of spellings of control tokens (or halves of them) that the client wrote. No control
    /// token may overlap them.
    pub literal: Vec<Range<usize>>,
}

/// A compiled chat template. Immutable and shared.
#[derive(Debug)]
pub struct ChatTemplate {
    env: Environment<'static>,
    source: String,
    named: Vec<(String, String)>,
    control: ControlTokens,
    content_form: ContentForm,
    /// The variables that it reads.
    variables: HashSet<String>,
}

/// Variables that a render sets by itself, whatever [`RenderInput::variables`] say.
pub const SET_VARIABLES: [&str; 5] =
    ["messages", "tools", "documents", "add_generation_prompt", "strftime_now"];

/// Marks where a continued message ends; the text after it is cut. The name is that of `transformers`.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A client's input in its final shape.
struct Prepared {
    messages: Vec<Json>,
    tools: Json,
    documents: Json,
    variables: Json,
    ending: Ending,
    now: NaiveDateTime,
}

impl ChatTemplate {
    /// Compiles `source` and finds out which forms of content it prints.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`] if the source does not parse.
    pub fn new(source: &str, tokens: &TemplateTokens) -> Result<Self, TemplateError> {
        let mut template = Self {
            env: environment::compile(source)?,
            source: source.to_owned(),
            named: tokens.named.clone(),
            control: ControlTokens::new(&tokens.control),
            content_form: ContentForm::Either,
            variables: HashSet::new(),
        };
        template.variables = template.compiled()?.undeclared_variables(false);
        template.content_form = probe::content_form(&template);
        Ok(template)
    }

    /// Which forms of content the template prints.
    pub fn content_form(&self) -> ContentForm {
        self.content_form
    }

    /// The template as its makers wrote it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the template reads a variable of this name.
    pub fn reads(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    fn compiled(&self) -> Result<minijinja::Template<'_, '_>, TemplateError> {
        let template = self.env.get_template(environment::TEMPLATE_NAME);
        template.map_err(|error| TemplateError::from_render(&error))
    }

    /// Renders a conversation, its messages brought into shape first (see [`normalise_messages`]).
    ///
    /// # Errors
    /// [`TemplateError::Raised`] carries the template's own message for the client; the others name what failed.
    pub fn render(&self, input: &RenderInput) -> Result<Rendered, TemplateError> {
        let prepared = self.prepare(input, self.content_form)?;
        let plain = self.render_guarded(&prepared, &self.guard(&prepared, Depth::Whole)?)?;
        let edges = self.guard(&prepared, Depth::Edges)?;
        if !edges.is_active() {
            return Ok(plain);
        }
        // Halves of control tokens at the edges of strings are guarded only where that leaves the text as it is.
        match self.render_guarded(&prepared, &edges) {
            Ok(finer) if finer.text == plain.text => Ok(finer),
            _ => Ok(plain),
        }
    }

    /// The place of the first message of the system's (or a developer's) that the template drops without a word, where
    /// `rendered` is its text of `input`. It costs a second render only if the text of one is not found in there.
    pub fn dropped_system_message(&self, input: &RenderInput, rendered: &Rendered) -> Option<usize> {
        probe::dropped_system_message(self, input, &rendered.text)
    }

    /// Renders messages without bringing their content into another form.
    pub(super) fn render_as_given(&self, input: &RenderInput) -> Result<String, TemplateError> {
        let prepared = self.prepare(input, ContentForm::Either)?;
        Ok(self.render_guarded(&prepared, &self.guard(&prepared, Depth::Whole)?)?.text)
    }

    fn prepare(&self, input: &RenderInput, form: ContentForm) -> Result<Prepared, TemplateError> {
        let mut messages = normalise_messages(input.messages, form);
        if input.ending == Ending::ContinueFinalMessage {
            let last = messages.last_mut();
            if !last.is_some_and(|message| append_to_content(message, CONTINUE_TAG)) {
                return Err(TemplateError::NotContinuable { reason: "there is no text in it" });
            }
        }
        let list = |items: Option<&[Json]>| items.map_or(Json::Null, |items| Json::Array(items.to_vec()));
        Ok(Prepared {
            messages,
            tools: list(input.tools),
            documents: list(input.documents),
            variables: Json::Object(input.variables.cloned().unwrap_or_default()),
            ending: input.ending,
            now: input.now,
        })
    }

    fn guard(&self, input: &Prepared, depth: Depth) -> Result<Guard<'_>, TemplateError> {
        let mut inputs: Vec<&Json> = input.messages.iter().collect();
        inputs.extend([&input.tools, &input.documents, &input.variables]);
        Guard::new(&self.control, depth, &inputs, &self.source)
    }

    /// Renders with tool arguments as mappings, and, where the template fails on those, as strings.
    fn render_guarded(&self, input: &Prepared, guard: &Guard) -> Result<Rendered, TemplateError> {
        let rendered = self.render_once(input, ArgumentsForm::Mapping, guard).or_else(|error| {
            let has_calls = input.messages.iter().any(|message| message.get("tool_calls").is_some());
            if !has_calls {
                return Err(error);
            }
            self.render_once(input, ArgumentsForm::Text, guard).map_err(|_| error)
        })?;
        let rendered = match input.ending {
            Ending::ContinueFinalMessage => cut_at_tag(rendered)?,
            _ => rendered,
        };
        let (text, literal) = guard.reveal(rendered);
        Ok(Rendered { text, literal })
    }

    fn render_once(
        &self,
        input: &Prepared,
        form: ArgumentsForm,
        guard: &Guard,
    ) -> Result<String, TemplateError> {
        let mut variables: Vec<(&str, Value)> = self
            .named
            .iter()
            .map(|(name, spelling)| (name.as_str(), Value::from(spelling.as_str())))
            .collect();
        if let Json::Object(extra) = &input.variables {
            variables.extend(
                extra.iter().map(|(name, value)| (name.as_str(), to_value(value, Role::Text, guard))),
            );
        }
        let messages: Value =
            input.messages.iter().map(|message| message_value(message, form, guard)).collect();
        let now = input.now;
        variables.extend(SET_VARIABLES.into_iter().zip([
            messages,
            to_value(&input.tools, Role::Text, guard),
            to_value(&input.documents, Role::Text, guard),
            Value::from(input.ending == Ending::GenerationPrompt),
            Value::from_function(move |format: &str| strftime(now, format)),
        ]));
        let rendered = self.compiled()?.render(Value::from_pairs(variables));
        rendered.map_err(|error| TemplateError::from_render(&error))
    }
}

/// Cuts the text where the tag stands, as `transformers` does.
fn cut_at_tag(mut rendered: String) -> Result<String, TemplateError> {
    let Some(at) = rendered.rfind(CONTINUE_TAG.trim_end()) else {
        return Err(TemplateError::NotContinuable { reason: "the template does not print it" });
    };
    let is_whole = rendered[at..].starts_with(CONTINUE_TAG);
    rendered.truncate(at);
    if !is_whole {
        rendered.truncate(rendered.trim_end().len());
    }
    Ok(rendered)
}

fn strftime(now: NaiveDateTime, format: &str) -> Result<String, Error> {
    let unknown = || Error::new(ErrorKind::InvalidOperation, format!("strftime_now cannot print {format:?}"));
    let items: Vec<Item> = StrftimeItems::new(format).collect();
    if items.contains(&Item::Error) {
        return Err(unknown());
    }
    let mut out = String::new();
    std::fmt::Write::write_fmt(&mut out, format_args!("{}", now.format_with_items(items.iter())))
        .map_err(|_| unknown())?;
    Ok(out)
}
