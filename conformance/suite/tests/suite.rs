//! The suite under `cargo test`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kiln_suite::run::main()
}
