//! Looks whether a code object is what its program and its machine ask for, by structure: where nothing can be executed,
//! this is what can be known.

use super::code_object::{Argument, Kernel};
use super::object::{Object, disassemble};
use crate::spec::Spec;
use crate::target::Error;
use crate::tile::{ParamKind, Program};

/// A kernel taken apart.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What the code object says of it.
    pub kernel: Kernel,
    /// Its instructions, one a line.
    pub code: Vec<String>,
    /// What is not as it has to be: what, wanted, got.
    pub violations: Vec<String>,
}

impl Inspection {
    /// Takes the kernel of `program` apart, compiled for `spec`.
    ///
    /// # Errors
    ///
    /// The bytes are no code object with that kernel; its code holds bytes that are no instruction.
    pub fn of(program: &Program, spec: &Spec, object: &Object) -> Result<Inspection, Error> {
        let kernel = object.kernel().map_err(|e| Error::Foreign(format!("{}: {e}", object.symbol)))?;
        let code = disassemble(spec, &kernel)?;
        let spec = &spec.running(program);
        let mut inspection = Inspection { kernel, code, violations: Vec::new() };
        inspection.arguments(program);
        inspection.group(spec, object);
        inspection.registers(spec);
        inspection.arithmetic();
        Ok(inspection)
    }

    /// Number of instructions whose names begin so.
    pub fn count(&self, name: &str) -> usize {
        self.code.iter().filter(|line| line.starts_with(name)).count()
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, want: T, got: T) {
        if want != got {
            self.violations.push(format!("{what}: wanted {want:?}, got {got:?}"));
        }
    }

    /// One word a parameter, the status word's address, three extents: as the launch lays them down.
    fn arguments(&mut self, program: &Program) {
        let word = |i: usize, name: String, buffer: bool| {
            let kind = if buffer { "global_buffer" } else { "by_value" };
            Argument { name, offset: 8 * i as u32, size: 8, kind: kind.into() }
        };
        let buffers = program.params.iter().map(|(p, data)| (p, matches!(data.kind, ParamKind::Buffer { .. })));
        let mut args: Vec<Argument> =
            buffers.enumerate().map(|(i, (p, buffer))| word(i, p.to_string(), buffer)).collect();
        args.push(word(args.len(), "status".into(), true));
        let end = 8 * args.len() as u32;
        let extents = ["x", "y", "z"].iter().zip(0..).map(|(name, i)| (name.to_string(), end + 4 * i));
        args.extend(extents.map(|(name, offset)| Argument { name, offset, size: 4, kind: "by_value".into() }));
        self.expect("arguments", args, self.kernel.args.clone());
        self.expect("bytes of arguments", (end + 12, 8), (self.kernel.kernarg_bytes, self.kernel.kernarg_align));
        self.expect("bytes of arguments in the descriptor", end + 12, self.kernel.descriptor.kernarg_bytes);
        // Of all that the loader could hand over, the address of the arguments alone; a place where it is asked for.
        self.expect("handed arguments only", true, self.kernel.descriptor.wants_arguments_only());
        self.expect("told its place along x", true, self.kernel.descriptor.wants_places()[0]);
    }

    /// Whole waves, of one program or several, within the machine's shared memory.
    fn group(&mut self, spec: &Spec, object: &Object) {
        let lanes = spec.lanes;
        let whole = [spec.present(), spec.warps].map(|waves| lanes * waves * object.programs);
        self.expect("waves of a work-group that are whole and wanted", true, whole.contains(&object.threads));
        self.expect("lanes of a work-group in the metadata", object.threads, self.kernel.max_workgroup);
        self.expect("work-groups of one size", true, self.kernel.uniform_workgroup);
        self.expect("lanes of a wave", (lanes, lanes), (self.kernel.wavefront, self.kernel.descriptor.wavefront()));
        self.expect("shared memory in the descriptor", self.kernel.group_bytes, self.kernel.descriptor.group_bytes);
        self.expect("shared memory that fits", true, self.kernel.group_bytes <= spec.shared_bytes);
        if spec.warps == 1 {
            self.expect("barriers between programs", 0, self.count("s_barrier"));
        }
    }

    /// All values in registers, all addresses of known memory, no calls.
    fn registers(&mut self, spec: &Spec) {
        self.expect("scratch memory", (0, 0), (self.kernel.private_bytes, self.kernel.descriptor.private_bytes));
        self.expect("spilled registers", 0, self.kernel.vgpr_spills);
        for name in ["scratch_", "buffer_load", "buffer_store", "flat_", "s_swappc"] {
            self.expect(name, 0, self.count(name));
        }
        self.expect("an end", true, self.count("s_endpgm") > 0);
        self.expect(
            "vector registers that there are",
            true,
            self.kernel.vgprs <= if spec.lanes == 64 { 512 } else { 256 },
        );
    }

    /// IEEE: to the nearest, numbers below the normal ones kept.
    fn arithmetic(&mut self) {
        let descriptor = self.kernel.descriptor;
        self.expect("rounding to the nearest", true, descriptor.rounds_to_nearest());
        self.expect("f32 denormals kept", true, descriptor.keeps_f32_denormals());
        self.expect("f16 and f64 denormals kept", true, descriptor.keeps_f16_f64_denormals());
    }
}
