//! `troupe run`: a conversation at the terminal, or through a pipe.

use std::io::{self, BufRead, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use super::generate::{SECTIONS, statistics};
use super::sampling::SamplingArgs;
use super::{configuration, error, examples};
use crate::local::{GenerateOptions, Local};
use crate::progress;

/// What a shell reports for a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

const HELP: &str = "\
/system TEXT   set the system message and begin anew
/reset         forget the conversation
/help          this list
/exit          leave, as does Ctrl-D
Ctrl-C stops an answer.";

#[derive(Args, Debug)]
struct RunArgs {
    /// Text of a system message
    #[arg(short, long, value_name = "TEXT")]
    system: Option<String>,
    /// Print statistics to stderr after each answer
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
}

pub(super) fn command() -> Command {
    let command = RunArgs::augment_args(Command::new("run"))
        .about("Chat with a model at the terminal")
        .after_help(examples(&[
            "troupe run --model models/my-model.gguf",
            "troupe run --system \"Answer in rhymes\" --temperature 0.7",
            "echo \"What is the capital of France?\" | troupe run",
        ]));
    configuration::add_options(command, SECTIONS)
}

pub(super) fn run(matches: &ArgMatches) -> Result<()> {
    let args = RunArgs::from_arg_matches(matches)?;
    let config = configuration::load_with_model(matches)?;
    let options: GenerateOptions = args.sampling.into();
    options.validate()?;
    let interrupt = Interrupt::install()?;
    let model = config.model_id();
    let local = Local::start(config, progress::loading())?;

    let mut lines = Lines::open()?;
    let is_terminal = matches!(lines, Lines::Terminal(_));
    if is_terminal {
        eprintln!("{model}. /help lists what else can be typed.");
    }
    let mut chat =
        Chat { local, options, conversation: Conversation::new(args.system), interrupt, stats: args.stats };
    while let Some(line) = lines.next()? {
        match Input::parse(&line) {
            Input::Nothing => {}
            Input::Exit => break,
            Input::Help => eprintln!("{HELP}"),
            Input::Reset => chat.conversation.reset(),
            Input::System(text) => chat.conversation = Conversation::new(text),
            Input::Unknown(command) => eprintln!("there is no {command}; /help lists what there is"),
            Input::Say(text) => match chat.answer(text) {
                Err(failure) if is_terminal => eprintln!("error: {}", error::one_line(&failure)),
                outcome => outcome?,
            },
        }
    }
    Ok(())
}

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Nothing,
    Say(String),
    System(Option<String>),
    Reset,
    Help,
    Exit,
    Unknown(String),
}

impl Input {
    fn parse(line: &str) -> Self {
        let line = line.trim();
        if line.is_empty() {
            return Self::Nothing;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, rest.is_empty()) {
            ("/exit" | "/quit" | "/bye", true) => Self::Exit,
            ("/reset" | "/clear", true) => Self::Reset,
            ("/help" | "/?", true) => Self::Help,
            ("/system", is_empty) => Self::System((!is_empty).then(|| rest.to_owned())),
            // A path or a comment may begin with a slash too: only a single word in letters is a command.
            (word, _) if is_command(word) => Self::Unknown(word.to_owned()),
            _ => Self::Say(line.to_owned()),
        }
    }
}

fn is_command(word: &str) -> bool {
    word.strip_prefix('/')
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()))
}

/// The messages so far. It grows by a question and its answer, or not at all.
struct Conversation {
    messages: Vec<Value>,
}

impl Conversation {
    fn new(system: Option<String>) -> Self {
        let system = system.map(|text| json!({ "role": "system", "content": text }));
        Self { messages: system.into_iter().collect() }
    }

    fn reset(&mut self) {
        self.messages.retain(|message| message["role"] == "system");
    }

    fn asking(&self, question: &str) -> Vec<Value> {
        let mut messages = self.messages.clone();
        messages.push(json!({ "role": "user", "content": question }));
        messages
    }

    fn answered(&mut self, question: &str, answer: &str) {
        self.messages = self.asking(question);
        self.messages.push(json!({ "role": "assistant", "content": answer }));
    }
}

struct Chat {
    local: Local,
    options: GenerateOptions,
    conversation: Conversation,
    interrupt: Interrupt,
    stats: bool,
}

impl Chat {
    /// Streams the answer to stdout. An answer that was stopped stays in the conversation as far as it came.
    fn answer(&mut self, question: String) -> Result<()> {
        let messages = self.conversation.asking(&question);
        let answering = self.interrupt.guard();
        let mut written = Ok(());
        let on_text = |text: &str| {
            let mut out = io::stdout().lock();
            written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            match written.is_err() || answering.interrupted() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let generated = self.local.chat(messages, &self.options, on_text);
        drop(answering);
        written?;
        writeln!(io::stdout())?;
        let generated = generated?;
        self.conversation.answered(&question, &generated.text);
        if self.stats {
            eprintln!("{}", statistics(&generated));
        }
        Ok(())
    }
}

/// SIGINT. While nothing is answered it ends the program, as it would by itself. During an answer the
/// first one asks the answer to stop, and a second one ends the program.
struct Interrupt {
    fatal: Arc<AtomicBool>,
}

impl Interrupt {
    fn install() -> Result<Self> {
        let fatal = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&fatal))?;
        signal_hook::flag::register(SIGINT, Arc::clone(&fatal))?;
        Ok(Self { fatal })
    }

    fn guard(&self) -> Answering {
        self.fatal.store(false, Ordering::SeqCst);
        Answering { fatal: Arc::clone(&self.fatal) }
    }
}

/// Lives as long as an answer.
struct Answering {
    fatal: Arc<AtomicBool>,
}

impl Answering {
    fn interrupted(&self) -> bool {
        self.fatal.load(Ordering::SeqCst)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.fatal.store(true, Ordering::SeqCst);
    }
}

/// Where questions come from.
enum Lines {
    /// With editing and history.
    Terminal(Box<DefaultEditor>),
    /// One line after the other.
    Pipe,
}

impl Lines {
    fn open() -> Result<Self> {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            return Ok(Self::Terminal(Box::new(DefaultEditor::new()?)));
        }
        Ok(Self::Pipe)
    }

    /// The next line; `None` at the end.
    fn next(&mut self) -> Result<Option<String>> {
        match self {
            Self::Pipe => next_piped(&mut io::stdin().lock()),
            Self::Terminal(editor) => loop {
                match editor.readline(">>> ") {
                    Ok(line) => {
                        editor.add_history_entry(&line)?;
                        return Ok(Some(line));
                    }
                    // The terminal is in raw mode here, so Ctrl-C is a key and no signal.
                    Err(ReadlineError::Interrupted) => eprintln!("(Ctrl-D or /exit leaves)"),
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(error) => bail!(error),
                }
            },
        }
    }
}

/// What is not UTF-8 is replaced: one bad line is no reason to end a conversation.
fn next_piped(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line)?;
    Ok((read > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_mean_what_they_say() {
        let say = |text: &str| Input::Say(text.to_owned());
        let table = [
            ("", Input::Nothing),
            ("  \n", Input::Nothing),
            ("hello\n", say("hello")),
            ("/exit", Input::Exit),
            (" /quit ", Input::Exit),
            ("/reset", Input::Reset),
            ("/help", Input::Help),
            ("/system  be brief ", Input::System(Some("be brief".to_owned()))),
            ("/system", Input::System(None)),
            ("/sytem be brief", Input::Unknown("/sytem".to_owned())),
            ("/usr/bin is what?", say("/usr/bin is what?")),
            ("// a comment", say("// a comment")),
            ("exit", say("exit")),
        ];
        for (line, input) in table {
            assert_eq!(Input::parse(line), input, "{line:?}");
        }
    }

    #[test]
    fn piped_lines_are_read_to_the_end_whatever_they_hold() {
        let mut input = &b"one\n\xff two\xc3\n\nlast"[..];
        for line in [Some("one\n"), Some("\u{fffd} two\u{fffd}\n"), Some("\n"), Some("last"), None, None] {
            assert_eq!(next_piped(&mut input).unwrap().as_deref(), line);
        }
    }

    #[test]
    fn a_conversation_grows_by_answers_only() {
        let roles = |messages: &[Value]| -> String {
            messages.iter().map(|m| &m["role"].as_str().unwrap()[..1]).collect()
        };
        let mut conversation = Conversation::new(Some("s".to_owned()));
        assert_eq!(roles(&conversation.asking("q")), "su");
        conversation.answered("q", "a");
        assert_eq!(roles(&conversation.asking("q")), "suau");
        conversation.reset();
        assert_eq!(roles(&conversation.messages), "s");
    }

    #[test]
    fn an_interrupt_is_fatal_only_between_answers() {
        let interrupt = Interrupt { fatal: Arc::new(AtomicBool::new(true)) };
        let answering = interrupt.guard();
        assert!(!answering.interrupted());
        interrupt.fatal.store(true, Ordering::SeqCst);
        assert!(answering.interrupted());
        interrupt.fatal.store(false, Ordering::SeqCst);
        drop(answering);
        assert!(interrupt.fatal.load(Ordering::SeqCst));
    }
}
