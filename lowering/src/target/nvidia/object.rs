//! Turns tile programs into PTX.

use std::fmt;
use std::sync::Once;

use inkwell::context::Context;
use inkwell::targets::{InitializationConfig, Target};

use super::emit::{Ended, Nvidia};
use super::specs::begins_early;
use crate::llvm::tensor_map::TensorMap;
use crate::llvm::{lower_body, started};
use crate::spec::Spec;
use crate::target::module::{self, Error, PASSES, See};
use crate::tile::{Op, Program};

/// Code of one program, for the driver to compile and load.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Name of the kernel in it.
    pub symbol: String,
    /// PTX.
    pub ptx: String,
    /// Programs that a block runs, side by side along x: the grid's x is the number of programs divided by this, rounded
    /// up.
    pub programs: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Tensor maps that the kernel is given behind all else, and how many it has room for.
    pub maps: Vec<TensorMap>,
    /// See [`maps`](Object::maps).
    pub room: u32,
    /// Whether it waits by itself for the kernel before it, and may begin while that one ends.
    pub early: bool,
    /// Bytes that a thread may leave to memory where that lets more warps run at one time; nothing where it is to have all
    /// the registers that it has use for.
    pub spill: Option<u32>,
}

/// [`Object::spill`]: tiles that instructions multiply are in registers.  What reduces waits for its lanes, and other warps
/// have something to do meanwhile; what does not is held up by memory alone.
fn spill(program: &Program) -> Option<u32> {
    let any = |wanted: fn(&Op) -> bool| program.insts.values().any(|inst| wanted(&inst.op));
    match any(|op| matches!(op, Op::Dot(_))) {
        true => None,
        false => Some(if any(|op| matches!(op, Op::Reduce { .. } | Op::Scan { .. })) { SPILT } else { SPILT_BY_MAPS }),
    }
}

/// Bytes of a thread that are left to memory and cost less than the warps are worth that run in their stead.  Measured on
/// an H200: 24 of norms save a tenth to a third of their time, 8 of a GELU a tenth; 32 of a chain of pointwise rows cost one.
const SPILT: u32 = 24;
const SPILT_BY_MAPS: u32 = 8;

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Object { symbol, ptx, programs, threads, shared, maps, .. } = self;
        write!(f, "Object({symbol}, {} bytes, {programs} programs on {threads} threads, ", ptx.len())?;
        write!(f, "{shared} shared, {} maps)", maps.len())
    }
}

/// Bytes by which what is copied ahead is cut at least where it does not fit.
const LEAST: u32 = 16 << 10;

/// Compiles tile programs for one kind of GPU.
pub struct Compiler {
    spec: Spec,
}

impl Compiler {
    /// A compiler for a GPU.
    pub fn new(spec: &Spec) -> Compiler {
        Compiler { spec: spec.clone() }
    }

    /// The GPU.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Compiles a valid program.  May be called from several threads at once.
    ///
    /// `see` learns of each stage, as on the host; `asm` is the PTX.
    ///
    /// # Errors
    ///
    /// LLVM's own words where it refuses the module; a program that needs more shared memory than there is.
    pub fn compile(&self, program: &Program, see: See<'_>) -> Result<Object, Error> {
        let program = &module::native(program, see);
        let spec = &started(program, self.spec.running(program));
        let context = Context::create();
        initialise();
        let (mut got, mut turns) = (spec.clone(), true);
        let (ir, machine, symbol, ended) = loop {
            let (ir, machine, symbol) = module::begin(&context, program, spec)?;
            let gpu = Nvidia::begin(&ir, program, spec, &symbol, turns);
            lower_body(&ir, &gpu, program, &got);
            let ended = gpu.end(&ir);
            if ended.tangled {
                turns = false;
                continue;
            }
            let wanted = ended.shared;
            if wanted <= spec.shared_bytes {
                break (ir, machine, symbol, ended);
            }
            // What is copied ahead takes what there is: the less, the more others want, which is known only now.
            let over = wanted - spec.shared_bytes;
            let Some(left) = got.shared_bytes.checked_sub(over.max(LEAST)) else {
                let (program, machine) = (program.name.clone(), spec.name.clone());
                return Err(Error::Shared { program, machine, wanted, got: spec.shared_bytes });
            };
            got.shared_bytes = left;
        };
        let Ended { programs, shared, maps, room, .. } = ended;
        module::optimise(&ir, &machine, PASSES, program, see)?;
        let ptx = module::assembly(&ir, &machine, program)?;
        see("asm", &|| ptx.clone());
        let threads = spec.lanes * spec.present() * programs;
        let (early, spill) = (begins_early(&spec.cpu), spill(program));
        Ok(Object { symbol, ptx, programs, threads, shared, maps, room, early, spill })
    }
}

fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| Target::initialize_nvptx(&InitializationConfig::default()));
}
