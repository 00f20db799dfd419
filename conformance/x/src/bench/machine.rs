//! What the numbers were measured on.

use std::fmt;
use std::fs;
use std::thread;

/// The processor, as the system names it.
#[derive(Clone, Debug)]
pub struct Machine {
    pub processor: String,
    pub threads: usize,
    /// The widest vectors that it has, as Linux tells.
    pub vectors: &'static str,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} threads{}", self.processor, self.threads, self.vectors)
    }
}

/// This machine.
pub fn describe() -> Machine {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let (processor, vectors) = parse(&text);
    Machine { processor, threads: thread::available_parallelism().map_or(1, usize::from), vectors }
}

fn parse(cpuinfo: &str) -> (String, &'static str) {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let flags = field("flags").unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let vectors = match (has("avx512f"), has("avx2")) {
        (true, _) => ", AVX-512",
        (false, true) => ", AVX2",
        _ => "",
    };
    (field("model name").unwrap_or_else(|| std::env::consts::ARCH.into()), vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_read() {
        let text = "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx avx2\n\nmodel name\t: other\n";
        assert_eq!(parse(text), ("A Processor".into(), ", AVX2"));
        assert_eq!(parse(""), (std::env::consts::ARCH.into(), ""));
    }
}
