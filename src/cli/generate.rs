//! `troupe generate`: one prompt, one answer, no server.

use std::io::{self, IsTerminal as _, Read, Write as _};
use std::ops::ControlFlow;

use anyhow::{Context as _, Result};
use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde_json::{Value, json};

use super::error::UsageError;
use super::sampling::SamplingArgs;
use super::{configuration, examples};
use crate::local::{GenerateOptions, Generated, Local};
use crate::progress;

/// The options of these sections concern a model that runs in this process.
pub(super) const SECTIONS: &[&str] = &["model", "engine", "cpu", "tokenizer", "log"];

#[derive(Args, Debug)]
struct GenerateArgs {
    /// Text to answer, `-` for stdin [default: stdin, if it is not a terminal]
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Text of a system message before the prompt
    #[arg(short, long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as it is, without the model's chat template
    #[arg(long)]
    raw: bool,
    /// Report log-probabilities, with this many alternatives a token
    #[arg(long, value_name = "N", requires = "json", value_parser = clap::value_parser!(u8).range(..=20))]
    logprobs: Option<u8>,
    /// Print one JSON object at the end, instead of the text as it comes
    #[arg(long)]
    json: bool,
    /// Print statistics to stderr even if it is not a terminal
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
}

pub(super) fn command() -> Command {
    let command = GenerateArgs::augment_args(Command::new("generate"))
        .about("Answer one prompt, without a server")
        .after_help(examples(&[
            "troupe generate -p \"What is the capital of France?\"",
            "troupe generate -m models/my-model -p \"Once upon a time\" --raw --max-tokens 64 --seed 7",
            "troupe generate -p \"Say hello\" --json --temperature 0 | jq .usage",
        ]));
    configuration::add_options(command, SECTIONS)
}

pub(super) fn run(matches: &ArgMatches) -> Result<()> {
    let args = GenerateArgs::from_arg_matches(matches)?;
    let prompt = prompt(args.prompt)?;
    let config = configuration::load_with_model(matches)?;
    let model = config.model_id();

    let options = GenerateOptions { logprobs: args.logprobs, ..args.sampling.into() };
    options.validate()?;
    let mut local = Local::start(config, progress::loading())?;
    let mut out = Output { streamed: !args.json, result: Ok(()) };
    let on_text = |text: &str| out.text(text);
    let generated = if args.raw {
        local.complete(&prompt, &options, on_text)
    } else {
        local.chat(messages(args.system, prompt), &options, on_text)
    }?;

    out.result?;
    if args.json {
        writeln!(io::stdout(), "{:#}", document(&model, &generated))?;
    } else {
        writeln!(io::stdout())?;
    }
    if args.stats || (io::stderr().is_terminal() && !args.json) {
        eprintln!("{}", statistics(&generated));
    }
    Ok(())
}

fn prompt(typed: Option<String>) -> Result<String> {
    let piped = || !io::stdin().is_terminal();
    match typed {
        Some(text) if text != "-" => Ok(text),
        None if !piped() => Err(no_prompt().into()),
        _ => from_pipe(io::stdin().lock()),
    }
}

/// All of it, without the line ends that `echo` and editors put last.
fn from_pipe(mut pipe: impl Read) -> Result<String> {
    let mut text = String::new();
    pipe.read_to_string(&mut text).context("cannot read the prompt from stdin")?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    if text.is_empty() { Err(no_prompt().into()) } else { Ok(text) }
}

fn no_prompt() -> UsageError {
    UsageError("there is no prompt: give --prompt TEXT, or pipe it in".to_owned())
}

fn messages(system: Option<String>, prompt: String) -> Vec<Value> {
    let system = system.map(|text| json!({ "role": "system", "content": text }));
    system.into_iter().chain([json!({ "role": "user", "content": prompt })]).collect()
}

/// Writes pieces of text as they come. Once writing fails, the answer is stopped.
struct Output {
    streamed: bool,
    result: io::Result<()>,
}

impl Output {
    fn text(&mut self, text: &str) -> ControlFlow<()> {
        if !self.streamed {
            return ControlFlow::Continue(());
        }
        let mut out = io::stdout().lock();
        self.result = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if self.result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn document(model: &str, generated: &Generated) -> Value {
    let usage = generated.usage;
    let mut document = json!({
        "model": model,
        "text": generated.text,
        "finish_reason": generated.finish_reason,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
        "ttft_seconds": generated.ttft.as_secs_f64(),
        "duration_seconds": generated.duration.as_secs_f64(),
        "decode_tokens_per_second": decode_rate(generated),
    });
    if let Some(logprobs) = &generated.logprobs {
        document["logprobs"] = logprobs.clone();
    }
    document
}

/// Tokens a second after the first one; `None` if there was no second one.
fn decode_rate(generated: &Generated) -> Option<f64> {
    let later = generated.usage.completion_tokens.checked_sub(1).filter(|&n| n > 0)?;
    let seconds = generated.duration.saturating_sub(generated.ttft).as_secs_f64();
    (seconds > 0.0).then(|| f64::from(later) / seconds)
}

/// One line about an answer.
pub(super) fn statistics(generated: &Generated) -> String {
    let usage = generated.usage;
    let rate = decode_rate(generated).map(|rate| format!(", {rate:.1} tokens/s")).unwrap_or_default();
    format!(
        "[{} prompt tokens, {} generated, first after {:.2} s{rate}, {}]",
        usage.prompt_tokens,
        usage.completion_tokens,
        generated.ttft.as_secs_f64(),
        generated.finish_reason
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use troupe_protocol::Usage;

    use super::*;

    fn generated(completion_tokens: u32) -> Generated {
        Generated {
            text: "Paris".to_owned(),
            finish_reason: "stop".to_owned(),
            usage: Usage { prompt_tokens: 9, completion_tokens, ..Usage::default() },
            ttft: Duration::from_millis(500),
            duration: Duration::from_millis(2500),
            logprobs: None,
        }
    }

    #[test]
    fn the_rate_is_that_of_the_tokens_after_the_first() {
        assert_eq!(decode_rate(&generated(41)), Some(20.0));
        assert_eq!(decode_rate(&generated(1)), None);
        assert_eq!(decode_rate(&generated(0)), None);
    }

    #[test]
    fn json_holds_text_and_usage() {
        let document = document("m", &generated(41));
        assert_eq!((&document["text"], &document["usage"]["total_tokens"]), (&json!("Paris"), &json!(50)));
        assert_eq!(document.get("logprobs"), None);
    }

    #[test]
    fn statistics_fit_a_line() {
        let line = "[9 prompt tokens, 41 generated, first after 0.50 s, 20.0 tokens/s, stop]";
        assert_eq!(statistics(&generated(41)), line);
    }

    #[test]
    fn a_piped_prompt_ends_before_its_line_end() {
        assert_eq!(from_pipe(&b"two\n\nlines\r\n"[..]).unwrap(), "two\n\nlines");
        for (pipe, message) in [
            (&b"\n"[..], "there is no prompt: give --prompt TEXT, or pipe it in"),
            (&b"\xff"[..], "cannot read the prompt from stdin"),
        ] {
            assert_eq!(from_pipe(pipe).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_system_message_comes_first() {
        let roles = |system: Option<&str>| -> Vec<Value> {
            messages(system.map(str::to_owned), "p".to_owned()).iter().map(|m| m["role"].clone()).collect()
        };
        assert_eq!(roles(Some("s")), ["system", "user"]);
        assert_eq!(roles(None), ["user"]);
    }
}
