//! Every environment variable that Kiln reads, in one place.  Read once, at the first use of a device.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::device::KilnDevice;

/// The machine of the default device: `cpu`, `cuda:0`, `hip:0` or `interp`; `cpu` if unset.
pub const KILN_DEVICE: &str = "KILN_DEVICE";
/// Whether operations may share kernels: `on` or `off`; `on` if unset.
pub const KILN_FUSE: &str = "KILN_FUSE";
/// How closely results follow the unfused ones: `strict`, `default` or `fast`.
pub const KILN_NUMERICS: &str = "KILN_NUMERICS";
/// Folder of compiled kernels, or `off`; `$XDG_CACHE_HOME/kiln` or `~/.cache/kiln` if unset.
pub const KILN_CACHE_DIR: &str = "KILN_CACHE_DIR";
/// Stages to write out, separated by commas: `graph`, `schedule`, `tile`, `layout`, `llvm`, `asm`, `explain`.
pub const KILN_DUMP: &str = "KILN_DUMP";
/// Folder that dumps go to; `kiln-dump` if unset.
pub const KILN_DUMP_DIR: &str = "KILN_DUMP_DIR";
/// Dumps only what has this text in its name.
pub const KILN_DUMP_FILTER: &str = "KILN_DUMP_FILTER";
/// Whether a GPU is asked at once for the work of a plan that comes again: `on` or `off`; `on` if unset.
pub const KILN_GRAPHS: &str = "KILN_GRAPHS";
/// Whether large matrix products go to the machine's library of them: `on` or `off`; `on` if unset.
pub const KILN_BLAS: &str = "KILN_BLAS";
/// Whether the ways in which products can be computed are measured where a segment is first planned: `on` or `off`; `off` if
/// unset.  What was measured once counts from then on, whether this is on or not.
pub const KILN_TUNE: &str = "KILN_TUNE";
/// Number of threads that run kernels; the machine's processors if unset.
pub const KILN_THREADS: &str = "KILN_THREADS";
/// Most memory that tensors of one device may take: bytes, or a number with `K`, `M` or `G`; no limit if unset.
pub const KILN_MEMORY_LIMIT: &str = "KILN_MEMORY_LIMIT";
/// File that gets a line of JSON with counters at each sync and at the end of the process.
pub const KILN_STATS: &str = "KILN_STATS";
/// Number of recorded operations after which work is handed to the device; 256 if unset.  A GPU waits for up to 32 times
/// as many while results of most of them are still held.
pub const KILN_SEGMENT_OPS: &str = "KILN_SEGMENT_OPS";
/// Bytes of operands that recorded work may hold before it is handed to the device; if unset a sixteenth of a GPU's
/// memory, 1G elsewhere.
pub const KILN_SEGMENT_BYTES: &str = "KILN_SEGMENT_BYTES";

/// How closely results follow the unfused ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// Bit for bit, composites included; one order of summation for every batch.
    Strict,
    /// Bit for bit, but recognised composites round once.
    Default,
    /// Chains may stay in f32 and contract; products on a GPU may round factors of f32 to tf32, and an activation that a
    /// library computes with them may make 0 of NaN.
    Fast,
}

/// A stage whose text can be written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The recorded graph.
    Graph,
    /// Kernels, buffers and steps.
    Schedule,
    /// Tile programs.
    Tile,
    /// Layouts of their tiles.
    Layout,
    /// LLVM's text.
    Llvm,
    /// Assembly.
    Asm,
    /// What fused and why the rest did not, bytes and times, as JSON lines in one file.
    Explain,
}

impl Stage {
    /// Every stage with its name.
    pub const ALL: [(&'static str, Stage); 7] = [
        ("graph", Stage::Graph),
        ("schedule", Stage::Schedule),
        ("tile", Stage::Tile),
        ("layout", Stage::Layout),
        ("llvm", Stage::Llvm),
        ("asm", Stage::Asm),
        ("explain", Stage::Explain),
    ];
}

/// The values of all knobs.
#[derive(Clone, Debug)]
pub struct Knobs {
    /// [`KILN_DEVICE`].
    pub device: KilnDevice,
    /// [`KILN_FUSE`].
    pub fuse: bool,
    /// [`KILN_NUMERICS`].
    pub numerics: Numerics,
    /// [`KILN_CACHE_DIR`]; `None` for `off` or where no home is known.
    pub cache_dir: Option<PathBuf>,
    /// [`KILN_DUMP`].
    pub dump: Vec<Stage>,
    /// [`KILN_DUMP_DIR`].
    pub dump_dir: PathBuf,
    /// [`KILN_DUMP_FILTER`].
    pub dump_filter: Option<String>,
    /// [`KILN_GRAPHS`].
    pub graphs: bool,
    /// [`KILN_BLAS`].
    pub blas: bool,
    /// [`KILN_TUNE`].
    pub tune: bool,
    /// [`KILN_THREADS`].
    pub threads: usize,
    /// [`KILN_MEMORY_LIMIT`], in bytes.
    pub memory_limit: Option<u64>,
    /// [`KILN_STATS`].
    pub stats: Option<PathBuf>,
    /// [`KILN_SEGMENT_OPS`].
    pub segment_ops: usize,
    /// [`KILN_SEGMENT_BYTES`].
    pub segment_bytes: Option<u64>,
}

/// The knobs of this process.
///
/// # Panics
///
/// If a variable holds something else than it may; the message names the variable, what it takes and what it got.
pub fn get() -> &'static Knobs {
    static KNOBS: OnceLock<Result<Knobs, String>> = OnceLock::new();
    match KNOBS.get_or_init(|| read(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))) {
        Ok(knobs) => knobs,
        Err(message) => panic!("{message}"),
    }
}

/// Reads all knobs through `var`.
fn read(var: impl Fn(&str) -> Option<String>) -> Result<Knobs, String> {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    Ok(Knobs {
        device: parse(&var, KILN_DEVICE, "cpu, cuda:N, hip:N or interp", KilnDevice::parse)?.unwrap_or(KilnDevice::Cpu),
        fuse: parse(&var, KILN_FUSE, "on or off", switch)?.unwrap_or(true),
        numerics: parse(&var, KILN_NUMERICS, "strict, default or fast", numerics)?.unwrap_or(Numerics::Default),
        cache_dir: match var(KILN_CACHE_DIR) {
            Some(off) if off == "off" => None,
            Some(dir) => Some(PathBuf::from(dir)),
            None => var("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| var("HOME").map(|home| PathBuf::from(home).join(".cache")))
                .map(|dir| dir.join("kiln")),
        },
        dump: parse(&var, KILN_DUMP, "a list of graph, schedule, tile, layout, llvm, asm, explain", stages)?
            .unwrap_or_default(),
        dump_dir: PathBuf::from(var(KILN_DUMP_DIR).unwrap_or_else(|| "kiln-dump".into())),
        dump_filter: var(KILN_DUMP_FILTER),
        graphs: parse(&var, KILN_GRAPHS, "on or off", switch)?.unwrap_or(true),
        blas: parse(&var, KILN_BLAS, "on or off", switch)?.unwrap_or(true),
        tune: parse(&var, KILN_TUNE, "on or off", switch)?.unwrap_or(false),
        threads: parse(&var, KILN_THREADS, "a number from 1", count)?.unwrap_or(processors),
        memory_limit: parse(&var, KILN_MEMORY_LIMIT, "bytes, as in 512M or 4G", bytes)?,
        stats: var(KILN_STATS).map(PathBuf::from),
        segment_ops: parse(&var, KILN_SEGMENT_OPS, "a number from 1", count)?.unwrap_or(256),
        segment_bytes: parse(&var, KILN_SEGMENT_BYTES, "bytes, as in 512M or 4G", bytes)?,
    })
}

fn parse<T>(
    var: &impl Fn(&str) -> Option<String>,
    name: &str,
    wanted: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    match var(name) {
        None => Ok(None),
        Some(got) => match read(got.trim()) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("{name} takes {wanted}, got `{got}`")),
        },
    }
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn numerics(text: &str) -> Option<Numerics> {
    match text {
        "strict" => Some(Numerics::Strict),
        "default" => Some(Numerics::Default),
        "fast" => Some(Numerics::Fast),
        _ => None,
    }
}

fn stages(text: &str) -> Option<Vec<Stage>> {
    text.split(',').map(|word| Stage::ALL.iter().find(|(name, _)| *name == word.trim()).map(|&(_, s)| s)).collect()
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|&n| n > 0)
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match text[digits.len()..].trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Knobs, String> {
        read(move |asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn unset_knobs_have_defaults() {
        let knobs = read(|_| None).expect("defaults are valid");
        assert_eq!(knobs.device, KilnDevice::Cpu);
        assert!(knobs.fuse && knobs.memory_limit.is_none() && knobs.cache_dir.is_none());
    }

    #[test]
    fn values_are_read() {
        assert_eq!(with(KILN_DEVICE, "interp").expect("valid").device, KilnDevice::Interp);
        assert_eq!(with(KILN_DEVICE, "cuda:3").expect("valid").device, KilnDevice::Cuda(3));
        assert_eq!(with(KILN_MEMORY_LIMIT, "3M").expect("valid").memory_limit, Some(3 << 20));
        assert_eq!(with(KILN_DUMP, "graph, asm").expect("valid").dump, [Stage::Graph, Stage::Asm]);
        assert_eq!(with(KILN_CACHE_DIR, "off").expect("valid").cache_dir, None);
    }

    #[test]
    fn a_bad_value_names_variable_wanted_and_got() {
        for (name, value) in [
            (KILN_DEVICE, "gpu"),
            (KILN_DEVICE, "cuda:x"),
            (KILN_FUSE, "yes"),
            (KILN_NUMERICS, "loose"),
            (KILN_DUMP, "graph,nothing"),
            (KILN_THREADS, "0"),
            (KILN_MEMORY_LIMIT, "much"),
        ] {
            let message = with(name, value).expect_err("not valid");
            assert!(message.contains(name) && message.contains("takes") && message.contains(value), "{message}");
        }
    }
}
