//! Tells `cargo x test` what a test covered. Where nobody asks, it does nothing.

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that collects the lines of all test binaries.
const VARIABLE: &str = "KILN_TEST_REPORT";

/// A test went through `count` rows of the operation table.
pub fn rows(test: &str, count: usize) {
    append("rows", test, count);
}

/// A test used this dtype `count` times.
pub fn dtype(name: &str, count: usize) {
    append("dtypes", name, count);
}

/// A test ran `count` generated programs.
pub fn programs(generator: &str, count: usize) {
    append("programs", generator, count);
}

/// One line, written at once, so that several processes may share the file.
fn append(kind: &str, name: &str, count: usize) {
    let Some(path) = std::env::var_os(VARIABLE) else {
        return;
    };
    let line = format!("{{\"kind\":\"{kind}\",\"name\":\"{name}\",\"count\":{count}}}\n");
    let written =
        OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("{VARIABLE} names {}: {error}", path.display());
    }
}
