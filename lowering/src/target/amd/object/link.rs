//! Calls LLVM's linker, `ld.lld`: from its standard input to its standard output, without files.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::target::module::Error;

/// What systems call it, on the path and off it.
const NAMES: [&str; 3] = ["ld.lld-22", "ld.lld", "/usr/lib/llvm-22/bin/ld.lld"];

/// A linker, found or given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linker(Option<PathBuf>);

impl Linker {
    /// The linker at a path, or where none is given the first of its usual names that can be run.
    pub fn new(path: Option<&Path>) -> Linker {
        Linker(path.map(Path::to_owned))
    }

    /// Links one relocatable object into a shared one.
    pub(super) fn link(&self, program: &str, object: &[u8]) -> Result<Vec<u8>, Error> {
        let given = self.0.as_deref().map(|path| vec![path]);
        let tried = given.unwrap_or_else(|| NAMES.iter().map(Path::new).collect());
        for path in &tried {
            match run(path, object) {
                Ok(Ok(bytes)) => return Ok(bytes),
                Ok(Err(message)) => return Err(Error::Link { program: program.into(), message }),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let message = format!("{}: {error}", path.display());
                    return Err(Error::Link { program: program.into(), message });
                }
            }
        }
        let tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        Err(Error::NoLinker(tried.join(", ")))
    }
}

/// The linked object, or what the linker had to say.
fn run(linker: &Path, object: &[u8]) -> std::io::Result<Result<Vec<u8>, String>> {
    let mut child = Command::new(linker)
        .args(["-shared", "--no-undefined", "/dev/stdin", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // It reads all of the input before it writes any of the output.  Where it ends early its own message says why.
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(object));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Ok(Err(if text.is_empty() { output.status.to_string() } else { text }));
    }
    written.map(|()| Ok(output.stdout))
}
