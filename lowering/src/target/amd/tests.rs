//! What code objects hold, by structure.

mod products;
mod programs;

use std::ops::Deref;

use super::{Compiler, Inspection, Linker, Object, names, spec};
use crate::DType;
use crate::op::Pointwise;
use crate::spec::Spec;
use crate::tile::{Builder, Program, Value};

/// A kernel as it came out of the linker, found to be what every kernel is.
struct Compiled {
    machine: Spec,
    object: Object,
    inspection: Inspection,
}

impl Deref for Compiled {
    type Target = Inspection;

    fn deref(&self) -> &Inspection {
        &self.inspection
    }
}

impl Compiled {
    fn of(program: &Program, machine: &Spec) -> Compiled {
        let object = Compiler::new(machine, Linker::new(None)).compile(program, &mut |_, _| {}).unwrap();
        let inspection = Inspection::of(program, machine, &object).unwrap();
        let compiled = Compiled { machine: machine.clone(), object, inspection };
        assert!(compiled.violations.is_empty(), "{:#?}\n{program}\n{}", compiled.violations, compiled.text());
        compiled
    }

    /// Number of instructions that contain a text.
    fn mentions(&self, text: &str) -> usize {
        self.code.iter().filter(|line| line.contains(text)).count()
    }

    /// Number of accesses of that many bytes a lane, `load` or `store`.
    fn global(&self, what: &str, bytes: u32) -> usize {
        let words = if self.machine.lanes == 64 {
            ["dword", "dwordx2", "dwordx3", "dwordx4"]
        } else {
            ["b32", "b64", "b96", "b128"]
        };
        self.count(&format!("global_{what}_{} ", words[bytes as usize / 4 - 1]))
    }

    fn text(&self) -> String {
        format!("on {}:\n{}", self.machine.name, self.code.join("\n"))
    }
}

/// The program on all machines.
fn everywhere(program: &Program) -> Vec<Compiled> {
    names().map(|name| Compiled::of(program, &spec(name).unwrap())).collect()
}

/// Offsets of this program's tile.
fn block(b: &mut Builder, size: u32) -> Value {
    let pid = b.program_id(0);
    let width = b.int(DType::I32, i64::from(size));
    let start = b.mul(pid, width);
    let lanes = b.arange(size);
    b.add(start, lanes)
}

/// One operand in, one result out.
fn pointwise(dtype: DType, size: u32, body: impl FnOnce(&mut Builder, Value) -> Value) -> Program {
    let mut b = Builder::new("pointwise");
    let (x, y) = (b.buffer(dtype, false), b.buffer(dtype, true));
    let offsets = block(&mut b, size);
    let xs = b.load(x, offsets);
    let ys = body(&mut b, xs);
    b.store(y, offsets, ys, None);
    b.finish()
}

/// The sum of a tile.
fn sum(dtype: DType, size: u32) -> Program {
    let mut b = Builder::new("sum");
    let (x, y) = (b.buffer(dtype, false), b.buffer(dtype, true));
    let offsets = block(&mut b, size);
    let xs = b.load(x, offsets);
    let sum = b.reduce(&[xs], 0, |b, l, r| [b.map(Pointwise::Add, &[l[0], r[0]])].into_iter().collect());
    let pid = b.program_id(0);
    b.store(y, pid, sum[0], None);
    b.finish()
}

#[test]
fn contiguous_elements_move_sixteen_bytes_at_a_time() {
    for (dtype, size) in [(DType::F32, 512), (DType::Bf16, 1024), (DType::U8, 2048), (DType::F64, 256)] {
        for c in everywhere(&pointwise(dtype, size, |b, x| b.map(Pointwise::Abs, &[x]))) {
            let accesses = (size * dtype.bytes() as u32 / c.machine.lanes / 16) as usize;
            assert_eq!((c.global("load", 16), c.global("store", 16)), (accesses, accesses), "{dtype} {}", c.text());
            assert_eq!((c.count("global_load"), c.count("global_store")), (accesses, accesses), "{dtype} {}", c.text());
        }
    }
}

#[test]
fn sums_change_lanes_within_registers() {
    for c in everywhere(&sum(DType::F32, 512)) {
        let wide = c.machine.lanes == 64;
        // A lane has several terms: it hands half of them over for as long as it has any, and then exchanges its one.  1, 2, 4,
        // 8 lanes away by modifiers, 16 and 32 by permutations.
        assert_eq!(c.mentions("quad_perm") > 0, wide, "{}", c.text());
        assert_eq!(c.mentions("row_xmask"), if wide { 0 } else { 5 }, "{}", c.text());
        assert_eq!(c.count("ds_swizzle_b32"), if wide { 2 } else { 0 }, "{}", c.text());
        assert_eq!(c.count("v_permlanex16_b32"), if wide { 0 } else { 3 }, "{}", c.text());
        assert_eq!(c.count("ds_bpermute_b32"), if wide { 3 } else { 0 }, "{}", c.text());
        // All lanes have the sum.
        assert_eq!(c.count("v_readlane_b32"), 0, "{}", c.text());
        assert_eq!((c.kernel.group_bytes, c.count("s_barrier")), (0, 0), "{}", c.text());
    }
}

#[test]
fn elements_that_change_places_go_through_shared_memory_without_waiting_for_other_programs() {
    let mut b = Builder::new("transpose");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let offsets = b.arange(32 * 32);
    let offsets = b.reshape(offsets, &[32, 32]);
    let xs = b.load(x, offsets);
    let turned = b.trans(xs, &[1, 0]);
    b.store(y, offsets, turned, None);
    for c in everywhere(&b.finish()) {
        assert_eq!(c.kernel.group_bytes, 32 * 33 * 4 * c.object.programs, "{}", c.text());
        let (writes, reads) = if c.machine.lanes == 64 { ("ds_write", "ds_read") } else { ("ds_store", "ds_load") };
        assert!(c.count(writes) > 0 && c.count(reads) > 0, "{}", c.text());
        assert_eq!(c.count("s_barrier"), 0, "{}", c.text());
    }
}

#[test]
fn work_groups_hold_as_many_programs_as_there_is_shared_memory_for() {
    let mut b = Builder::new("large");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let offsets = b.arange(64 * 64);
    let offsets = b.reshape(offsets, &[64, 64]);
    let xs = b.load(x, offsets);
    let turned = b.trans(xs, &[1, 0]);
    b.store(y, offsets, turned, None);
    for c in everywhere(&b.finish()) {
        // 32 lanes keep four elements apart from others in both layouts, which change places as a piece, without gaps.
        let (programs, row) = if c.machine.lanes == 64 { (2, 65) } else { (4, 64) };
        assert_eq!((c.object.programs, c.kernel.group_bytes), (programs, programs * 64 * row * 4), "{}", c.text());
    }
}

#[test]
fn programs_of_several_warps_meet_at_barriers_that_leave_caches_alone() {
    for name in names() {
        let machine = Spec { warps: 4, ..spec(name).unwrap() };
        let c = Compiled::of(&sum(DType::F32, 4096), &machine);
        assert_eq!((c.object.programs, c.object.threads), (1, 4 * machine.lanes));
        assert!(c.count("s_barrier") > 0 && c.kernel.group_bytes > 0, "{}", c.text());
        for invalidation in ["buffer_wbinv", "buffer_inv", "buffer_gl", "global_inv", "global_wb"] {
            assert_eq!(c.count(invalidation), 0, "{}", c.text());
        }
    }
}

#[test]
fn products_and_sums_stay_apart_and_quotients_and_roots_are_rounded_correctly() {
    for c in everywhere(&pointwise(DType::F32, 512, |b, x| {
        let square = b.mul(x, x);
        b.add(square, x)
    })) {
        let fused = ["v_fma", "v_mac", "v_mad", "v_pk_fma"].map(|name| c.count(name));
        assert_eq!(fused, [0; 4], "{}", c.text());
    }
    for c in everywhere(&pointwise(DType::F32, 512, |b, x| b.map(Pointwise::Div, &[x, x]))) {
        assert!(c.count("v_div_fixup_f32") > 0 || c.count("v_rcp") == 0, "{}", c.text());
    }
    for c in everywhere(&pointwise(DType::F32, 512, |b, x| {
        let root = b.map(Pointwise::Sqrt, &[x]);
        let one = b.constant(DType::F32, u64::from(1f32.to_bits()));
        let one = b.broadcast(one, &[512]);
        b.map(Pointwise::Div, &[one, root])
    })) {
        assert!(c.count("v_sqrt_f32") > 0 && c.count("v_div_fixup_f32") > 0 && c.count("v_rsq") == 0, "{}", c.text());
    }
}

#[test]
fn failed_checks_are_reported_by_one_exchange() {
    let mut b = Builder::new("check");
    let x = b.buffer(DType::I32, false);
    let offsets = block(&mut b, 64);
    let xs = b.load(x, offsets);
    let zero = b.int(DType::I32, 0);
    let zero = b.broadcast(zero, &[64]);
    let positive = b.lt(zero, xs);
    b.check(positive, 7);
    for c in everywhere(&b.finish()) {
        assert_eq!(c.count("global_atomic_cmpswap"), 1, "{}", c.text());
    }
}

#[test]
fn the_same_program_gives_the_same_bytes() {
    for name in names() {
        let compiler = Compiler::new(&spec(name).unwrap(), Linker::new(None));
        let object = || compiler.compile(&sum(DType::F32, 512), &mut |_, _| {}).unwrap();
        assert!(object() == object(), "{name}");
    }
}

#[test]
fn a_missing_linker_is_one_clear_error() {
    let linker = Linker::new(Some("/nowhere/ld.lld".as_ref()));
    let compiler = Compiler::new(&spec("gfx942").unwrap(), linker);
    let error = compiler.compile(&sum(DType::F32, 64), &mut |_, _| {}).unwrap_err();
    let want = "AMD's code objects need LLVM's linker, ld.lld, which was not found (tried /nowhere/ld.lld)";
    assert_eq!(error.to_string(), want);
}

#[test]
fn other_bytes_are_no_code_objects() {
    let object = Compiled::of(&sum(DType::F32, 64), &spec("gfx942").unwrap()).object;
    for end in (0..object.bytes.len()).step_by(7) {
        let cut = Object { bytes: object.bytes[..end].to_vec(), ..object.clone() };
        assert!(cut.kernel().is_err() || end > object.bytes.len() / 2, "cut at {end}");
    }
    assert!(Object { symbol: "another".into(), ..object }.kernel().is_err());
}
