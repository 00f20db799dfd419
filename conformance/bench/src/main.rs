//! The command `kiln-bench`. All of it is in the library, so that another package can build the same program.

use std::process::ExitCode;

fn main() -> ExitCode {
    kiln_bench::main()
}
