#![no_main]

#[path = "../checks/templates.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::templates(bytes));
