//! What code objects hold, by structure.

use super::{Compiler, Kernel, Linker, NAMES, disassemble, spec};
use crate::DType;
use crate::op::Pointwise;
use crate::spec::Spec;
use crate::tile::{Builder, Program, Value};

/// A kernel as it came out of the linker.
struct Compiled {
    kernel: Kernel,
    code: Vec<String>,
    programs: u32,
    threads: u32,
}

fn compile(program: &Program, spec: &Spec) -> Compiled {
    let object = Compiler::new(spec, Linker::new(None)).compile(program, &mut |_, _| {}).unwrap();
    let kernel = object.kernel().unwrap();
    let code = disassemble(spec, &kernel).unwrap();
    Compiled { kernel, code, programs: object.programs, threads: object.threads }
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
fn look() {
    for name in NAMES {
        let spec = spec(name).unwrap();
        let mut b = Builder::new("sum");
        let (x, y) = (b.buffer(DType::F32, false), b.buffer(DType::F32, true));
        let offsets = block(&mut b, 512);
        let xs = b.load(x, offsets);
        let sum = b.reduce(&[xs], 0, |b, l, r| [b.map(Pointwise::Add, &[l[0], r[0]])].into_iter().collect());
        let pid = b.program_id(0);
        b.store(y, pid, sum[0], None);
        let c = compile(&b.finish(), &spec);
        println!("{name}: {:?}\n{}", Kernel { code: vec![], ..c.kernel }, c.code.join("\n"));
    }
}
