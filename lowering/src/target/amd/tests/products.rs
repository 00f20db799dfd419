//! Matrix products become matrix instructions.

use super::{Compiled, everywhere, names, spec};
use crate::DType;
use crate::spec::Spec;
use crate::tile::{Builder, Precision, Program, Value};

/// Offsets of a row-major matrix.
fn matrix(b: &mut Builder, rows: u32, columns: u32) -> Value {
    let offsets = b.arange(rows * columns);
    b.reshape(offsets, &[rows, columns])
}

/// Loads two tiles, multiplies them and stores the sums.
fn product([operand, sum]: [DType; 2], precision: Precision, [m, n, k]: [u32; 3]) -> Program {
    let mut b = Builder::new("product");
    let [x, y] = [0; 2].map(|_| b.buffer(operand, false));
    let result = b.buffer(sum, true);
    let (at_x, at_y, at) = (matrix(&mut b, m, k), matrix(&mut b, k, n), matrix(&mut b, m, n));
    let (xs, ys) = (b.load(x, at_x), b.load(y, at_y));
    let zero = b.constant(sum, 0);
    let zero = b.broadcast(zero, &[m, n]);
    let sums = b.dot(xs, ys, zero, precision);
    b.store(result, at, sums, None);
    b.finish()
}

/// The instruction for a type on a machine, as it is disassembled, and how many terms it takes.
fn instruction(machine: &Spec, operand: DType) -> Option<(&'static str, u32)> {
    let name = match (machine.name.as_str(), operand) {
        ("gfx90a", DType::F16) => "v_mfma_f32_16x16x16f16",
        ("gfx90a", DType::Bf16) => "v_mfma_f32_16x16x16bf16_1k",
        ("gfx90a", DType::I8) => "v_mfma_i32_16x16x16i8",
        ("gfx942", DType::F16) => "v_mfma_f32_16x16x16_f16",
        ("gfx942", DType::Bf16) => "v_mfma_f32_16x16x16_bf16",
        ("gfx942", DType::I8) => return Some(("v_mfma_i32_16x16x32_i8", 32)),
        ("gfx1100" | "gfx1201", DType::F16) => "v_wmma_f32_16x16x16_f16",
        ("gfx1100" | "gfx1201", DType::Bf16) => "v_wmma_f32_16x16x16_bf16",
        ("gfx1100" | "gfx1201", DType::I8 | DType::U8) => "v_wmma_i32_16x16x16_iu8",
        _ => return None,
    };
    Some((name, 16))
}

#[test]
fn products_of_small_types_are_matrix_instructions() {
    let types = [(DType::F16, DType::F32), (DType::Bf16, DType::F32), (DType::I8, DType::I32), (DType::U8, DType::U32)];
    for (operand, sum) in types {
        for c in everywhere(&product([operand, sum], Precision::Ieee, [32, 64, 32])) {
            let Some((name, terms)) = instruction(&c.machine, operand) else {
                assert_eq!(c.count("v_mfma") + c.count("v_wmma"), 0, "{}", c.text());
                continue;
            };
            assert_eq!(c.count(name), 2 * 4 * (32 / terms as usize), "{}", c.text());
        }
    }
}

#[test]
fn warps_share_a_product() {
    for name in names() {
        let machine = Spec { warps: 4, ..spec(name).unwrap() };
        let c = Compiled::of(&product([DType::Bf16, DType::F32], Precision::Ieee, [64, 64, 32]), &machine);
        let (name, _) = instruction(&machine, DType::Bf16).unwrap();
        assert_eq!(c.count(name), 2 * 2 * 2, "{}", c.text());
    }
}

#[test]
fn products_of_exact_floats_stay_chains_of_fused_operations() {
    for c in everywhere(&product([DType::F32, DType::F32], Precision::Ieee, [16, 32, 8])) {
        assert_eq!(c.count("v_mfma") + c.count("v_wmma"), 0, "{}", c.text());
        assert!(c.mentions("fma") > 0, "{}", c.text());
    }
}

#[test]
fn products_of_rounded_floats_are_matrix_instructions_where_there_are_any() {
    for (precision, times) in [(Precision::Tf32, 1), (Precision::Tf32x3, 3)] {
        for c in everywhere(&product([DType::F32, DType::F32], precision, [16, 32, 16])) {
            let wanted = if c.machine.name == "gfx942" { 2 * 2 * times } else { 0 };
            assert_eq!(c.count("v_mfma_f32_16x16x8_xf32"), wanted, "{}", c.text());
        }
    }
}
