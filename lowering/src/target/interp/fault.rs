//! What can go wrong while a program runs.

use thiserror::Error;

use crate::tile::{Param, Place, Violation};

/// Why a launch ended early, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{at}` in program {program:?}: {cause}{}", self.place.map(|p| format!(" ({p})")).unwrap_or_default())]
pub struct Fault {
    /// The instruction, as it is printed.
    pub at: String,
    /// Where the user wrote it.
    pub place: Option<Place>,
    /// Grid coordinates of the program that ran.
    pub program: [u32; 3],
    /// What is wrong.
    pub cause: Cause,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Cause {
    /// The program breaks a rule of the language.
    #[error("invalid program: {0}")]
    Invalid(Box<Violation>),
    /// Too few or too many arguments.
    #[error("wants {want} arguments, got {got}")]
    Arguments {
        /// Number of parameters.
        want: usize,
        /// Number of arguments.
        got: usize,
    },
    /// An argument that does not fit its parameter.
    #[error("{param} wants {want}")]
    Argument {
        /// Parameter.
        param: Param,
        /// What it takes.
        want: String,
    },
    /// An access outside of its buffer.
    #[error("element {offset} of {param}, which has {length}")]
    Bounds {
        /// Buffer.
        param: Param,
        /// Element offset.
        offset: i64,
        /// Length of the buffer, in elements.
        length: usize,
    },
    /// An index outside of the gathered tile.
    #[error("index {index} along an axis of extent {extent}")]
    Index {
        /// Index.
        index: i64,
        /// Extent of the source.
        extent: u32,
    },
    /// A loop that does not go up.
    #[error("a loop wants a step above 0, got {step}")]
    Step {
        /// Step.
        step: i64,
    },
    /// Two programs touch one element and one of them stores it.
    #[error("element {offset} of {param} is also touched by program {other}, counted along the grid")]
    Race {
        /// Buffer.
        param: Param,
        /// Element offset.
        offset: usize,
        /// The other program; the last of several.
        other: u64,
    },
    /// Two lanes of one store give an element different values.
    #[error("two lanes store different values to element {offset} of {param}")]
    Lanes {
        /// Buffer.
        param: Param,
        /// Element offset.
        offset: usize,
    },
    /// More instructions than [`super::Options::steps`] allows.
    #[error("more than {limit} instructions")]
    Steps {
        /// The limit.
        limit: u64,
    },
}
