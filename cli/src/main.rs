//! `mgb`, `mgb-clang`, `mgb-clang++` and `mgb-nvcc`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mgb_cli::main(std::env::args_os())
}
