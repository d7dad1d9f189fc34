#![no_main]

#[path = "../checks/grammars.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::grammars(bytes));
