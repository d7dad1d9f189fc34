//! Hands the run-time search path of MLX on to the package that makes an executable.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(rpath) = std::env::var("DEP_MLX_RPATH") {
        println!("cargo::metadata=RPATH={rpath}");
    }
}
