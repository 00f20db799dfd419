//! Matrix products by cuBLASLt, which is found at run time: one that a system has, or any on the loader's path.
//!
//! Sums are formed in f32 (f64 for f64), of factors as they are unless the device was told otherwise; work is split over
//! them only in ways that do not depend on which part is done first.  A bias is added to them before they are rounded.

use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::cublaslt::sys;
use cudarc::driver::sys::CUstream;
use rustc_hash::FxHashMap;

use super::matrices::Call;
use super::prepared::{Class, Finish, Prepared, WORKSPACE, check};
use super::{Device, Error, is_there};
use crate::dtype::DType;
use crate::schedule::Gemm;

/// Bytes that the driver aligns memory to at least (CUDA C++ Programming Guide, "Device Memory Accesses").
const ALLOCATED: u64 = 256;

/// Products that are kept prepared.
const KEPT: usize = 4096;

/// The library, ready for a device.
pub(super) struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: u64,
    prepared: Mutex<Known>,
}

type Known = FxHashMap<Class, Prepared>;

// SAFETY: handle and descriptors may be used by any thread; descriptors are behind a lock.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Whether cuBLASLt is on the loader's path; it then stays loaded.
pub fn has_products() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| is_there("cublasLt"))
}

/// Version of cuBLASLt, which [`has_products`].
pub fn library_version() -> usize {
    // SAFETY: the library is loaded.
    unsafe { sys::cublasLtGetVersion() }
}

impl Library {
    /// Opens the library for a device that this thread has entered.
    fn open(device: &Device) -> Option<Library> {
        if !has_products() {
            return None;
        }
        let mut handle = MaybeUninit::uninit();
        // SAFETY: the library is there; the handle is written on success, and only then read.
        let handle = unsafe {
            check("cublasLtCreate", sys::cublasLtCreate(handle.as_mut_ptr())).ok()?;
            handle.assume_init()
        };
        let workspace = device.allocate(WORKSPACE).ok().flatten()?;
        Some(Library { handle, workspace, prepared: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A product, prepared now if it was not before.
    fn find<'a>(&self, prepared: &'a mut Known, class: Class) -> Result<&'a mut Prepared, Error> {
        if prepared.len() >= KEPT && !prepared.contains_key(&class) {
            prepared.clear();
        }
        Ok(match prepared.entry(class) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let made = Prepared::new(self.handle, new.key())?;
                new.insert(made)
            }
        })
    }
}

impl Device {
    fn library(&self) -> Option<&Library> {
        self.library.get_or_init(|| Library::open(self)).as_ref()
    }

    /// Version of cuBLASLt and the file it was found in; nothing where there is none.
    pub fn product_library(&self) -> Option<String> {
        self.enter().ok()?;
        self.library()?;
        let version = library_version();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let file =
            maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|f| f.contains("cublasLt")));
        Some(format!("cuBLASLt {version}, {}", file.unwrap_or("by the loader")))
    }

    /// Whether the library has a kernel that computes a product with its epilogue, wherever the device's memory for its
    /// buffers lies.
    pub fn absorbs(&self, gemm: &Gemm) -> bool {
        let (Some(call), Ok(())) = (Call::of(gemm), self.enter()) else { return false };
        let class = self.class(gemm, &call, [ALLOCATED; 3]);
        self.library().is_some_and(|library| library.find(&mut library.lock(), class).is_ok())
    }

    /// What kind of product one is, with its buffers at some addresses.
    fn class(&self, gemm: &Gemm, call: &Call<'_>, addresses: [u64; 3]) -> Class {
        let bytes = widths(gemm);
        // All starts of the walk are as aligned as the first and the steps are.
        let mut bits = call.starts(addresses, bytes).map(|start| start | ALLOCATED);
        for (_, steps) in &call.outer {
            let steps = call.ordered(*steps);
            (0..3).for_each(|i| bits[i] |= (steps[i] * bytes[i] as i64) as u64);
        }
        let aligned = bits.map(u64::trailing_zeros);
        let finish = gemm.epilogue.map(|epilogue| Finish { bias: epilogue.bias.is_some(), relu: epilogue.relu });
        let (sides, batch, rounded) = (call.sides, call.batch, self.rounds);
        Class { from: gemm.from, dtype: gemm.dtype, sides, batch, rounded, aligned, finish }
    }

    /// Has the library compute a product that it `takes` with its epilogue, which it `absorbs`, after everything asked for
    /// so far.
    ///
    /// # Errors
    ///
    /// Where there is no library, or it has no kernel for the product.
    ///
    /// # Safety
    ///
    /// The thread has entered the device; the addresses are those of the product's buffers and of its bias's, if it has
    /// one, which hold all elements that it names, and nobody else uses the result until it is there.
    pub unsafe fn product(&self, gemm: &Gemm, at: ([u64; 3], Option<u64>)) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { self.product_on(self.stream, gemm, at) }
    }

    /// # Safety
    ///
    /// As for [`Device::product`], in the order of a stream.
    pub(super) unsafe fn product_on(
        &self,
        stream: CUstream,
        gemm: &Gemm,
        (addresses, bias): ([u64; 3], Option<u64>),
    ) -> Result<(), Error> {
        let none = |what: &str| Error::Call { call: "cublasLtMatmul", what: what.into() };
        let library = self.library().ok_or_else(|| none("there is no cuBLASLt"))?;
        let call = Call::of(gemm).ok_or_else(|| none("the operands lie in no way that the library knows"))?;
        if gemm.m == 0 || gemm.n == 0 || gemm.batch.contains(&0) {
            return Ok(());
        }
        let bytes = widths(gemm);
        let starts = call.starts(addresses, bytes);
        let class = self.class(gemm, &call, addresses);
        let mut prepared = library.lock();
        let ready = library.find(&mut prepared, class)?;
        if let Some(start) = start_of_bias(gemm, bias) {
            ready.aim(start)?;
        }
        let members = call.outer.iter().map(|(n, _)| n).product::<u64>();
        for member in 0..members {
            let mut at = starts;
            let mut rest = member;
            for (n, steps) in call.outer.iter().rev() {
                let steps = call.ordered(*steps);
                for i in 0..3 {
                    at[i] = at[i].wrapping_add_signed((rest % n) as i64 * steps[i] * bytes[i] as i64);
                }
                rest /= n;
            }
            // SAFETY: as the caller promises; `side` found leading distances that describe the matrices.
            unsafe { multiply(stream, library, gemm.dtype, ready, at)? };
        }
        Ok(())
    }
}

/// Bytes of an element of each factor and of the result.
fn widths(gemm: &Gemm) -> [usize; 3] {
    [gemm.from.bytes(), gemm.from.bytes(), gemm.dtype.bytes()]
}

/// Where a product's bias starts, in the buffer at an address.
fn start_of_bias(gemm: &Gemm, address: Option<u64>) -> Option<u64> {
    let (_, first) = gemm.bias()?;
    let Some(address) = address else { unreachable!("the bias of a product lies somewhere") };
    Some(address.wrapping_add_signed(first * gemm.dtype.bytes() as i64))
}

/// # Safety
///
/// As for [`Device::product`], of one call of the library.
unsafe fn multiply(
    stream: CUstream,
    library: &Library,
    dtype: DType,
    ready: &Prepared,
    at: [u64; 3],
) -> Result<(), Error> {
    let [x, y, z] = at.map(|address| std::ptr::without_provenance_mut::<c_void>(address as usize));
    // The factors of the sum and of what the result held, in the type that sums are formed in.
    let (wide, narrow) = ([1f64, 0.0], [1f32, 0.0]);
    let [one, zero]: [*const c_void; 2] = match dtype {
        DType::F64 => [(&raw const wide[0]).cast(), (&raw const wide[1]).cast()],
        _ => [(&raw const narrow[0]).cast(), (&raw const narrow[1]).cast()],
    };
    let [dx, dy, dz] = ready.layouts;
    // SAFETY: as the caller promises; the workspace serves one call after another, on one stream.
    let status = unsafe {
        sys::cublasLtMatmul(
            library.handle,
            ready.desc,
            one,
            x,
            dx,
            y,
            dy,
            zero,
            z,
            dz,
            z,
            dz,
            &ready.algorithm,
            std::ptr::without_provenance_mut(library.workspace as usize),
            WORKSPACE,
            stream.cast(),
        )
    };
    check("cublasLtMatmul", status)
}
