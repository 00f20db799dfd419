//! The buffers and scalars of a launch: every access is checked, and who touched what is remembered where races are
//! looked for.

use rustc_hash::FxHashMap;

use super::machine::Tile;
use super::{Arg, Cause};
use crate::dtype::DType;
use crate::op::{Pointwise, scalar};
use crate::tile::{Atomic, Param, Program};

/// Arguments of a launch and what has been done to them.
pub(super) struct Memory<'l, 'b> {
    program: &'l Program,
    args: &'l mut [Arg<'b>],
    /// Per buffer and element, empty where nobody looks for races.
    touches: Vec<Vec<Touch>>,
    races: bool,
    /// The running program, counted from 1 along the grid.
    me: u64,
    loaded: u64,
    stored: u64,
}

/// Who touched an element.
#[derive(Clone, Copy, Default)]
struct Touch {
    stores: Visitors,
    loads: Visitors,
    atomics: Visitors,
}

/// The last program and the last other one, counted from 1; 0 for none.  Two suffice to name one that is not a third.
#[derive(Clone, Copy, Default)]
struct Visitors {
    last: u64,
    other: u64,
}

#[derive(Clone, Copy)]
enum Access {
    Load,
    Store,
    Atomic,
}

impl<'l, 'b> Memory<'l, 'b> {
    pub(super) fn new(program: &'l Program, args: &'l mut [Arg<'b>], races: bool) -> Self {
        let elements = |(arg, dtype): (&Arg<'_>, DType)| match arg {
            Arg::Buffer(bytes) if races => vec![Touch::default(); bytes.len() / dtype.bytes()],
            _ => Vec::new(),
        };
        let touches = args.iter().zip(program.params.values().map(|p| p.dtype)).map(elements).collect();
        Memory { program, args, touches, races, me: 0, loaded: 0, stored: 0 }
    }

    /// Begins the program of that number.
    pub(super) fn enter(&mut self, program: u64) {
        self.me = program + 1;
    }

    /// Bytes loaded and stored.
    pub(super) fn traffic(&self) -> (u64, u64) {
        (self.loaded, self.stored)
    }

    pub(super) fn scalar(&self, param: Param) -> u64 {
        match &self.args[param.as_u32() as usize] {
            Arg::Scalar(bits) => bits & self.program.params[param].dtype.mask(),
            Arg::Buffer(_) => unreachable!("arguments were compared with the parameters"),
        }
    }

    fn bytes(&mut self, param: Param) -> &mut [u8] {
        match &mut self.args[param.as_u32() as usize] {
            Arg::Buffer(bytes) => bytes,
            Arg::Scalar(_) => unreachable!("arguments were compared with the parameters"),
        }
    }

    /// The index of an element that lies inside and may be touched.
    fn element(&mut self, param: Param, offset: i64, access: Access) -> Result<usize, Cause> {
        let size = self.program.params[param].dtype.bytes();
        let length = self.bytes(param).len() / size;
        let at =
            usize::try_from(offset).ok().filter(|&at| at < length).ok_or(Cause::Bounds { param, offset, length })?;
        if self.races {
            let me = self.me;
            let touch = &mut self.touches[param.as_u32() as usize][at];
            touch.race(me, access).map_or(Ok(()), |other| Err(Cause::Race { param, offset: at, other: other - 1 }))?;
        }
        Ok(at)
    }

    fn read(&mut self, param: Param, at: usize) -> u64 {
        let dtype = self.program.params[param].dtype;
        let size = dtype.bytes();
        let mut word = [0; 8];
        word[..size].copy_from_slice(&self.bytes(param)[at * size..][..size]);
        self.loaded += size as u64;
        let bits = u64::from_le_bytes(word);
        if dtype == DType::Bool { u64::from(bits != 0) } else { bits }
    }

    fn write(&mut self, param: Param, at: usize, bits: u64) {
        let size = self.program.params[param].dtype.bytes();
        self.bytes(param)[at * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
        self.stored += size as u64;
    }

    /// Operands: offsets [, mask, other].
    pub(super) fn load(&mut self, param: Param, offsets: DType, args: &[Tile]) -> Result<Vec<u64>, Cause> {
        let mut out = Vec::with_capacity(args[0].len());
        for (i, &offset) in args[0].iter().enumerate() {
            out.push(match args.get(1) {
                Some(mask) if mask[i] == 0 => args[2][i],
                _ => {
                    let at = self.element(param, offsets.sign_extend(offset), Access::Load)?;
                    self.read(param, at)
                }
            });
        }
        Ok(out)
    }

    /// Operands: offsets, value [, mask].
    pub(super) fn store(&mut self, param: Param, offsets: DType, args: &[Tile]) -> Result<(), Cause> {
        let mut lanes = FxHashMap::default();
        for (i, (&offset, &value)) in args[0].iter().zip(args[1].iter()).enumerate() {
            if args.get(2).is_some_and(|mask| mask[i] == 0) {
                continue;
            }
            let at = self.element(param, offsets.sign_extend(offset), Access::Store)?;
            if self.races && lanes.insert(at, value).is_some_and(|old| old != value) {
                return Err(Cause::Lanes { param, offset: at });
            }
            self.write(param, at, value);
        }
        Ok(())
    }

    /// Operands: offsets, value [, mask].  Lanes take turns in row-major order; a masked lane gives 0.
    pub(super) fn atomic(
        &mut self,
        param: Param,
        atomic: Atomic,
        offsets: DType,
        args: &[Tile],
    ) -> Result<Vec<u64>, Cause> {
        let dtype = self.program.params[param].dtype;
        let row = match atomic {
            Atomic::Add => Some(Pointwise::Add),
            Atomic::Max => Some(Pointwise::Max),
            Atomic::Min => Some(Pointwise::Min),
            Atomic::Or => Some(Pointwise::Or),
            Atomic::Exchange => None,
        };
        let mut out = Vec::with_capacity(args[0].len());
        for (i, (&offset, &value)) in args[0].iter().zip(args[1].iter()).enumerate() {
            if args.get(2).is_some_and(|mask| mask[i] == 0) {
                out.push(0);
                continue;
            }
            let at = self.element(param, offsets.sign_extend(offset), Access::Atomic)?;
            let old = self.read(param, at);
            let new = row.map_or(value, |row| scalar::eval(row, dtype, dtype, &[old, value]));
            self.write(param, at, new);
            out.push(old);
        }
        Ok(out)
    }
}

impl Visitors {
    fn add(&mut self, me: u64) {
        if self.last != me {
            *self = Visitors { last: me, other: self.last };
        }
    }

    /// A program other than `me`.
    fn foreign(self, me: u64) -> Option<u64> {
        [self.last, self.other].into_iter().find(|&p| p != 0 && p != me)
    }
}

impl Touch {
    /// Notes an access by program `me`; gives another program that it races with.
    fn race(&mut self, me: u64, access: Access) -> Option<u64> {
        let stored = self.stores.foreign(me);
        let (visitors, found) = match access {
            Access::Load => (&mut self.loads, stored.or(self.atomics.foreign(me))),
            Access::Store => (&mut self.stores, stored.or(self.loads.foreign(me)).or(self.atomics.foreign(me))),
            Access::Atomic => (&mut self.atomics, stored.or(self.loads.foreign(me))),
        };
        visitors.add(me);
        found
    }
}
