//! How a failure is told: one line, its causes after colons, and an exit code.

use std::error::Error;
use std::io;

use troupe_config::ConfigError;
use troupe_protocol::InvalidParameter;

/// The exit code of what was asked in a wrong way.
pub(super) const USAGE: u8 = 2;
/// The exit code of what was asked rightly and failed.
pub(super) const FAILURE: u8 = 1;
/// The exit code of everything else.
pub(super) const SUCCESS: u8 = 0;

/// Arguments that clap accepts and that still make no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

/// Prints the failure to stderr. Backtraces are for debuggers: none is printed, whatever `RUST_BACKTRACE` says.
pub(super) fn report(failure: &anyhow::Error) -> u8 {
    if is_closed_pipe(failure) {
        return SUCCESS;
    }
    eprintln!("error: {}", one_line(failure));
    code(failure)
}

fn code(failure: &anyhow::Error) -> u8 {
    let is_usage = |cause: &(dyn Error + 'static)| {
        cause.is::<UsageError>() || cause.is::<ConfigError>() || cause.is::<InvalidParameter>()
    };
    if failure.chain().any(is_usage) { USAGE } else { FAILURE }
}

/// Whoever read our output has seen enough (`troupe list | head -1`).
fn is_closed_pipe(failure: &anyhow::Error) -> bool {
    failure.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The failure and its causes. A cause that the text already tells is not told again.
pub(super) fn one_line(failure: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in failure.chain() {
        let cause = cause.to_string();
        let cause =
            cause.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn causes_are_told_once_and_in_one_line() {
        let error = anyhow!("no such file\n  at all")
            .context("cannot open x: no such file; at all")
            .context("cannot load");
        assert_eq!(one_line(&error), "cannot load: cannot open x: no such file; at all");
        let error = anyhow!("b").context("a");
        assert_eq!(one_line(&error), "a: b");
    }

    #[test]
    fn usage_is_told_from_failure_through_any_context() {
        let usage = anyhow::Error::new(UsageError("x".to_owned())).context("y");
        assert_eq!(code(&usage), USAGE);
        let config = ConfigError::Missing { key: "model.path", flag: "model", variable: String::new() };
        assert_eq!(code(&config.into()), USAGE);
        let parameter = InvalidParameter { param: "top_p".to_owned(), reason: "2 is too much".to_owned() };
        assert_eq!(code(&parameter.into()), USAGE);
        assert_eq!(code(&anyhow!("z")), FAILURE);
    }

    #[test]
    fn only_our_own_output_may_close_quietly() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&anyhow::Error::new(closed())));
        assert!(!is_closed_pipe(&Err::<(), _>(io::Error::other("x")).context("server").unwrap_err()));
    }
}
