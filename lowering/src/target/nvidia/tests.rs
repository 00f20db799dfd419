//! What PTX looks like.

use super::{Compiler, spec};
use crate::DType;
use crate::op::Pointwise;
use crate::tile::{Builder, Program, Value};

fn ptx(program: &Program) -> String {
    let spec = spec("sm_90a", 86).unwrap();
    Compiler::new(&spec).compile(program, &mut |_, _| {}).unwrap().ptx
}

/// Offsets of this program's tile.
fn block(b: &mut Builder, size: u32) -> Value {
    let pid = b.program_id(0);
    let width = b.int(DType::I32, i64::from(size));
    let start = b.mul(pid, width);
    let lanes = b.arange(size);
    b.add(start, lanes)
}

#[test]
fn contiguous_elements_move_sixteen_bytes_at_a_time() {
    for (dtype, size) in [(DType::F32, 128), (DType::Bf16, 256), (DType::U8, 512), (DType::F64, 64)] {
        let mut b = Builder::new("copy");
        let (x, y) = (b.buffer(dtype, false), b.buffer(dtype, true));
        let offsets = block(&mut b, size);
        let xs = b.load(x, offsets);
        b.store(y, offsets, xs, None);
        let text = ptx(&b.finish());
        let has = |what: &str| {
            text.lines().any(|l| {
                l.contains(what)
                    && (l.contains(".v4.b32")
                        || l.contains(".v2.b64")
                        || l.contains(".v4.b16")
                        || l.contains(".v4.f32"))
            })
        };
        assert!(has("ld.global.nc") && has("st.global"), "{dtype}: {text}");
    }
}

#[test]
fn sums_are_shuffled() {
    let mut b = Builder::new("sum");
    let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
    let offsets = block(&mut b, 64);
    let xs = b.load(x, offsets);
    let sum = b.reduce(&[xs], 0, |b, l, r| [b.map(Pointwise::Add, &[l[0], r[0]])].into_iter().collect());
    let pid = b.program_id(0);
    b.store(y, pid, sum[0], None);
    let text = ptx(&b.finish());
    assert!(text.contains("shfl.sync"), "{text}");
}
