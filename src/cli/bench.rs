//! `troupe bench`: the flags of [`crate::bench`], its progress bar and its output.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{ArgMatches, Args, Command, FromArgMatches as _, ValueEnum};
use indicatif::ProgressBar;
use serde_json::Value;

use super::error::UsageError;
use super::examples;
use crate::bench::{self, ApiKey, Endpoint, Load, Options, PromptShape, Report, Stage};
use crate::progress;

#[derive(Args, Debug)]
struct BenchArgs {
    /// Server to drive; plain http
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// API key to ask with [default: TROUPE_API_KEY or OPENAI_API_KEY of the environment]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Model to ask for [default: the first that the server lists]
    #[arg(short, long, value_name = "NAME")]
    model: Option<String>,
    /// API to drive: /v1/chat/completions or /v1/completions
    #[arg(long, value_enum, default_value_t = Api::Chat)]
    endpoint: Api,
    /// Requests that are measured
    #[arg(short = 'n', long, value_name = "N", default_value_t = 32, value_parser = at_least_one)]
    requests: usize,
    /// Requests sent before, which do not count
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: usize,
    /// Clients, each of which waits for its answer before it asks again
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    concurrency: usize,
    /// Requests a second instead, each at its own random time (a Poisson process)
    #[arg(long, value_name = "R", conflicts_with = "concurrency", value_parser = positive)]
    rate: Option<f64>,
    /// Tokens of a prompt, without what the chat template adds
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = at_least_one)]
    prompt_tokens: usize,
    /// Of these, how many all prompts begin with
    #[arg(long, value_name = "N", default_value_t = 0)]
    shared_prefix: usize,
    /// Most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    output_tokens: u32,
    /// Ask the server to go on past the end of an answer (`ignore_eos`, which not every server takes)
    #[arg(long)]
    ignore_eos: bool,
    /// Hold the answers to the `response_format` that this file holds as JSON
    #[arg(long, value_name = "FILE")]
    response_format: Option<PathBuf>,
    /// Randomness of the answers
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Seed of prompts and of arrival times
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Seconds that one request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Write the results as JSON to a file, or to stdout for `-`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<String>,
    /// Put every single request into the JSON
    #[arg(long, requires = "json")]
    samples: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Api {
    Chat,
    Completions,
}

pub(super) fn command() -> Command {
    BenchArgs::augment_args(Command::new("bench"))
        .about("Measure a running server of the OpenAI kind: time to first token, time between tokens, throughput")
        .after_help(examples(&[
            "troupe bench --url http://127.0.0.1:8080 --requests 64 --concurrency 8",
            "troupe bench --rate 4 --prompt-tokens 512 --shared-prefix 256 --output-tokens 128 --json results.json",
        ]))
}

pub(super) fn run(matches: &ArgMatches) -> Result<()> {
    let args = BenchArgs::from_arg_matches(matches)?;
    let (json, samples) = (args.json.clone(), args.samples);
    let progress = Progress::default();
    let report = bench::run(&args.options()?, &|stage, done, total| progress.show(stage, done, total));
    progress.clear();
    let report = report?;
    let failed = report.totals.failed;
    print(if samples { report } else { report.without_samples() }, json.as_deref())?;
    if failed > 0 {
        bail!("{failed} requests failed");
    }
    Ok(())
}

impl BenchArgs {
    fn options(self) -> Result<Options, UsageError> {
        if self.shared_prefix > self.prompt_tokens {
            return Err(UsageError(format!(
                "--shared-prefix {} is more than --prompt-tokens {}",
                self.shared_prefix, self.prompt_tokens
            )));
        }
        let response_format = self.response_format.as_deref().map(read_json).transpose()?;
        Ok(Options {
            url: self.url,
            api_key: api_key(self.api_key, |name| env::var(name).ok())?,
            model: self.model,
            endpoint: match self.endpoint {
                Api::Chat => Endpoint::Chat,
                Api::Completions => Endpoint::Completions,
            },
            load: self.rate.map_or(Load::Concurrency(self.concurrency), Load::Rate),
            requests: self.requests,
            warmup: self.warmup,
            prompts: PromptShape {
                tokens: self.prompt_tokens,
                shared_prefix: self.shared_prefix,
                seed: self.seed,
            },
            output_tokens: self.output_tokens,
            temperature: self.temperature,
            ignore_eos: self.ignore_eos,
            response_format,
            timeout: Duration::from_secs(self.timeout),
        })
    }
}

fn read_json(path: &Path) -> Result<Value, UsageError> {
    let refuse = |error: String| UsageError(format!("--response-format {}: {error}", path.display()));
    let text = fs::read(path).map_err(|error| refuse(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))
}

/// Variables that hold a key, the first that is set and not empty counts. The second is what other tools read.
const KEY_VARIABLES: [&str; 2] = ["TROUPE_API_KEY", "OPENAI_API_KEY"];

/// The key that was given, else that of the environment. Other people see the arguments of a process.
fn api_key(
    given: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<ApiKey>, UsageError> {
    let set = || KEY_VARIABLES.into_iter().filter_map(variable).find(|value| !value.is_empty());
    let key = given.or_else(set).map(|key| ApiKey::new(&key));
    key.transpose().map_err(|error| UsageError(error.to_string()))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(error) => Err(error.to_string()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // Below this, a run would outlast its machine, and offsets their type.
        Ok(n) if n.is_finite() && n >= 1e-3 => Ok(n),
        Ok(_) => Err("must be at least 0.001".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The table goes to stdout, unless JSON does.
fn print(report: Report, json: Option<&str>) -> Result<()> {
    match json {
        Some("-") => writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?,
        Some(file) => {
            let text = serde_json::to_string_pretty(&report)? + "\n";
            fs::write(file, text).with_context(|| format!("cannot write {file}"))?;
            writeln!(io::stdout(), "{report}")?;
        }
        None => writeln!(io::stdout(), "{report}")?,
    }
    Ok(())
}

/// One bar at a time.
#[derive(Default)]
struct Progress(RefCell<Option<(Stage, ProgressBar)>>);

impl Progress {
    fn show(&self, stage: Stage, done: usize, total: usize) {
        let mut current = self.0.borrow_mut();
        let bar = match current.take() {
            Some((shown, bar)) if shown == stage => bar,
            other => {
                if let Some((_, bar)) = other {
                    bar.finish_and_clear();
                }
                progress::bar(match stage {
                    Stage::Prompts => "making prompts",
                    Stage::Warmup => "warming up",
                    Stage::Requests => "measuring",
                })
            }
        };
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        *current = Some((stage, bar));
    }

    fn clear(&self) {
        if let Some((_, bar)) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Result<Options, UsageError> {
        let matches = command().get_matches_from([&["bench"], words].concat());
        BenchArgs::from_arg_matches(&matches).unwrap().options()
    }

    #[test]
    fn a_rate_replaces_the_clients() {
        assert_eq!(options(&[]).unwrap().load, Load::Concurrency(8));
        assert_eq!(options(&["--rate", "2.5"]).unwrap().load, Load::Rate(2.5));
        let both = command().try_get_matches_from(["bench", "--rate", "1", "--concurrency", "1"]);
        assert!(both.is_err());
    }

    #[test]
    fn a_prefix_fits_its_prompt() {
        let error = options(&["--shared-prefix", "9", "--prompt-tokens", "8"]).unwrap_err();
        assert_eq!(error.to_string(), "--shared-prefix 9 is more than --prompt-tokens 8");
    }

    #[test]
    fn a_key_comes_from_the_flag_or_the_environment() {
        let none = |_: &str| None;
        let both = |name: &str| Some(format!("of {name}"));
        let empty =
            |name: &str| Some(if name == "OPENAI_API_KEY" { "second".to_owned() } else { String::new() });
        let bearer = |given: Option<&str>, variable: &dyn Fn(&str) -> Option<String>| {
            api_key(given.map(str::to_owned), variable).unwrap()
        };
        let key = |text: &str| Some(ApiKey::new(text).unwrap());
        assert_eq!(bearer(None, &none), None);
        assert_eq!(bearer(Some("given"), &both), key("given"));
        assert_eq!(bearer(None, &both), key("of TROUPE_API_KEY"));
        assert_eq!(bearer(None, &empty), key("second"));
        let error = api_key(Some("se\u{7f}cret".to_owned()), none).unwrap_err();
        assert_eq!(error.to_string(), "the API key has characters that a header cannot hold");
    }

    #[test]
    fn numbers_that_make_no_run_are_refused() {
        for words in [
            ["--rate", "0"],
            ["--rate", "inf"],
            ["--rate", "nan"],
            ["--requests", "0"],
            ["--concurrency", "0"],
        ] {
            assert!(command().try_get_matches_from(["bench", words[0], words[1]]).is_err(), "{words:?}");
        }
    }
}
