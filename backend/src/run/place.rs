//! Where a computed value lies: a buffer and the layout in it; how data comes in and goes out.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use burn_backend::{BoolStore, Bytes, DType as BurnDType, Shape, TensorData};
use kiln_lowering::graph::Dims;
use kiln_lowering::schedule::Layout;
use smallvec::SmallVec;

use super::fate::Fate;
use super::memory::{Buffer, Plain, Pool};
use crate::dtype::to_kiln;

/// A buffer and where in it, in elements.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) layout: Layout,
    /// Bytes of the buffer that elements fill; its block may be larger.
    pub(crate) len: u64,
    /// What the checks of the work that makes it will say, where nobody knows yet.
    pub(crate) fate: Option<Arc<Fate>>,
}

impl Place {
    /// Has one value more lie here.
    pub(crate) fn lodge(&self) {
        self.buffer.lodgers.fetch_add(1, SeqCst);
    }

    /// Has one value less lie here.
    pub(crate) fn leave(&self) {
        self.buffer.lodgers.fetch_sub(1, SeqCst);
    }

    /// Whether graphs write here.
    pub(crate) fn is_renewed(&self) -> bool {
        self.buffer.is_renewed()
    }

    /// The same, depending on what another one depends on.
    pub(super) fn with_fate(self, other: &Place) -> Place {
        Place { fate: other.fate.clone(), ..self }
    }

    /// What the value depends on: the checks of the work that made it, and replays that have made it anew.
    pub(crate) fn fates(&self) -> SmallVec<[Arc<Fate>; 2]> {
        self.fate.iter().cloned().chain(self.buffer.renewals()).collect()
    }
}

/// Keeps or copies data that comes in.
pub(crate) fn place_bytes(pool: &Arc<Pool>, bytes: Bytes, shape: &Shape, dtype: BurnDType) -> Result<Place, String> {
    let dims: Dims = shape.iter().map(|&n| n as u64).collect();
    let buffer = match dtype {
        // One byte each here, and 0 or 1 whatever came in.
        BurnDType::Bool(BoolStore::U32) => {
            let small: Vec<u8> = bytes.chunks_exact(4).map(|word| word.iter().any(|&b| b != 0) as u8).collect();
            copy_in(pool, &small)?
        }
        BurnDType::Bool(BoolStore::U8) => {
            let clean: Vec<u8> = bytes.iter().map(|&b| (b != 0) as u8).collect();
            copy_in(pool, &clean)?
        }
        _ if !pool.is_host() => copy_in(pool, &bytes)?,
        _ => match Buffer::foreign(bytes) {
            Ok(buffer) => buffer,
            Err(bytes) => copy_in(pool, &bytes)?,
        },
    };
    // Whether bytes are kept or copied depends on where they happen to lie, and must not show: a plan that gives their
    // memory to a result would come and go from run to run.
    buffer.shared.store(true, Relaxed);
    let len = dims.iter().product::<u64>() * to_kiln(dtype).bytes() as u64;
    Ok(Place { buffer, layout: Layout::contiguous(&dims), len, fate: None })
}

fn copy_in(pool: &Arc<Pool>, bytes: &[u8]) -> Result<Arc<Buffer>, String> {
    let buffer = pool.allocate(bytes.len())?;
    buffer.fill_from(bytes)?;
    Ok(buffer)
}

/// Copies a value to another device.
pub(crate) fn move_place(place: &Place, shape: &Shape, dtype: BurnDType, pool: &Arc<Pool>) -> Result<Place, String> {
    let (dims, width): (Dims, usize) = (shape.iter().map(|&n| n as u64).collect(), to_kiln(dtype).bytes());
    if dims.iter().all(|&n| n > 0) {
        let (low, high) = extent(&place.layout, &dims);
        let (first, bytes) = (low as usize * width, (high - low + 1) as usize * width);
        let buffer = pool.allocate(bytes)?;
        if low >= 0 && buffer.take_from(&place.buffer, first, bytes)? {
            let layout = Layout { offset: place.layout.offset - low, strides: place.layout.strides.clone() };
            return Ok(Place { buffer, layout, len: bytes as u64, fate: None });
        }
    }
    let (bytes, shape, dtype) = read_place(place, shape, dtype)?.into_parts();
    place_bytes(pool, bytes, &shape, dtype)
}

/// Copies a value out, in row-major order.
pub(crate) fn read_place(place: &Place, shape: &Shape, dtype: BurnDType) -> Result<TensorData, String> {
    let dims: Dims = shape.iter().map(|&n| n as u64).collect();
    let bytes = if dtype == BurnDType::Bool(BoolStore::U32) {
        Bytes::from_elems(gather::<u8>(place, &dims)?.into_iter().map(u32::from).collect::<Vec<u32>>())
    } else {
        gather_bytes(place, to_kiln(dtype).bytes(), &dims)?
    };
    TensorData::try_from_bytes(bytes, shape.clone(), dtype).map_err(|e| e.to_string())
}

/// A value's bytes in row-major order; `width` is that of an element.  They are allocated as elements of that width, so
/// that they become a vector of such elements without another copy.
pub(crate) fn gather_bytes(place: &Place, width: usize, dims: &[u64]) -> Result<Bytes, String> {
    Ok(match width {
        1 => Bytes::from_elems(gather::<u8>(place, dims)?),
        2 => Bytes::from_elems(gather::<u16>(place, dims)?),
        4 => Bytes::from_elems(gather::<u32>(place, dims)?),
        _ => Bytes::from_elems(gather::<u64>(place, dims)?),
    })
}

fn gather<T: Plain>(place: &Place, dims: &[u64]) -> Result<Vec<T>, String> {
    let count = dims.iter().product::<u64>() as usize;
    if count == 0 {
        return Ok(Vec::new());
    }
    let ((low, high), len) = (extent(&place.layout, dims), place.buffer.len() / size_of::<T>());
    if low < 0 || high as usize >= len {
        return Err(format!("elements {low} to {high} leave a buffer of {len}"));
    }
    let from = place.buffer.fetch::<T>(low as usize, (high - low + 1) as usize)?;
    match from {
        Cow::Owned(copied) if place.layout.strides == Layout::contiguous(dims).strides => Ok(copied),
        from => {
            let mut out: Vec<T> = Vec::with_capacity(count);
            copy_rows(&from, place.layout.offset - low, &place.layout.strides, dims, &mut out);
            Ok(out)
        }
    }
}

/// The least and greatest place of any element.
fn extent(layout: &Layout, dims: &[u64]) -> (i64, i64) {
    let (mut low, mut high) = (layout.offset, layout.offset);
    for (&n, &stride) in dims.iter().zip(&layout.strides) {
        let reach = stride * (n as i64 - 1);
        low += reach.min(0);
        high += reach.max(0);
    }
    (low, high)
}

/// Appends the elements of a strided block, the last axis innermost.
fn copy_rows<T: Plain>(from: &[T], offset: i64, strides: &[i64], dims: &[u64], out: &mut Vec<T>) {
    // Trailing axes without gaps are one run.
    let mut run = 1u64;
    let mut outer = dims.len();
    while outer > 0 && (strides[outer - 1] == run as i64 || dims[outer - 1] == 1) {
        run *= dims[outer - 1];
        outer -= 1;
    }
    let mut index: Dims = Dims::from_elem(0, outer);
    let mut at = offset;
    loop {
        out.extend_from_slice(&from[at as usize..][..run as usize]);
        let mut axis = outer;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < dims[axis] {
                break;
            }
            at -= strides[axis] * dims[axis] as i64;
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn read(layout: Layout, shape: &[usize], values: &[i32]) -> Vec<i32> {
        let pool = Pool::new(None);
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let buffer = copy_in(&pool, &bytes).expect("fits");
        let place = Place { buffer, layout, len: bytes.len() as u64, fate: None };
        read_place(&place, &Shape::from(shape), BurnDType::I32).expect("inside").try_to_vec().expect("i32")
    }

    #[test]
    fn views_are_read_in_row_major_order() {
        let v: Vec<i32> = (0..6).collect();
        assert_eq!(read(Layout::contiguous(&[2, 3]), &[2, 3], &v), v);
        assert_eq!(read(Layout { offset: 0, strides: smallvec![1, 3] }, &[3, 2], &v), [0, 3, 1, 4, 2, 5]);
        assert_eq!(read(Layout { offset: 5, strides: smallvec![-3, -1] }, &[2, 3], &v), [5, 4, 3, 2, 1, 0]);
        assert_eq!(read(Layout { offset: 1, strides: smallvec![0, 2] }, &[2, 2], &v), [1, 3, 1, 3]);
        assert_eq!(read(Layout { offset: 4, strides: smallvec![] }, &[], &v), [4]);
        assert_eq!(read(Layout { offset: 0, strides: smallvec![1, 1] }, &[2, 0], &v), [0; 0]);
    }

    #[test]
    fn leaving_the_buffer_is_an_error() {
        let pool = Pool::new(None);
        let place = Place {
            buffer: copy_in(&pool, &[0; 64]).expect("fits"),
            layout: Layout { offset: 0, strides: smallvec![1] },
            len: 64,
            fate: None,
        };
        assert!(read_place(&place, &Shape::from([17]), BurnDType::I32).is_err());
    }

    #[test]
    fn bools_keep_their_storage() {
        for (store, raw) in [
            (BoolStore::Native, vec![0u8, 1, 1]),
            (BoolStore::U8, vec![0u8, 1, 1]),
            (BoolStore::U32, vec![0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]),
        ] {
            let pool = Pool::new(None);
            let (shape, dtype) = (Shape::from([3]), BurnDType::Bool(store));
            let place = place_bytes(&pool, Bytes::from_bytes_vec(raw.clone()), &shape, dtype).expect("fits");
            let data = read_place(&place, &shape, dtype).expect("inside");
            assert_eq!(data.as_bytes(), raw);
            assert_eq!(data.dtype(), dtype);
        }
    }
}
