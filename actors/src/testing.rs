//! For tests: a tokenizer whose ids are bytes, and a scheduler that follows a script.
//!
//! The scripted scheduler brings about what the real one cannot be asked to do: a fault in the middle of an answer, a
//! full queue, a prefill that never ends. It obeys credit as the real one does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::mpsc;
use troupe_model_files::{GenerationDefaults, GgufTokenizer, SpecialTokens, TokenizerSource};
use troupe_protocol::{
    EngineLimits, FinishReason, LengthClasses, NewSequence, RateStatuses, SampledToken, SequenceEvent,
    SequenceId, TokenId, TokenMask, Usage,
};

use crate::guide::Vocabulary;
use crate::model_card::ModelCard;
use crate::output_syntax::OutputSyntax;
use crate::scheduler::{Observe, SchedulerCommand, SchedulerStatus};
use crate::session::SessionEvent;
use crate::template::ChatTemplate;
use crate::tokenizer::{Tokenizer, TokenizerError};

/// The control token that ends a text, after the 256 bytes.
pub const END: TokenId = 256;
/// Ids of the byte tokenizer.
pub const VOCAB_SIZE: u32 = 257;

const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
    {% if messages[0].content == 'raise' %}{{ raise_exception('roles must alternate') }}{% endif %}";

/// A tokenizer in which token `n` is byte `n`, and [`END`] is special.
///
/// # Errors
/// Never; the library's own if it refuses the vocabulary.
pub fn byte_tokenizer() -> Result<Tokenizer, TokenizerError> {
    byte_tokenizer_with(&[])
}

/// The same, with further special tokens, counted from [`VOCAB_SIZE`].
pub(crate) fn byte_tokenizer_with(special: &[&str]) -> Result<Tokenizer, TokenizerError> {
    let mut tokens: Vec<String> = (0..=u8::MAX).map(|byte| alphabet(byte).to_string()).collect();
    let mut token_types = vec![1; tokens.len()];
    tokens.extend(["<|end|>"].iter().chain(special).map(|&text| text.to_owned()));
    token_types.resize(tokens.len(), 3);
    let source = GgufTokenizer {
        model: "gpt2".to_owned(),
        pre: Some("gpt-2".to_owned()),
        tokens,
        token_types: Some(token_types),
        eos_token_id: Some(END),
        ..GgufTokenizer::default()
    };
    Tokenizer::load(&TokenizerSource::Gguf(Box::new(source)), &SpecialTokens::default())
}

/// GPT-2's printable stand-in for a byte.
fn alphabet(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !is_printable(other)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The template of [`calling_card`].
const CALLING_TEMPLATE: &str = "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}\
    {% for m in messages %}{{ m.role }}: {{ m.content }}\n\
    {% for call in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ call.function.name }}\", \
    \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>\n{% endfor %}{% endfor %}\
    {% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}";

/// The model of [`model_card`], but one that reasons and calls tools.
///
/// # Errors
/// Never; the tokenizer's own.
pub fn calling_card(max_model_len: u32) -> Result<ModelCard, TokenizerError> {
    calling_card_in("auto", max_model_len)
}

/// The same, with calls in the format of that name.
///
/// # Errors
/// Never; the library's own if it refuses the vocabulary.
pub fn calling_card_in(format: &str, max_model_len: u32) -> Result<ModelCard, TokenizerError> {
    let plain = model_card(max_model_len)?;
    let tokens = plain.tokenizer.template_tokens(&SpecialTokens::default());
    let template = ChatTemplate::new(CALLING_TEMPLATE, &tokens);
    let output = OutputSyntax::choose(format, "auto", Some(CALLING_TEMPLATE), &plain.tokenizer);
    Ok(ModelCard { template: template.ok().map(Arc::new), output: output.unwrap_or_default(), ..plain })
}

/// The model of [`model_card`], but one that fills in: its tokens for prefix, suffix and middle follow the others.
///
/// # Errors
/// Never; the tokenizer's own.
pub fn filling_card(max_model_len: u32) -> Result<ModelCard, TokenizerError> {
    let mut card = model_card(max_model_len)?;
    card.tokenizer = Arc::new(byte_tokenizer_with(&["<fim_prefix>", "<fim_suffix>", "<fim_middle>"])?);
    card.limits.vocab_size += 3;
    Ok(card)
}

/// A model called `test`, also `alias`, with a context of `max_model_len`.
///
/// # Errors
/// Never; the tokenizer's own.
pub fn model_card(max_model_len: u32) -> Result<ModelCard, TokenizerError> {
    let tokenizer = Arc::new(byte_tokenizer()?);
    let template = ChatTemplate::new(TEMPLATE, &tokenizer.template_tokens(&SpecialTokens::default()));
    Ok(ModelCard {
        id: "test".to_owned(),
        aliases: vec!["alias".to_owned()],
        created: 1_700_000_000,
        limits: EngineLimits {
            max_model_len,
            max_num_seqs: 8,
            max_num_batched_tokens: 512,
            max_num_prompt_logprobs: 512,
            block_size: 16,
            num_blocks: 1024,
            num_stored_blocks: 0,
            vocab_size: VOCAB_SIZE,
            length_classes: LengthClasses::One,
        },
        vocabulary: Arc::new(Vocabulary::new(Arc::clone(&tokenizer), VOCAB_SIZE)),
        tokenizer,
        template: template.ok().map(Arc::new),
        output: OutputSyntax::default(),
        defaults: GenerationDefaults { eos_token_ids: vec![END], ..GenerationDefaults::default() },
    })
}

/// The events of a sequence that says `text` and stops.
pub fn says(sequence: &NewSequence, text: &str) -> Vec<SequenceEvent> {
    let bytes = text.bytes().map(TokenId::from).chain([END]);
    let mut events: Vec<_> = bytes.map(token).collect();
    let completion_tokens = events.len() as u32;
    events.push(SequenceEvent::Finished {
        reason: FinishReason::Stop,
        usage: Usage { prompt_tokens: sequence.prompt.len() as u32, completion_tokens, ..Usage::default() },
    });
    events
}

/// A generated token with nothing to it.
pub fn token(id: TokenId) -> SequenceEvent {
    SequenceEvent::Token(SampledToken { id, logprobs: None })
}

/// A scheduler that does as its script says. A script without an end leaves its sequence hanging.
pub struct ScriptedScheduler {
    /// What becomes of a sequence.
    script: fn(&NewSequence) -> Vec<SequenceEvent>,
    /// What is said of the state.
    status: SchedulerStatus,
    /// Hears of everything that was asked.
    log: mpsc::UnboundedSender<Seen>,
    running: BTreeMap<SequenceId, Running>,
}

struct Running {
    events: VecDeque<SequenceEvent>,
    session: Recipient<SessionEvent>,
    credit: u32,
}

/// What a scripted scheduler was asked.
#[allow(clippy::large_enum_variant, reason = "few of them live at once")]
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// To admit this.
    Admitted(NewSequence),
    /// To go on by so many tokens.
    Granted(SequenceId, u32),
    /// What may come after so many tokens.
    Masked(SequenceId, u32, TokenMask),
    /// To forget this, if it was running still.
    Cancelled(SequenceId),
}

impl ScriptedScheduler {
    /// Starts one; the receiver hears what it is asked.
    pub fn start(
        script: fn(&NewSequence) -> Vec<SequenceEvent>,
        status: SchedulerStatus,
    ) -> (Addr<Self>, mpsc::UnboundedReceiver<Seen>) {
        let (log, seen) = mpsc::unbounded_channel();
        let scheduler = Self { script, status, log, running: BTreeMap::new() };
        (Actor::start(scheduler), seen)
    }

    fn advance(&mut self, id: SequenceId) {
        let Some(running) = self.running.get_mut(&id) else { return };
        while let Some(event) = running.events.pop_front() {
            if matches!(event, SequenceEvent::Token(_)) {
                if running.credit == 0 {
                    running.events.push_front(event);
                    return;
                }
                running.credit -= 1;
            }
            let is_end = matches!(
                event,
                SequenceEvent::Finished { .. } | SequenceEvent::Rejected(_) | SequenceEvent::Failed(_)
            );
            // A session that ended does not listen; it says so itself.
            let _ = running.session.try_send(SessionEvent(event));
            if is_end {
                self.running.remove(&id);
                return;
            }
        }
    }
}

impl Actor for ScriptedScheduler {
    type Context = Context<Self>;
}

impl Handler<SchedulerCommand> for ScriptedScheduler {
    type Result = ();

    fn handle(&mut self, command: SchedulerCommand, _: &mut Self::Context) {
        // A test that dropped its end of the log does not care.
        match command {
            SchedulerCommand::Admit { sequence, events } => {
                let id = sequence.id;
                let mut script: VecDeque<_> = (self.script)(&sequence).into();
                // Scripts that do not say so take every sequence.
                if matches!(
                    script.front(),
                    Some(
                        SequenceEvent::Started { .. }
                            | SequenceEvent::Prompt(_)
                            | SequenceEvent::Token(_)
                            | SequenceEvent::Finished { .. }
                    )
                ) {
                    script.push_front(SequenceEvent::Accepted(RateStatuses::default()));
                }
                let running = Running { events: script, session: events, credit: sequence.credit };
                self.running.insert(id, running);
                let _ = self.log.send(Seen::Admitted(sequence));
                self.advance(id);
            }
            SchedulerCommand::Grant { sequence, tokens } => {
                if let Some(running) = self.running.get_mut(&sequence) {
                    running.credit += tokens;
                }
                let _ = self.log.send(Seen::Granted(sequence, tokens));
                self.advance(sequence);
            }
            SchedulerCommand::Mask { sequence, generated, mask } => {
                let _ = self.log.send(Seen::Masked(sequence, generated, mask));
            }
            SchedulerCommand::Cancel(sequence) => {
                let was_running = self.running.remove(&sequence).is_some();
                if was_running {
                    let _ = self.log.send(Seen::Cancelled(sequence));
                }
            }
            SchedulerCommand::Drain => self.status.draining = true,
            // It has no executor.
            _ => {}
        }
    }
}

impl Handler<Observe> for ScriptedScheduler {
    type Result = SchedulerStatus;

    fn handle(&mut self, Observe: Observe, _: &mut Self::Context) -> SchedulerStatus {
        self.status
    }
}
