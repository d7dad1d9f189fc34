//! The kernels' own tests, in C++ and without MLX: every instruction set of this machine against plain loops, under
//! the address and undefined-behaviour sanitizers. `TROUPE_SANITIZE` names others, or none when it is empty.
#![cfg(target_os = "linux")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

#[track_caller]
fn run(program: &Path, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// The CMake that built this crate.
fn cmake() -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/cmake/bin/cmake");
    let named = env::var_os("CMAKE").map(PathBuf::from);
    named.unwrap_or(if fetched.exists() { fetched } else { "cmake".into() })
}

#[test]
fn the_kernels_pass_their_own_tests_under_sanitizers() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/cpp/tests");
    let sanitizers = env::var("TROUPE_SANITIZE").unwrap_or_else(|_| "address,undefined".to_owned());
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    let build = build.to_str().expect("a path of UTF-8");
    run(&cmake(), &["-S", source, "-B", build, &format!("-DTROUPE_SANITIZE={sanitizers}")]);
    run(&cmake(), &["--build", build, "--parallel", "2"]);
    run(&Path::new(build).join("kernels_test"), &[]);
}
