//! Reads the text that [`super::print`] writes.  Checks the grammar and that names are defined; whether the program means
//! anything is the verifier's question.
//!
//! ```text
//! program     = "program" name "(" {param ","} ")" ["warps" number ["less" number]] block
//! param       = "p0" ":" dtype ("buffer" ["out"] | "scalar" ["/" divisor])
//! block       = "{" {instruction} ["yield" operands] "}"
//! instruction = [{"%name" ":" type ","} "="] operation [attributes] [operands] {["else"] ["(" parameters ")"] block}
//! type        = {extent "x"} dtype
//! ```
//!
//! Operands stand on the line of their operation; otherwise line breaks are spaces, and `//` begins a comment.

mod lex;
mod number;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thiserror::Error;

use self::lex::{Spanned, Token, tokens};
pub use self::number::bits;
use super::ir::{
    Atomic, Block, BlockData, Cache, InstData, Op, Param, ParamData, ParamKind, Precision, Program, Shape, Type, Value,
};
use crate::dtype::DType;
use crate::op::Pointwise;

/// Most warps of one program.
const MAX_WARPS: u32 = 32;

/// Deepest nesting of blocks.
const MAX_DEPTH: usize = 64;

/// Text that is not a tile program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: wanted {want}, got {got}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What the grammar wants here.
    pub want: String,
    /// What stands here.
    pub got: String,
}

type Parsed<T> = Result<T, ParseError>;

/// Reads one program.
pub fn parse(text: &str) -> Result<Program, ParseError> {
    let mut parser = Parser { tokens: tokens(text), at: 0, program: Program::new(""), names: FxHashMap::default() };
    parser.program()?;
    Ok(parser.program)
}

struct Parser<'t> {
    tokens: Vec<Spanned<'t>>,
    at: usize,
    program: Program,
    names: FxHashMap<&'t str, Value>,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.tokens[self.at].token
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Whether the next token stands on the line of the last one.
    fn same_line(&self) -> bool {
        self.at > 0 && self.tokens[self.at - 1].line == self.tokens[self.at].line
    }

    fn fail<T>(&self, at: usize, want: impl Into<String>) -> Parsed<T> {
        let Spanned { token, line, column } = self.tokens[at];
        Err(ParseError { line, column, want: want.into(), got: token.shown() })
    }

    /// Takes a token that `read` understands.
    fn take<T>(&mut self, want: &str, read: impl FnOnce(Token<'t>) -> Option<T>) -> Parsed<T> {
        match read(self.peek()) {
            Some(got) => {
                self.next();
                Ok(got)
            }
            None => self.fail(self.at, want),
        }
    }

    fn word<T>(&mut self, want: &str, read: impl FnOnce(&'t str) -> Option<T>) -> Parsed<T> {
        self.take(want, |token| if let Token::Word(word) = token { read(word) } else { None })
    }

    fn keyword(&mut self, word: &str) -> Parsed<()> {
        self.word(&format!("`{word}`"), |w| (w == word).then_some(()))
    }

    fn mark(&mut self, mark: char) -> Parsed<()> {
        self.take(&format!("`{mark}`"), |token| (token == Token::Mark(mark)).then_some(()))
    }

    fn eat(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    fn number<T: std::str::FromStr>(&mut self, want: &str) -> Parsed<T> {
        self.word(want, |w| w.parse().ok())
    }

    /// `item, item, …` up to a closing mark, which is taken.
    fn list(&mut self, close: char, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        if self.eat(Token::Mark(close)) {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.eat(Token::Mark(',')) {
                return self.mark(close);
            }
        }
    }

    fn program(&mut self) -> Parsed<()> {
        self.keyword("program")?;
        self.program.name = self.word("a name", |w| Some(w.to_owned()))?;
        self.mark('(')?;
        self.list(')', Self::declaration)?;
        if self.eat(Token::Word("warps")) {
            self.program.warps = self.word("a power of two up to 32", |w| {
                w.parse().ok().filter(|&n: &u32| n.is_power_of_two() && n <= MAX_WARPS)
            })?;
            let warps = self.program.warps;
            if self.eat(Token::Word("less")) {
                let few = |w: &str| w.parse().ok().filter(|&n: &u32| n > 0 && n * 2 < warps);
                self.program.absent = self.word("a number below half of the warps", few)?;
            }
        }
        let body = self.program.body;
        self.mark('{')?;
        self.block(body, 1)?;
        if self.peek() != Token::End { self.fail(self.at, "the end") } else { Ok(()) }
    }

    fn declaration(&mut self) -> Parsed<()> {
        let wanted = Param::from_u32(self.program.params.len() as u32).to_string();
        self.keyword(&wanted)?;
        self.mark(':')?;
        let dtype = self.word("an element type", DType::parse)?;
        let buffer = self.word("`buffer` or `scalar`", |w| match w {
            "buffer" => Some(true),
            "scalar" => Some(false),
            _ => None,
        })?;
        let kind = if buffer {
            ParamKind::Buffer { written: self.eat(Token::Word("out")) }
        } else {
            let known = self.eat(Token::Mark('/'));
            ParamKind::Scalar { divisor: if known { self.number("a divisor")? } else { 1 } }
        };
        self.program.params.push(ParamData { dtype, kind });
        Ok(())
    }

    /// Instructions and yields up to the closing brace.
    fn block(&mut self, block: Block, depth: usize) -> Parsed<()> {
        if depth > MAX_DEPTH {
            return self.fail(self.at, format!("at most {MAX_DEPTH} nested blocks"));
        }
        while !self.eat(Token::Mark('}')) {
            if self.eat(Token::Word("yield")) {
                let yields = self.operands()?;
                self.program.blocks[block].yields = yields.to_vec();
                self.mark('}')?;
                break;
            }
            let inst = self.inst(depth)?;
            let inst = self.program.insts.push(inst);
            self.program.blocks[block].insts.push(inst);
        }
        Ok(())
    }

    /// `%0: type`, not yet visible.
    fn definition(&mut self) -> Parsed<(usize, &'t str, Type)> {
        let at = self.at;
        let name = self.take("a value", |t| if let Token::Value(name) = t { Some(name) } else { None })?;
        self.mark(':')?;
        Ok((at, name, self.word("a type", read_type)?))
    }

    fn define(&mut self, (at, name, ty): (usize, &'t str, Type)) -> Parsed<Value> {
        let value = self.program.values.push(ty);
        match self.names.insert(name, value) {
            None => Ok(value),
            Some(_) => self.fail(at, "a name that is not taken"),
        }
    }

    /// `%1, %2, …` on the rest of the line.
    fn operands(&mut self) -> Parsed<SmallVec<[Value; 4]>> {
        let mut out = SmallVec::new();
        while self.same_line() && matches!(self.peek(), Token::Value(_)) || !out.is_empty() {
            let names = &self.names;
            let read = |t| if let Token::Value(name) = t { names.get(name).copied() } else { None };
            let Some(value) = read(self.peek()) else { return self.fail(self.at, "a value that is defined above") };
            self.next();
            out.push(value);
            if !self.eat(Token::Mark(',')) {
                break;
            }
        }
        Ok(out)
    }

    fn inst(&mut self, depth: usize) -> Parsed<InstData> {
        let mut defined = SmallVec::<[_; 2]>::new();
        if matches!(self.peek(), Token::Value(_)) {
            loop {
                defined.push(self.definition()?);
                if !self.eat(Token::Mark(',')) {
                    break;
                }
            }
            self.mark('=')?;
        }
        let at = self.at;
        let name = self.word("an instruction", Some)?;
        let dtype = defined.first().map(|(_, _, ty)| ty.dtype);
        let (mut op, own) = self.op(at, name, dtype)?;
        let args = self.operands()?;
        let results = defined.into_iter().map(|d| self.define(d)).collect::<Parsed<_>>()?;
        let mut blocks = SmallVec::<[Block; 2]>::new();
        for i in 0..own {
            if i > 0 {
                self.keyword("else")?;
            }
            blocks.push(self.inner(depth)?);
        }
        match &mut op {
            Op::Reduce { combine: block, .. } | Op::Scan { combine: block, .. } | Op::For { body: block, .. } => {
                *block = blocks[0];
            }
            Op::If { then, other } => (*then, *other) = (blocks[0], blocks[1]),
            _ => {}
        }
        Ok(InstData { op, args, results, place: None })
    }

    /// `(parameters) { instructions }`
    fn inner(&mut self, depth: usize) -> Parsed<Block> {
        let block = self.program.blocks.push(BlockData::default());
        if self.eat(Token::Mark('(')) {
            self.list(')', |p| {
                let param = p.definition()?;
                let param = p.define(param)?;
                p.program.blocks[block].params.push(param);
                Ok(())
            })?;
        }
        self.mark('{')?;
        self.block(block, depth + 1)?;
        Ok(block)
    }

    fn param(&mut self) -> Parsed<Param> {
        self.word("a parameter", |w| {
            Some(Param::from_u32(w.strip_prefix('p')?.parse().ok().filter(|&n| n < u32::MAX)?))
        })
    }

    fn axis(&mut self) -> Parsed<u8> {
        self.number("an axis")
    }

    /// The attributes of an operation, and how many blocks follow.
    fn op(&mut self, at: usize, name: &str, dtype: Option<DType>) -> Parsed<(Op, usize)> {
        // Stands in until the blocks have been read.
        let later = self.program.body;
        let op = match name {
            "constant" => {
                let Some(dtype) = dtype else { return self.fail(at, "a result before `=`") };
                Op::Constant(self.word(&format!("a number of type {dtype}"), |w| number::bits(dtype, w))?)
            }
            "scalar" => Op::Scalar(self.param()?),
            "program_id" => Op::ProgramId(self.axis()?),
            "num_programs" => Op::NumPrograms(self.axis()?),
            "arange" => Op::Arange,
            "broadcast" => Op::Broadcast,
            "expand_dims" => Op::ExpandDims(self.axis()?),
            "reshape" => Op::Reshape,
            "trans" => {
                let mut perm = SmallVec::new();
                self.mark('[')?;
                self.list(']', |p| {
                    perm.push(p.axis()?);
                    Ok(())
                })?;
                Op::Trans(perm)
            }
            "join" => Op::Join,
            "split" => Op::Split,
            "load" => Op::Load(self.param()?),
            "store" => {
                let cache = if self.eat(Token::Word("streaming")) { Cache::Stream } else { Cache::Keep };
                Op::Store(self.param()?, cache)
            }
            "atomic" => {
                let atomic = self.word("an atomic", |w| Atomic::ALL.iter().copied().find(|a| a.name() == w))?;
                Op::Atomic(self.param()?, atomic)
            }
            "check" => Op::Check(self.number("a code")?),
            "reduce" => return Ok((Op::Reduce { axis: self.axis()?, combine: later }, 1)),
            "scan" => {
                let axis = self.axis()?;
                return Ok((Op::Scan { axis, reverse: self.eat(Token::Word("reverse")), combine: later }, 1));
            }
            "dot" => Op::Dot(self.word("a precision", |w| Precision::ALL.iter().copied().find(|p| p.name() == w))?),
            "exp2_approx" => Op::Exp2Approx,
            "gather" => Op::Gather(self.axis()?),
            "for" => {
                let stages = if self.eat(Token::Word("stages")) { self.number("a number of stages")? } else { 1 };
                return Ok((Op::For { body: later, stages }, 1));
            }
            "if" => return Ok((Op::If { then: later, other: later }, 2)),
            row => match Pointwise::parse(row) {
                Some(row) => Op::Map(row),
                None => return self.fail(at, "an instruction"),
            },
        };
        Ok((op, 0))
    }
}

/// `4x8xf32`
fn read_type(word: &str) -> Option<Type> {
    let mut shape = Shape::new();
    let mut rest = word;
    while let Some((extent, tail)) = rest.split_once('x') {
        shape.push(extent.parse().ok()?);
        rest = tail;
    }
    Some(Type { dtype: DType::parse(rest)?, shape })
}

impl std::str::FromStr for Program {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Program, ParseError> {
        parse(text)
    }
}

#[cfg(test)]
mod tests;
