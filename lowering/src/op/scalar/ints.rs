//! Native rows on integers and truth values.

use crate::dtype::DType;
use crate::op::Pointwise;

macro_rules! int_rows {
    ($($name:ident $int:ident $unsigned:ident;)+) => {$(
        fn $name(op: Pointwise, args: &[&[u64]]) -> Vec<u64> {
            let to = |x: $int| u64::from(x as $unsigned);
            let one = |f: fn($int) -> $int| args[0].iter().map(|&x| to(f(x as $int))).collect();
            let two = |f: fn($int, $int) -> $int| {
                args[0].iter().zip(args[1]).map(|(&x, &y)| to(f(x as $int, y as $int))).collect()
            };
            let test = |f: fn(&$int, &$int) -> bool| {
                args[0].iter().zip(args[1]).map(|(&x, &y)| u64::from(f(&(x as $int), &(y as $int)))).collect()
            };
            match op {
                Pointwise::Add => two($int::wrapping_add),
                Pointwise::Sub => two($int::wrapping_sub),
                Pointwise::Mul => two($int::wrapping_mul),
                Pointwise::Div => two(|x, y| if y == 0 { 0 } else { x.wrapping_div(y) }),
                Pointwise::Neg => one($int::wrapping_neg),
                Pointwise::Abs => one(|x| (x as i128).unsigned_abs() as $int),
                Pointwise::Min => two(Ord::min),
                Pointwise::Max => two(Ord::max),
                Pointwise::Eq => test($int::eq),
                Pointwise::Ne => test($int::ne),
                Pointwise::Lt => test($int::lt),
                Pointwise::Le => test($int::le),
                Pointwise::Gt => test($int::gt),
                Pointwise::Ge => test($int::ge),
                Pointwise::And => two(|x, y| x & y),
                Pointwise::Or => two(|x, y| x | y),
                Pointwise::Xor => two(|x, y| x ^ y),
                Pointwise::Not => one(|x| !x),
                Pointwise::Shl => two(|x, y| x.wrapping_shl(y as u32)),
                Pointwise::Shr => two(|x, y| x.wrapping_shr(y as u32)),
                Pointwise::MulHi => two(|x, y| ((x as i128).wrapping_mul(y as i128) >> $int::BITS) as $int),
                other => panic!("`{}` is not a native row on integers", other.row().name),
            }
        }
    )+};
}

int_rows! {
    i8_row i8 u8;
    i16_row i16 u16;
    i32_row i32 u32;
    i64_row i64 u64;
    u8_row u8 u8;
    u16_row u16 u16;
    u32_row u32 u32;
    u64_row u64 u64;
}

pub(super) fn row(op: Pointwise, dtype: DType, args: &[&[u64]]) -> Vec<u64> {
    match dtype {
        DType::I8 => i8_row(op, args),
        DType::I16 => i16_row(op, args),
        DType::I32 => i32_row(op, args),
        DType::I64 => i64_row(op, args),
        DType::U8 => u8_row(op, args),
        DType::U16 => u16_row(op, args),
        DType::U32 => u32_row(op, args),
        DType::U64 => u64_row(op, args),
        other => panic!("{other} is not an integer type"),
    }
}

/// Truth values are the numbers 0 and 1; only `not` differs from the row on integers.
pub(super) fn bool_row(op: Pointwise, args: &[&[u64]]) -> Vec<u64> {
    match op {
        Pointwise::Not => args[0].iter().map(|&x| 1 - x).collect(),
        _ => u8_row(op, args),
    }
}
