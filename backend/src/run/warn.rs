//! Says once that something is amiss although work goes on.

use std::io::Write;

/// Writes a line to standard error.
pub(crate) fn warn(message: &str) {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "kiln: {message}");
}
