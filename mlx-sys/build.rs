//! Generates the cxx glue, builds it with our C++ by CMake, and tells cargo how to link MLX.
//!
//! Metadata for direct dependents: `DEP_MLX_RPATH`, the run-time search path that an executable needs to start
//! without cargo (entries separated by `:`, see `rpath`), and `DEP_MLX_CPU_LIB_DIR`, where this build put
//! libtroupe_cpu.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// What set-up provides, and where to find it when it is somewhere else.
struct Deps {
    mlx: PathBuf,
    openblas: PathBuf,
    cmake: PathBuf,
}

impl Deps {
    fn find() -> Self {
        let workspace = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
        let home = workspace.parent().expect("the package lies in the workspace").join(".deps");
        Self {
            mlx: dir_from("MLX_DIR", home.join("mlx")),
            openblas: dir_from("OPENBLAS_DIR", home.join("openblas")),
            cmake: dir_from("CMAKE", home.join("cmake/bin/cmake")),
        }
    }

    fn check(&self) {
        let mut wanted = vec![self.mlx.join("include/mlx/mlx.h"), self.mlx.join("lib").join(lib_name("mlx"))];
        if !is_macos() {
            wanted.push(self.openblas.join("lib").join(lib_name("scipy_openblas")));
        }
        for path in wanted {
            if !path.exists() {
                println!(
                    "cargo::error={} is missing: run `make deps`, or set MLX_DIR and OPENBLAS_DIR",
                    path.display()
                );
                std::process::exit(1);
            }
        }
    }
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let deps = Deps::find();
    for path in ["build.rs", "CMakeLists.txt", "cpp", "src/bridge.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    deps.check();

    // The glue is generated here and compiled by CMake with the rest.
    let _glue = cxx_build::bridge("src/bridge.rs");
    let installed = build(&deps, &out.join("cxxbridge"));

    println!("cargo::rustc-link-search=native={}", installed.join("lib").display());
    println!("cargo::rustc-link-lib=static=troupe_mlx");
    link_shared(&deps, &installed, &out.join("run"));
}

#[allow(unsafe_code, reason = "the cmake crate finds its program by this variable only")]
fn build(deps: &Deps, glue: &Path) -> PathBuf {
    let mut config = cmake::Config::new(".");
    if deps.cmake.exists() {
        println!("cargo::rerun-if-changed={}", deps.cmake.display());
        // SAFETY: the build script has one thread.
        unsafe { env::set_var("CMAKE", &deps.cmake) };
    }
    config
        .profile("Release")
        .define("MLX_DIR", real(&deps.mlx))
        .define("OPENBLAS_DIR", real(&deps.openblas))
        .define("GLUE_DIR", glue)
        .build()
}

/// Links the shared libraries by way of links below `run`. Cargo adds search paths inside its target directory to the
/// dynamic library path of what it runs, so `cargo run`, tests and doctests find them. The links are to folders:
/// MLX's library looks for its own dependencies relative to the folder that it really lies in.
fn link_shared(deps: &Deps, installed: &Path, run: &Path) {
    fs::create_dir_all(run).expect("OUT_DIR can be written");
    let mut libraries = vec![(real(&deps.mlx).join("lib"), "mlx")];
    if is_macos() {
        println!("cargo::rustc-link-lib=c++");
        for framework in ["Metal", "Foundation", "QuartzCore", "Accelerate"] {
            println!("cargo::rustc-link-lib=framework={framework}");
        }
    } else {
        println!("cargo::rustc-link-lib=stdc++");
        libraries.insert(0, (installed.join("lib"), "troupe_cpu"));
    }
    for (dir, name) in &libraries {
        // What this script wrote itself is always newer than its last run.
        if !dir.starts_with(installed) {
            println!("cargo::rerun-if-changed={}", dir.join(lib_name(name)).display());
        }
        symlink(dir, &run.join(name));
        println!("cargo::rustc-link-search=native={}", run.join(name).display());
        println!("cargo::rustc-link-lib=dylib={name}");
    }
    println!("cargo::metadata=RPATH={}", rpath(&libraries).join(":"));
    println!("cargo::metadata=CPU_LIB_DIR={}", installed.join("lib").display());
}

/// Where an executable looks for its libraries: beside itself first (the layout of `make dist`), then where this
/// build found them.
fn rpath(libraries: &[(PathBuf, &str)]) -> Vec<String> {
    let origin = if is_macos() { "@executable_path" } else { "$ORIGIN" };
    let mut dirs = vec![format!("{origin}/../lib/mlx/lib"), format!("{origin}/../lib")];
    dirs.extend(libraries.iter().map(|(dir, _)| dir.display().to_string()));
    dirs
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) {
    let _ = fs::remove_file(link);
    std::os::unix::fs::symlink(target, link).expect("OUT_DIR can be written");
}

fn dir_from(variable: &str, default: PathBuf) -> PathBuf {
    println!("cargo::rerun-if-env-changed={variable}");
    env::var_os(variable).map_or(default, PathBuf::from)
}

/// MLX finds its own libraries relative to its real place, not to a link to it.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn is_macos() -> bool {
    env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "macos")
}

fn lib_name(name: &str) -> String {
    format!("lib{name}.{}", if is_macos() { "dylib" } else { "so" })
}
