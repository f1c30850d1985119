//! What people install: versions, the laid out files and their undoing, and what the files need of a system. `make
//! package-test` plays the packages themselves in roots of their own.

mod install;
mod python;
mod symbols;
mod version;
