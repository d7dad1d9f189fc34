//! The `troupe` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    troupe::cli::main()
}
