//! Reads the text form of a graph, see [`super::print`].  Checks spelling alone: what it accepts may break the rules of
//! [`super::verify()`].  No text makes it panic.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::ir::{
    Dims, Dist, Graph, Index, Movement, Node, NodeData, Op, PadDim, Reduction, SliceDim, Slot, Update, WindowDim,
};
use super::number;
use super::print::direction;
use crate::dtype::{Class, DType};
use crate::op::Pointwise;

/// Where a text is not that of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What should stand there.
    pub wanted: String,
    /// What stands there.
    pub got: String,
}

impl Display for ParseError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: wanted {}, got {}", self.line, self.column, self.wanted, self.got)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for Graph {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Graph, ParseError> {
        let mut p = Parser { text, at: 0 };
        let graph = p.graph()?;
        match p.peek() {
            "" => Ok(graph),
            _ => Err(p.error("the end of the text")),
        }
    }
}

type Parsed<T> = Result<T, ParseError>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// What a word is made of; everything else is a token by itself.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '+')
}

impl<'a> Parser<'a> {
    /// The place of the next token, after blanks and comments.
    fn start(&self) -> usize {
        let mut at = self.at;
        loop {
            let rest = &self.text[at..];
            at += rest.len() - rest.trim_start().len();
            match self.text[at..].strip_prefix('#') {
                Some(comment) => at += 1 + comment.find('\n').unwrap_or(comment.len()),
                None => return at,
            }
        }
    }

    /// The next token; empty at the end.
    fn peek(&self) -> &'a str {
        let rest = &self.text[self.start()..];
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        match rest.chars().next() {
            Some(c) if word == 0 => &rest[..c.len_utf8()],
            _ => &rest[..word],
        }
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at = self.start() + token.len();
        token
    }

    fn error(&self, wanted: impl Into<String>) -> ParseError {
        let before = &self.text[..self.start()];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let got = match self.peek() {
            "" => "the end of the text".to_string(),
            token => format!("`{token}`"),
        };
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            wanted: wanted.into(),
            got,
        }
    }

    /// The next token through `read`, or an error that says what was wanted.
    fn read<T>(&mut self, wanted: &str, read: impl FnOnce(&'a str) -> Option<T>) -> Parsed<T> {
        match read(self.peek()) {
            Some(value) => {
                self.next();
                Ok(value)
            }
            None => Err(self.error(wanted)),
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.take(token) { Ok(()) } else { Err(self.error(format!("`{token}`"))) }
    }

    fn number<T: FromStr>(&mut self, wanted: &str) -> Parsed<T> {
        // Rust's own parsers take a leading plus, which the printed form has not.
        self.read(wanted, |t| if t.starts_with('+') { None } else { t.parse().ok() })
    }

    /// One of a closed list of words.
    fn choice<T: Copy>(&mut self, what: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Parsed<T> {
        let words: Vec<&str> = all.iter().map(|&x| name(x)).collect();
        self.read(&format!("{what} ({})", words.join(", ")), |t| all.iter().copied().find(|&x| name(x) == t))
    }

    fn axis(&mut self) -> Parsed<u8> {
        self.number("an axis")
    }

    /// A name with a prefix and a number: `n3`.
    fn id<T>(&mut self, prefix: char, wanted: &str, make: impl FnOnce(u32) -> T) -> Parsed<T> {
        // The greatest numbers are not ids.
        let number = |t: &str| t.strip_prefix(prefix)?.parse::<u32>().ok().filter(|&n| n < u32::MAX >> 1);
        self.read(wanted, number).map(make)
    }

    fn node(&mut self) -> Parsed<Node> {
        self.id('n', "a node", Node::from_u32)
    }

    fn slot(&mut self) -> Parsed<Slot> {
        self.id('s', "a slot", Slot::from_u32)
    }

    /// `[item, item]`
    fn brackets<T, L: FromIterator<T>>(&mut self, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<L> {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.take("]") {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items.into_iter().collect())
    }

    fn nodes<L: FromIterator<Node>>(&mut self) -> Parsed<L> {
        let mut items = Vec::new();
        while items.is_empty() || self.take(",") {
            items.push(self.node()?);
        }
        Ok(items.into_iter().collect())
    }

    fn colon<T: FromStr>(&mut self, wanted: &str) -> Parsed<T> {
        self.expect(":")?;
        self.number(wanted)
    }

    fn graph(&mut self) -> Parsed<Graph> {
        let mut graph = Graph::new();
        self.expect("graph")?;
        graph.inputs = self.number("a number of inputs")?;
        self.expect("inputs")?;
        self.expect("{")?;
        while self.peek() == format!("s{}", graph.slots.len()) {
            self.next();
            self.expect(":")?;
            let dtype = self.dtype()?;
            graph.slots.push(dtype);
        }
        while !self.take("outputs") {
            let name = format!("n{}", graph.nodes.len());
            if !self.take(&name) {
                return Err(self.error(format!("`{name}` or `outputs`")));
            }
            self.expect(":")?;
            let data = self.data()?;
            graph.nodes.push(data);
        }
        if self.peek() != "}" {
            graph.outputs = self.nodes()?;
        }
        self.expect("}")?;
        Ok(graph)
    }

    fn dtype(&mut self) -> Parsed<DType> {
        self.read("an element type", DType::parse)
    }

    fn data(&mut self) -> Parsed<NodeData> {
        let dtype = self.dtype()?;
        let dims: Dims = self.brackets(|p| p.number("an extent"))?;
        self.expect("=")?;
        let op = self.op(dtype)?;
        // A leaf has no operands, and what follows it is a line of its own.
        let next = self.peek();
        let is_line = self.text[self.start() + next.len()..].trim_start().starts_with(':');
        let args = if next.starts_with('n') && !is_line { self.nodes()? } else { Default::default() };
        Ok(NodeData { op, args, dtype, dims })
    }

    fn op(&mut self, dtype: DType) -> Parsed<Op> {
        let word = self.peek();
        if let Some(op) = Pointwise::parse(word) {
            self.next();
            return Ok(Op::Map(op));
        }
        let Some(&(_, read)) = OPS.iter().find(|(name, _)| *name == word) else {
            return Err(self.error("an operation"));
        };
        self.next();
        read(self, dtype)
    }

    /// A constant: a bit pattern in hexadecimal, or a number of the given type.
    fn literal(&mut self, dtype: DType) -> Parsed<u64> {
        let wanted = format!("a constant of type {dtype}");
        self.read(&wanted, |t| match t.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            Some(_) => None,
            None => match dtype.class() {
                Class::Float => t.parse().ok().map(|x| decimal(dtype, t, x)),
                Class::Bool => t.parse::<bool>().ok().map(u64::from),
                _ => {
                    let x: i128 = t.parse().ok()?;
                    let bits = number::from_int(dtype, x);
                    (number::to_int(dtype, bits) == x).then_some(bits)
                }
            },
        })
    }

    fn slice_dim(&mut self) -> Parsed<SliceDim> {
        Ok(SliceDim { start: self.number("a start")?, len: self.colon("a length")?, step: self.colon("a step")? })
    }

    fn pad_dim(&mut self) -> Parsed<PadDim> {
        let (low, high) = (self.number("a padding")?, self.colon("a padding")?);
        Ok(PadDim { low, high, interior: self.colon("a padding")? })
    }

    fn window_dim(&mut self) -> Parsed<WindowDim> {
        let (axis, count, size) = (self.axis()?, self.colon("a count")?, self.colon("a size")?);
        Ok(WindowDim { axis, count, size, step: self.colon("a step")?, dilation: self.colon("a dilation")? })
    }

    fn reduction(&mut self) -> Parsed<Reduction> {
        self.choice("a reduction", Reduction::ALL, Reduction::name)
    }

    fn index(&mut self) -> Parsed<Index> {
        self.choice("a way to address", Index::ALL, Index::name)
    }

    fn descending(&mut self) -> Parsed<bool> {
        self.choice("a direction", &[false, true], direction)
    }
}

/// A decimal in a float type.  What is narrower than f64 was printed as f32 and is rounded to it first, once.
fn decimal(dtype: DType, text: &str, wide: f64) -> u64 {
    match dtype {
        DType::F64 => wide.to_bits(),
        _ => number::from_f64(dtype, text.parse::<f32>().map_or(wide, f64::from)),
    }
}

type ReadOp = fn(&mut Parser<'_>, DType) -> Parsed<Op>;

/// How each operation that is not pointwise continues after its name.
const OPS: &[(&str, ReadOp)] = &[
    ("input", |p, _| Ok(Op::Input(p.number("an input's number")?))),
    ("constant", |p, dtype| Ok(Op::Constant(p.literal(dtype)?))),
    ("scalar", |p, _| Ok(Op::Scalar(p.slot()?))),
    ("iota", |p, _| Ok(Op::Iota(p.axis()?))),
    ("permute", |p, _| Ok(Op::Move(Movement::Permute(p.brackets(Parser::axis)?)))),
    ("expand", |_, _| Ok(Op::Move(Movement::Expand))),
    ("reshape", |_, _| Ok(Op::Move(Movement::Reshape))),
    ("slice", |p, _| Ok(Op::Move(Movement::Slice(p.brackets(Parser::slice_dim)?)))),
    ("pad", |p, dtype| {
        let fill = p.literal(dtype)?;
        Ok(Op::Move(Movement::Pad { fill, dims: p.brackets(Parser::pad_dim)? }))
    }),
    ("window", |p, _| Ok(Op::Move(Movement::Window(p.brackets(Parser::window_dim)?)))),
    ("reduce", |p, _| Ok(Op::Reduce(p.reduction()?, p.brackets(Parser::axis)?))),
    ("scan", |p, _| Ok(Op::Scan(p.reduction()?, p.axis()?))),
    ("contract", |_, _| Ok(Op::Contract)),
    ("gather", |p, _| Ok(Op::Gather(p.index()?, p.axis()?))),
    ("scatter", |p, _| {
        let update = p.choice("an update", Update::ALL, Update::name)?;
        let index = p.index()?;
        Ok(Op::Scatter(index, p.axis()?, update))
    }),
    ("random", |p, _| {
        let dist = p.choice("a distribution", Dist::ALL, Dist::name)?;
        Ok(Op::Random(dist, p.slot()?, p.slot()?))
    }),
    ("sort", |p, _| {
        let descending = p.descending()?;
        Ok(Op::Sort { descending, axis: p.axis()? })
    }),
    ("argsort", |p, _| {
        let descending = p.descending()?;
        Ok(Op::ArgSort { descending, axis: p.axis()? })
    }),
];

#[cfg(test)]
mod tests;
