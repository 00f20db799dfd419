//! Executes tile programs directly: the definition of what a tile program means.  Knows no lanes: a tile is a list of
//! elements in row-major order.
//!
//! Programs run one after the other, the first grid axis fastest.  Every access is checked against its buffer, so that
//! what a GPU would hide is a [`Fault`] with the instruction's text and place.
