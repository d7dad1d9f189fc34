#![no_main]

#[path = "../checks/calls.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::calls(bytes));
