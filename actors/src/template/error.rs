use minijinja::ErrorKind;

/// Why a conversation could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template's source does not parse; the model folder is at fault.
    #[error("chat template does not parse: {message}")]
    Syntax {
        /// The parser's words, with the line.
        message: String,
    },
    /// The template called `raise_exception`; the conversation is at fault. The text is the template's own.
    #[error("{0}")]
    Raised(String),
    /// The template hit an operation that its input does not support, such as an attribute of an undefined value.
    #[error("chat template failed: {message}")]
    Failed {
        /// The engine's words, with the line.
        message: String,
    },
    /// The template used up its budget of work ([`crate::template::RENDER_FUEL`]).
    #[error("chat template needs more work than a render may do")]
    OutOfFuel,
    /// `continue_final_message` was asked for, and the last message has no text that the template prints.
    #[error("the final message cannot be continued: {reason}")]
    NotContinuable {
        /// What is missing.
        reason: &'static str,
    },
    /// The conversation spells control tokens and holds so many different private-use characters that none is left
    /// to stand for them.
    #[error("the conversation holds too many private-use characters")]
    PrivateUseExhausted,
}

/// The source of an engine error made by `raise_exception`; carries the template's message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

impl TemplateError {
    /// Sorts an engine error that occurred while parsing.
    pub(super) fn from_syntax(error: &minijinja::Error) -> Self {
        Self::Syntax { message: error.to_string() }
    }

    /// Sorts an engine error that occurred while rendering.
    pub(super) fn from_render(error: &minijinja::Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(current) = cause {
            if let Some(Raised(message)) = current.downcast_ref() {
                return Self::Raised(message.clone());
            }
            let engine = current.downcast_ref::<minijinja::Error>();
            if engine.is_some_and(|error| error.kind() == ErrorKind::OutOfFuel) {
                return Self::OutOfFuel;
            }
            cause = current.source();
        }
        Self::Failed { message: error.to_string() }
    }
}
