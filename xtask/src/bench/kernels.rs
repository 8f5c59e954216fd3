//! The kernel's clients of images beside ours, under 64 jobs in an emulated machine. A test of the program
//! does it, and prints the rows.

use std::path::Path;

use crate::Result;
use crate::process::cargo;
use crate::totals::tests_pass;

/// The name of the row. It takes ten minutes, and runs only if it is asked for.
pub(super) const NAME: &str = "kernels, 64 jobs";

/// Prints the table for this program.
pub(super) fn print(program: &Path) -> Result<()> {
    let mut figures = cargo();
    // Of the whole workspace, as `xtask test` builds it: what is built is not built again.
    figures.args(["test", "--workspace", "--test", "krbd_kernel", "--", "--ignored", "--nocapture"]);
    tests_pass(figures.arg("figures_of_64_jobs").env("LOLIGO_BIN", std::fs::canonicalize(program)?))
}
