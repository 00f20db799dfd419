//! The text of a tile program.  Values are numbered in the order in which the text defines them, so that programs that
//! differ only in the order of their arenas print alike.

use std::fmt::{self, Write};

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashSet;

use super::ir::{Atomic, Block, Cache, Inst, InstData, Op, ParamKind, Precision, Program, Value};
use crate::dtype::{Class, DType};
use crate::op::round;

/// The printed names of a program's values.
pub struct Names {
    /// Number in the text, plus one; 0 where the text does not define the value.
    numbers: SecondaryMap<Value, u32>,
}

impl Names {
    /// Numbers the values of a program.
    pub fn new(program: &Program) -> Names {
        let mut names = Names { numbers: SecondaryMap::new() };
        let mut next = 1;
        names.block(program, program.body, &mut next, &mut FxHashSet::default());
        names
    }

    fn block(&mut self, program: &Program, block: Block, next: &mut u32, seen: &mut FxHashSet<Block>) {
        let Some(data) = program.blocks.get(block).filter(|_| seen.insert(block)) else { return };
        self.define(&data.params, next);
        for inst in data.insts.iter().filter_map(|&i| program.insts.get(i)) {
            self.define(&inst.results, next);
            for inner in inst.op.blocks() {
                self.block(program, inner, next, seen);
            }
        }
    }

    fn define(&mut self, values: &[Value], next: &mut u32) {
        for &value in values {
            if self.numbers[value] == 0 {
                self.numbers[value] = *next;
                *next += 1;
            }
        }
    }

    fn list(&self, values: &[Value]) -> String {
        values.iter().map(|&v| self.name(v)).collect::<Vec<_>>().join(", ")
    }

    /// The name of one value; `%?` where no text defines it.
    pub fn name(&self, value: Value) -> String {
        match self.numbers[value] {
            0 => "%?".into(),
            n => format!("%{}", n - 1),
        }
    }

    fn typed(&self, program: &Program, values: &[Value]) -> String {
        let one = |&v: &Value| match program.values.get(v) {
            Some(ty) => format!("{}: {ty}", self.name(v)),
            None => format!("{}: ?", self.name(v)),
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The text of one instruction, without the blocks that it owns.
    pub fn line(&self, program: &Program, inst: Inst) -> String {
        match program.insts.get(inst) {
            Some(inst) => self.head(program, inst),
            None => "?".into(),
        }
    }

    fn head(&self, program: &Program, inst: &InstData) -> String {
        let mut text = String::new();
        if !inst.results.is_empty() {
            text += &self.typed(program, &inst.results);
            text += " = ";
        }
        text += inst.op.name();
        let dtype = inst.results.first().and_then(|&r| program.values.get(r)).map(|ty| ty.dtype);
        text += &attributes(&inst.op, dtype);
        let args = self.list(&inst.args);
        if !args.is_empty() {
            text.push(' ');
            text += &args;
        }
        text
    }
}

/// What stands between the name of an operation and its operands.
fn attributes(op: &Op, dtype: Option<DType>) -> String {
    match op {
        Op::Constant(bits) => format!(" {}", dtype.map_or_else(|| format!("{bits:#x}"), |d| constant(d, *bits))),
        Op::Scalar(param) | Op::Load(param) | Op::Store(param, Cache::Keep) => format!(" {param}"),
        Op::Store(param, Cache::Stream) => format!(" streaming {param}"),
        Op::ProgramId(axis) | Op::NumPrograms(axis) | Op::ExpandDims(axis) | Op::Gather(axis) => format!(" {axis}"),
        Op::Reduce { axis, .. } => format!(" {axis}"),
        Op::Scan { axis, reverse, .. } => format!(" {axis}{}", if *reverse { " reverse" } else { "" }),
        Op::Trans(perm) => format!(" {perm:?}"),
        Op::Atomic(param, atomic) => format!(" {} {param}", atomic.name()),
        Op::Check(code) => format!(" {code}"),
        Op::Dot(precision) => format!(" {}", precision.name()),
        Op::For { stages, .. } if *stages != 1 => format!(" stages {stages}"),
        _ => String::new(),
    }
}

/// The number a bit pattern stands for, or the pattern itself where the number would lose bits.
pub fn constant(dtype: DType, bits: u64) -> String {
    let hex = format!("{bits:#x}");
    if bits > dtype.mask() {
        return hex;
    }
    let finite = |text: String, is_nan: bool| if is_nan { hex.clone() } else { text };
    match (dtype, dtype.class()) {
        (DType::Bool, _) => {
            if bits == 1 {
                "true".into()
            } else if bits == 0 {
                "false".into()
            } else {
                hex
            }
        }
        (DType::F64, _) => {
            let x = f64::from_bits(bits);
            finite(format!("{x:?}"), x.is_nan())
        }
        (_, Class::Float) => {
            let x = round::widen(dtype, bits);
            finite(format!("{x:?}"), x.is_nan())
        }
        (_, Class::Signed) => dtype.sign_extend(bits).to_string(),
        _ => bits.to_string(),
    }
}

impl Op {
    /// The word that the text begins with.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Constant(_) => "constant",
            Op::Scalar(_) => "scalar",
            Op::ProgramId(_) => "program_id",
            Op::NumPrograms(_) => "num_programs",
            Op::Arange => "arange",
            Op::Broadcast => "broadcast",
            Op::ExpandDims(_) => "expand_dims",
            Op::Reshape => "reshape",
            Op::Trans(_) => "trans",
            Op::Join => "join",
            Op::Split => "split",
            Op::Map(row) => row.row().name,
            Op::Load(_) => "load",
            Op::Store(..) => "store",
            Op::Atomic(..) => "atomic",
            Op::Check(_) => "check",
            Op::Reduce { .. } => "reduce",
            Op::Scan { .. } => "scan",
            Op::Dot(_) => "dot",
            Op::Exp2Approx => "exp2_approx",
            Op::Gather(_) => "gather",
            Op::For { .. } => "for",
            Op::If { .. } => "if",
        }
    }
}

impl Atomic {
    /// Every atomic.
    pub const ALL: &[Atomic] = &[Atomic::Add, Atomic::Max, Atomic::Min, Atomic::Or, Atomic::Exchange];

    /// The name used in printed programs.
    pub fn name(self) -> &'static str {
        match self {
            Atomic::Add => "add",
            Atomic::Max => "max",
            Atomic::Min => "min",
            Atomic::Or => "or",
            Atomic::Exchange => "exchange",
        }
    }
}

impl Precision {
    /// Every precision.
    pub const ALL: &[Precision] = &[Precision::Ieee, Precision::Tf32, Precision::Tf32x3];

    /// The name used in printed programs.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Ieee => "ieee",
            Precision::Tf32 => "tf32",
            Precision::Tf32x3 => "tf32x3",
        }
    }
}

/// One program on its way into a formatter.
struct Printer<'p> {
    program: &'p Program,
    names: Names,
    /// A damaged program may own a block twice; it is printed once.
    seen: FxHashSet<Block>,
    text: String,
}

impl Printer<'_> {
    fn block(&mut self, block: Block, depth: usize) -> fmt::Result {
        let Some(data) = self.program.blocks.get(block).filter(|_| self.seen.insert(block)) else { return Ok(()) };
        for &inst in &data.insts {
            self.inst(inst, depth)?;
        }
        if !data.yields.is_empty() {
            writeln!(self.text, "{:1$}yield {2}", "", 2 * depth, self.names.list(&data.yields))?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: Inst, depth: usize) -> fmt::Result {
        let head = self.names.line(self.program, inst);
        write!(self.text, "{:1$}{head}", "", 2 * depth)?;
        let blocks = self.program.insts.get(inst).map(|i| i.op.blocks()).unwrap_or_default();
        for (i, &block) in blocks.iter().enumerate() {
            if i > 0 {
                write!(self.text, "{:1$}}} else", "", 2 * depth)?;
            }
            let params = self.program.blocks.get(block).map_or(&[][..], |b| &b.params);
            if !params.is_empty() {
                write!(self.text, " ({})", self.names.typed(self.program, params))?;
            }
            writeln!(self.text, " {{")?;
            self.block(block, depth + 1)?;
        }
        if !blocks.is_empty() {
            write!(self.text, "{:1$}}}", "", 2 * depth)?;
        }
        writeln!(self.text)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = self.params.iter().map(|(param, data)| match data.kind {
            ParamKind::Buffer { written: false } => format!("{param}: {} buffer", data.dtype),
            ParamKind::Buffer { written: true } => format!("{param}: {} buffer out", data.dtype),
            ParamKind::Scalar { divisor: 1 } => format!("{param}: {} scalar", data.dtype),
            ParamKind::Scalar { divisor } => format!("{param}: {} scalar /{divisor}", data.dtype),
        });
        let params = params.collect::<Vec<_>>().join(", ");
        let mut printer =
            Printer { program: self, names: Names::new(self), seen: FxHashSet::default(), text: String::new() };
        printer.block(self.body, 1)?;
        let absent = if self.absent == 0 { String::new() } else { format!(" less {}", self.absent) };
        let warps = if self.warps == 1 { String::new() } else { format!(" warps {}{absent}", self.warps) };
        writeln!(f, "program {}({params}){warps} {{\n{}}}", self.name, printer.text)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use smallvec::smallvec;

    use crate::DType::*;
    use crate::op::Pointwise;
    use crate::tile::{Builder, Precision};

    #[test]
    fn a_masked_addition() {
        let mut b = Builder::new("add");
        let x = b.buffer(F32, false);
        let y = b.buffer(F32, true);
        let n = b.scalar(I64, 16);
        let lane = b.arange(64);
        let lane = b.cast(lane, I64);
        let mask = b.lt(lane, n);
        let zero = b.constant(F32, 0);
        let v = b.load_masked(x, lane, mask, zero);
        let half = b.constant(F32, 0.5f32.to_bits().into());
        let v = b.add(v, half);
        b.store(y, lane, v, Some(mask));
        expect![[r#"
            program add(p0: f32 buffer, p1: f32 buffer out, p2: i64 scalar /16) {
              %0: i64 = scalar p2
              %1: 64xi32 = arange
              %2: 64xi64 = cast %1
              %3: 64xi64 = broadcast %0
              %4: 64xbool = lt %2, %3
              %5: f32 = constant 0.0
              %6: 64xf32 = broadcast %5
              %7: 64xf32 = load p0 %2, %4, %6
              %8: f32 = constant 0.5
              %9: 64xf32 = broadcast %8
              %10: 64xf32 = add %7, %9
              store p1 %2, %10, %4
            }
        "#]]
        .assert_eq(&b.finish().to_string());
    }

    #[test]
    fn blocks_are_indented_and_numbered_where_they_stand() {
        let mut b = Builder::new("nest");
        let y = b.buffer(F32, true);
        let (low, high) = (b.int(I32, 0), b.int(I32, 4));
        let step = b.int(I32, 1);
        let zero = b.constant(F32, 0x8000_0000);
        let sums = b.for_loop((low, high, step), &[zero], |b, i, sums| {
            let x = b.arange(8);
            let x = b.cast(x, F32);
            let m = b.reduce(&[x], 0, |b, l, r| smallvec![b.map(Pointwise::Max, &[l[0], r[0]])]);
            let one = b.int(I32, 1);
            let c = b.lt(i, one);
            let picked = b.if_else(c, |_| smallvec![m[0]], |b| smallvec![b.add(m[0], sums[0])]);
            smallvec![picked[0]]
        });
        let a = b.constant(F16, 0x7e01);
        let a = b.broadcast(a, &[16, 16]);
        let acc = b.broadcast(sums[0], &[16, 16]);
        let d = b.dot(a, a, acc, Precision::Tf32x3);
        let d = b.trans(d, &[1, 0]);
        let d = b.scan(&[d], 1, true, |b, l, r| smallvec![b.add(l[0], r[0])]);
        let offsets = b.broadcast(low, &[16, 16]);
        b.store(y, offsets, d[0], None);
        expect![[r#"
            program nest(p0: f32 buffer out) {
              %0: i32 = constant 0
              %1: i32 = constant 4
              %2: i32 = constant 1
              %3: f32 = constant -0.0
              %4: f32 = for %0, %1, %2, %3 (%5: i32, %6: f32) {
                %7: 8xi32 = arange
                %8: 8xf32 = cast %7
                %9: f32 = reduce 0 %8 (%10: f32, %11: f32) {
                  %12: f32 = max %10, %11
                  yield %12
                }
                %13: i32 = constant 1
                %14: bool = lt %5, %13
                %15: f32 = if %14 {
                  yield %9
                } else {
                  %16: f32 = add %9, %6
                  yield %16
                }
                yield %15
              }
              %17: f16 = constant 0x7e01
              %18: 16x16xf16 = broadcast %17
              %19: 16x16xf32 = broadcast %4
              %20: 16x16xf32 = dot tf32x3 %18, %18, %19
              %21: 16x16xf32 = trans [1, 0] %20
              %22: 16x16xf32 = scan 1 reverse %21 (%23: f32, %24: f32) {
                %25: f32 = add %23, %24
                yield %25
              }
              %26: 16x16xi32 = broadcast %0
              store p0 %26, %22
            }
        "#]]
        .assert_eq(&b.finish().to_string());
    }
}
