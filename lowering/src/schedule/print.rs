//! The text form of plans, for dumps and for people.  Knows nothing that the plan does not say.

use std::fmt::{self, Display, Formatter};

use super::plan::{Arg, Buf, Epilogue, Layout, Matrix, Plan, Step};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (buf, data) in &self.buffers {
            write!(f, "{buf}: {} x {}", data.dtype, data.len)?;
            match (data.input, data.takes) {
                (Some(number), _) => write!(f, " = input {number}")?,
                (None, Some(taken)) => write!(f, " takes {taken}")?,
                (None, None) => {}
            }
            writeln!(f)?;
        }
        for step in &self.steps {
            match step {
                Step::Launch { program, grid: [x, y, z], args, rows, .. } => {
                    write!(f, "launch {} {x}x{y}x{z} (", self.programs[*program].name)?;
                    for (i, arg) in args.iter().enumerate() {
                        let comma = if i > 0 { ", " } else { "" };
                        match arg {
                            Arg::Buffer(buf) => write!(f, "{comma}{buf}")?,
                            Arg::Slot(slot) => write!(f, "{comma}{slot}")?,
                            Arg::Literal(bits) => write!(f, "{comma}{}", *bits as i64)?,
                        }
                    }
                    writeln!(f, ")  # {}", rows.join(" "))?;
                }
                Step::Gemm(g) => {
                    let from = if g.from == g.dtype { String::new() } else { format!("of {} ", g.from) };
                    write!(f, "gemm {} {from}{}x{}x{} batch {:?}: ", g.dtype, g.m, g.n, g.k, g.batch.as_slice())?;
                    let tail = if g.tail.is_some() { ", with the next step as its tail" } else { "" };
                    write!(f, "{} = {} · {}", Placed(&g.c), Placed(&g.a), Placed(&g.b))?;
                    if let Some(epilogue) = &g.epilogue {
                        write!(f, "{epilogue}")?;
                    }
                    writeln!(f, "{tail}")?;
                }
                Step::Sort(s) => {
                    let what = if s.indices.is_some() { "argsort" } else { "sort" };
                    let order = if s.descending { "descending" } else { "ascending" };
                    writeln!(
                        f,
                        "{what} {order} axis {} of {:?}: {} = {}",
                        s.axis,
                        s.dims.as_slice(),
                        s.output,
                        s.input
                    )?;
                }
                Step::Free(buf) => writeln!(f, "free {buf}")?,
            }
        }
        for (i, output) in self.outputs.iter().enumerate() {
            writeln!(f, "output {i}: {}", View(output.buffer, &output.layout))?;
        }
        Ok(())
    }
}

impl Display for Epilogue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some((buf, first)) = self.bias {
            write!(f, " + {buf}[{first}; 0, 1]")?;
        }
        if self.relu { write!(f, ", what is negative 0") } else { Ok(()) }
    }
}

struct View<'a>(Buf, &'a Layout);

impl Display for View<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} strides {:?}", self.0, self.1.offset, self.1.strides.as_slice())
    }
}

struct Placed<'a>(&'a Matrix);

impl Display for Placed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Matrix { buffer, offset, row_stride, col_stride, batch_strides } = self.0;
        write!(f, "{buffer}[{offset}; {row_stride}, {col_stride}; {:?}]", batch_strides.as_slice())
    }
}
