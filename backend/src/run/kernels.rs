//! Tile programs as kernels: found in memory, on disk, or compiled, several at a time.

use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use kiln_lowering::analysis::axis;
use kiln_lowering::layout::assign::Assignment;
use kiln_lowering::passes;
use kiln_lowering::spec::Spec;
use kiln_lowering::tile::Program;
use rustc_hash::FxHashMap;

use super::cache::{Cache, Key, key, name};
use super::dump;
use super::engine::{self, Engine};
use super::runner::message_of;
use crate::knobs::{self, Stage};

/// A program that can be launched.
pub(super) type Kernel = Arc<dyn engine::Kernel>;

/// What finding kernels took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    pub(super) compiled: u64,
    pub(super) cache_hits: u64,
    pub(super) nanos: u64,
}

impl std::ops::AddAssign for Effort {
    fn add_assign(&mut self, more: Effort) {
        self.compiled += more.compiled;
        self.cache_hits += more.cache_hits;
        self.nanos += more.nanos;
    }
}

/// The kernels of a device.
pub(super) struct Kernels {
    pub(super) engine: Box<dyn Engine>,
    cache: Cache,
    known: FxHashMap<Key, Result<Kernel, String>>,
    /// Keys of programs seen before: most come again with every new plan, and printing them takes longer than planning.
    keys: FxHashMap<Fingerprint, Key>,
}

/// What stands for a program while the process lives.
type Fingerprint = blake3::Hash;

/// Gathers what a value feeds its hash.
#[derive(Default)]
struct Fed(Vec<u8>);

impl Hasher for Fed {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

fn fingerprint(program: &Program) -> Fingerprint {
    let mut fed = Fed::default();
    program.hash(&mut fed);
    blake3::hash(&fed.0)
}

/// Version of the compiler, part of every key: another one may compile the same text to another object.
const COMPILER: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("KILN_COMPILER"));

impl Kernels {
    /// Those of a device; none yet.
    pub(super) fn new(engine: Box<dyn Engine>) -> Kernels {
        Kernels {
            engine,
            cache: Cache::new(knobs::get().cache_dir.clone()),
            known: FxHashMap::default(),
            keys: FxHashMap::default(),
        }
    }

    /// What stands for the machine and the compilers, in names of files.
    pub(super) fn identity(&self) -> String {
        let spec = self.engine.spec().map(Spec::to_string).unwrap_or_default();
        name(&key(&[&spec, COMPILER, &self.engine.version(), &self.engine.identity()]))
    }

    /// A kernel per program, or why there is none.
    pub(super) fn get(&mut self, programs: &[Program]) -> (Vec<Result<Kernel, String>>, Effort) {
        if let Some(kernels) = programs.iter().map(|p| self.engine.interpret(p).map(Ok)).collect() {
            return (kernels, Effort::default());
        }
        let started = Instant::now();
        let engine = &*self.engine;
        let spec_text = engine.spec().map(Spec::to_string).unwrap_or_default();
        let version = engine.version();
        let mut key_of = |p: &Program| {
            let known = self.keys.entry(fingerprint(p));
            *known.or_insert_with(|| key(&[&p.to_string(), &spec_text, COMPILER, &version]))
        };
        let keys: Vec<Key> = programs.iter().map(&mut key_of).collect();
        let mut missing: Vec<usize> = (0..keys.len()).filter(|&i| !self.known.contains_key(&keys[i])).collect();
        missing.dedup_by_key(|&mut i| keys[i]);
        let mut effort = Effort::default();
        if !missing.is_empty() {
            let workers = knobs::get().threads.min(missing.len());
            let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
            std::thread::scope(|scope| {
                let work = || {
                    while let Some(&index) = missing.get(next.fetch_add(1, Relaxed)) {
                        let kernel = obtain(&self.cache, engine, &keys[index], &programs[index]);
                        made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, kernel));
                    }
                };
                (1..workers).for_each(|_| drop(scope.spawn(work)));
                work();
            });
            for (index, (kernel, from_cache)) in made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
                *(if from_cache { &mut effort.cache_hits } else { &mut effort.compiled }) += 1;
                self.known.insert(keys[index], kernel);
            }
            effort.nanos = started.elapsed().as_nanos() as u64;
        }
        (keys.iter().map(|k| self.known[k].clone()).collect(), effort)
    }
}

/// A kernel from disk or from the compiler, and whether it came from disk.
fn obtain(cache: &Cache, engine: &dyn Engine, key: &Key, program: &Program) -> (Result<Kernel, String>, bool) {
    // A dump is asked for to see the stages, which an object from disk has not.
    let seen = [Stage::Layout, Stage::Llvm, Stage::Asm].iter().any(|&s| dump::wants(s, &program.name));
    if !seen && let Some(kernel) = cache.get(key).and_then(|code| engine.load(&code).ok()) {
        return (Ok(kernel), true);
    }
    let made = catch_unwind(AssertUnwindSafe(|| compile(engine, program)));
    let code = made.unwrap_or_else(|panic| Err(format!("{}: {}", program.name, message_of(&*panic))));
    let kernel = code.and_then(|code| {
        cache.put(key, &code);
        engine.load(&code)
    });
    (kernel, false)
}

fn compile(engine: &dyn Engine, program: &Program) -> Result<Vec<u8>, String> {
    let name = &dump::label(program);
    if let Some(spec) = engine.spec() {
        dump::write(Stage::Layout, name, || layouts(program, spec));
    }
    let mut see = |stage: &'static str, print: &dyn Fn() -> String| match stage {
        "native" => dump::write(Stage::Tile, &format!("{name}.native"), print),
        "llvm" => dump::write(Stage::Llvm, name, print),
        "optimised" => dump::write(Stage::Llvm, &format!("{name}.optimised"), print),
        "asm" => dump::write(Stage::Asm, name, print),
        _ => {}
    };
    engine.compile(program, &mut see)
}

/// The layout of each tile of the rewritten program.
fn layouts(program: &Program, spec: &Spec) -> String {
    let mut program = program.clone();
    passes::run(&mut program, &mut |_, _| {});
    let program = &program;
    let assignment = Assignment::new(program, &axis::analyse(program), spec);
    let mut text = String::new();
    let mut blocks = vec![program.body];
    while let Some(block) = blocks.pop() {
        for &inst in &program.blocks[block].insts {
            let data = &program.insts[inst];
            for &value in data.results.iter().filter(|&&v| !program.ty(v).is_scalar()) {
                let _ = writeln!(text, "{value}: {} {}", program.ty(value), assignment[value]);
            }
            blocks.extend(data.op.blocks());
        }
    }
    text
}
