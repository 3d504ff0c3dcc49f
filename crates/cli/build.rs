//! Tells the command for which target it is built; `--version` says it.
fn main() {
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown target".to_owned());
    #[allow(clippy::print_stdout)]
    {
        println!("cargo::rustc-env=BRIMFUL_TARGET={target}");
        println!("cargo::rerun-if-changed=build.rs");
    }
}
