//! Rows against their oracles on special values of every type, and conversions against their definitions.

use super::{cast, eval};
use crate::dtype::{Class, DType};
use crate::op::pointwise::{Gives, Lower, Oracle, TABLE};

/// Bit patterns at the edges of a type.
fn edges(dtype: DType) -> Vec<u64> {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.7,
        1e-40,
        1e20,
        -1e20,
        65504.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    match dtype.class() {
        Class::Bool => vec![0, 1],
        Class::Float => floats.iter().map(|x| cast(DType::F64, dtype, x.to_bits())).collect(),
        _ => {
            let (mask, top) = (dtype.mask(), dtype.mask() >> 1);
            vec![0, 1, 2, 3, 7, 100, top - 1, top, top + 1, top + 2, mask - 6, mask - 1, mask]
        }
    }
}

#[test]
fn native_rows_on_integers_are_their_oracle_modulo_the_width() {
    for row in TABLE.iter().filter(|r| matches!(r.lower, Lower::Native) && r.arity <= 2) {
        let (Oracle::Both(_, oracle) | Oracle::Int(oracle)) = row.oracle else { continue };
        for &dtype in DType::ALL.iter().filter(|&&d| !d.is_float() && row.accepts(d)) {
            let wide = |x| if dtype.is_signed() { i128::from(dtype.sign_extend(x)) } else { i128::from(x) };
            for x in edges(dtype) {
                for y in edges(dtype) {
                    let to = row.result(dtype).unwrap();
                    let args = &[x, y][..row.arity];
                    let got = eval(row.op, dtype, to, args);
                    let args: Vec<i128> = args.iter().copied().map(wide).collect();
                    let want = oracle(&args, dtype) as u64 & if row.gives == Gives::Bool { 1 } else { dtype.mask() };
                    assert_eq!(got, want, "{} {dtype} {args:?}", row.name);
                }
            }
        }
    }
}

#[test]
fn native_rows_on_floats_are_their_oracle_rounded() {
    // The oracle's own rounding to f64 is harmless for these rows on f32 and narrower: 53 ≥ 2·24 + 2 bits.
    for row in TABLE.iter().filter(|r| matches!(r.lower, Lower::Native) && r.arity <= 2) {
        let (Oracle::Both(oracle, _) | Oracle::Float(oracle)) = row.oracle else { continue };
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            for x in edges(dtype) {
                for y in edges(dtype) {
                    let to = row.result(dtype).unwrap();
                    let args = &[x, y][..row.arity];
                    let got = eval(row.op, dtype, to, args);
                    let args: Vec<f64> = args.iter().map(|&a| f64::from_bits(cast(dtype, DType::F64, a))).collect();
                    let want = oracle(&args);
                    if want.is_nan() {
                        assert!(f64::from_bits(cast(to, DType::F64, got)).is_nan(), "{} {dtype} {args:?}", row.name);
                        continue;
                    }
                    // Computed in f32, then rounded: the definition for 16-bit floats.
                    let want = cast(DType::F64, dtype.compute(), want.to_bits());
                    let want =
                        if row.gives == Gives::Bool { u64::from(want != 0) } else { cast(dtype.compute(), to, want) };
                    assert_eq!(got, want, "{} {dtype} {args:?}", row.name);
                }
            }
        }
    }
}

#[test]
fn conversions_saturate_wrap_and_round_once() {
    let f = |x: f32| u64::from(x.to_bits());
    assert_eq!(cast(DType::F32, DType::I8, f(f32::NAN)), 0);
    assert_eq!(cast(DType::F32, DType::I8, f(-1e9)), 0x80);
    assert_eq!(cast(DType::F32, DType::U16, f(-1.0)), 0);
    assert_eq!(cast(DType::F32, DType::I64, f(1e30)), i64::MAX as u64);
    assert_eq!(cast(DType::F32, DType::Bool, f(f32::NAN)), 1);
    assert_eq!(cast(DType::F32, DType::Bool, f(-0.0)), 0);
    assert_eq!(cast(DType::I8, DType::U32, 0xff), 0xffff_ffff);
    assert_eq!(cast(DType::U8, DType::I64, 0xff), 0xff);
    assert_eq!(cast(DType::I64, DType::F16, 2049), 0x6800);
    assert_eq!(cast(DType::U64, DType::F16, u64::MAX), 0x7c00);
    // 1 + 2⁻¹¹ + 2⁻⁴⁰ is above the middle of two f16 numbers, but an f32 would lose the last bit.
    let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(cast(DType::F64, DType::F16, x.to_bits()), 0x3c01);
}
