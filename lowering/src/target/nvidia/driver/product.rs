//! Matrix products by cuBLASLt, which is found at run time: one that a system has, or any on the loader's path.
//!
//! Sums are formed in f32 (f64 for f64), of factors as they are unless the device was told otherwise; work is split over them only in ways that do not depend on which part is done
//! first.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::cublaslt::sys::{self, cublasLtMatmulDescAttributes_t as Desc, cublasStatus_t as Status};
use cudarc::cublaslt::sys::{cublasLtMatmulPreferenceAttributes_t as Wish, cublasLtMatrixLayoutAttribute_t as Lay};
use cudarc::driver::sys::CUstream;
use rustc_hash::FxHashMap;

use super::matrices::{Call, Side};
use super::{Device, Error, is_there};
use crate::dtype::DType;
use crate::schedule::Gemm;

/// Bytes that the library may use besides: what its fastest kernels for this generation want.
const WORKSPACE: usize = 32 << 20;

/// Products that are kept prepared.
const KEPT: usize = 4096;

/// Splits of a sum whose parts are added up in the type of the sum, in a fixed order.
const FIXED_ORDER: u32 = 2;

/// The library, ready for a device.
pub(super) struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: u64,
    prepared: Mutex<FxHashMap<Class, Prepared>>,
}

// SAFETY: handle and descriptors may be used by any thread; descriptors are behind a lock.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// What a prepared product is good for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Class {
    from: DType,
    dtype: DType,
    sides: [Side; 3],
    batch: u64,
    /// Whether factors may be rounded to tf32.
    rounded: bool,
    /// Logarithms of the addresses' alignments, in bytes.
    aligned: [u32; 3],
}

/// A product's descriptors, and the library's choice of a kernel.
struct Prepared {
    desc: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: the descriptors were made by `Prepared::new` and are destroyed once.
        unsafe {
            let _ = sys::cublasLtMatmulDescDestroy(self.desc);
            for layout in self.layouts {
                let _ = sys::cublasLtMatrixLayoutDestroy(layout);
            }
        }
    }
}

fn kind(dtype: DType) -> sys::cudaDataType_t {
    match dtype {
        DType::F64 => sys::cudaDataType_t::CUDA_R_64F,
        DType::F16 => sys::cudaDataType_t::CUDA_R_16F,
        DType::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
        _ => sys::cudaDataType_t::CUDA_R_32F,
    }
}

fn check(call: &'static str, status: Status) -> Result<(), Error> {
    match status {
        Status::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(Error::Call { call, what: format!("{other:?}") }),
    }
}

/// Whether cuBLASLt is on the loader's path; it then stays loaded.
pub fn has_products() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| is_there("cublasLt"))
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
}

/// Sets an attribute of a descriptor.
macro_rules! set {
    ($set:path, $of:expr, $attribute:expr, $value:expr) => {{
        let value = $value;
        check(stringify!($set), $set($of, $attribute, (&raw const value).cast::<c_void>(), size_of_val(&value)))
    }};
}

impl Prepared {
    fn new(library: &Library, class: &Class) -> Result<Prepared, Error> {
        let (compute, scale) = match class.dtype {
            DType::F64 => (sys::cublasComputeType_t::CUBLAS_COMPUTE_64F, kind(DType::F64)),
            DType::F32 if class.rounded => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, kind(DType::F32)),
            _ => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, kind(DType::F32)),
        };
        let mut desc = MaybeUninit::uninit();
        // SAFETY: descriptors are written on success and only then read; attributes have the types that the library
        // documents for them, and are copied; `made` destroys what there is if anything fails.
        unsafe {
            check("cublasLtMatmulDescCreate", sys::cublasLtMatmulDescCreate(desc.as_mut_ptr(), compute, scale))?;
            let desc = desc.assume_init();
            let mut made = Prepared { desc, layouts: [std::ptr::null_mut(); 3], algorithm: std::mem::zeroed() };
            for (attribute, side) in
                [Desc::CUBLASLT_MATMUL_DESC_TRANSA, Desc::CUBLASLT_MATMUL_DESC_TRANSB].into_iter().zip(class.sides)
            {
                set!(sys::cublasLtMatmulDescSetAttribute, desc, attribute, i32::from(side.turned))?;
            }
            for (i, (side, dtype)) in class.sides.iter().zip([class.from, class.from, class.dtype]).enumerate() {
                let layout = &mut made.layouts[i];
                let code = sys::cublasLtMatrixLayoutCreate(layout, kind(dtype), side.rows, side.cols, side.ld);
                check("cublasLtMatrixLayoutCreate", code)?;
                if class.batch > 1 {
                    let (count, step) = (class.batch as i32, side.step);
                    set!(
                        sys::cublasLtMatrixLayoutSetAttribute,
                        *layout,
                        Lay::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                        count
                    )?;
                    let attribute = Lay::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
                    set!(sys::cublasLtMatrixLayoutSetAttribute, *layout, attribute, step)?;
                }
            }
            made.choose(library, class)?;
            Ok(made)
        }
    }

    /// Asks the library which of its kernels is the best for the product.
    ///
    /// # Safety
    ///
    /// The descriptors are complete.
    unsafe fn choose(&mut self, library: &Library, class: &Class) -> Result<(), Error> {
        let mut wishes = MaybeUninit::uninit();
        // SAFETY: as in `new`.
        unsafe {
            check("cublasLtMatmulPreferenceCreate", sys::cublasLtMatmulPreferenceCreate(wishes.as_mut_ptr()))?;
            let wishes = wishes.assume_init();
            let mut found = MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit();
            let mut count = 0;
            let asked = (|| {
                use sys::cublasLtMatmulPreferenceSetAttribute as set_wish;
                set!(set_wish, wishes, Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, WORKSPACE)?;
                set!(set_wish, wishes, Wish::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, FIXED_ORDER)?;
                let [a, b, c] = class.aligned.map(|bits| 1u32 << bits);
                set!(set_wish, wishes, Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a)?;
                set!(set_wish, wishes, Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b)?;
                set!(set_wish, wishes, Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c)?;
                set!(set_wish, wishes, Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c)?;
                let [x, y, z] = self.layouts;
                let code = sys::cublasLtMatmulAlgoGetHeuristic(
                    library.handle,
                    self.desc,
                    x,
                    y,
                    z,
                    z,
                    wishes,
                    1,
                    found.as_mut_ptr(),
                    &mut count,
                );
                check("cublasLtMatmulAlgoGetHeuristic", code)
            })();
            let _ = sys::cublasLtMatmulPreferenceDestroy(wishes);
            asked?;
            if count == 0 {
                let what = format!("the library has no kernel for {class:?}");
                return Err(Error::Call { call: "cublasLtMatmulAlgoGetHeuristic", what });
            }
            self.algorithm = found.assume_init().algo;
        }
        Ok(())
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
        // SAFETY: the library is loaded.
        let version = unsafe { sys::cublasLtGetVersion() };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let file =
            maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|f| f.contains("cublasLt")));
        Some(format!("cuBLASLt {version}, {}", file.unwrap_or("by the loader")))
    }

    /// Has the library compute a product that it `takes`, after everything asked for so far.
    ///
    /// # Errors
    ///
    /// Where there is no library, or it has no kernel for the product.
    ///
    /// # Safety
    ///
    /// The thread has entered the device; the addresses are those of the product's buffers, which hold all elements that
    /// it names, and nobody else uses the result until it is there.
    pub unsafe fn product(&self, gemm: &Gemm, addresses: [u64; 3]) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { self.product_on(self.stream, gemm, addresses) }
    }

    /// # Safety
    ///
    /// As for [`Device::product`], in the order of a stream.
    pub(super) unsafe fn product_on(&self, stream: CUstream, gemm: &Gemm, addresses: [u64; 3]) -> Result<(), Error> {
        let none = |what: &str| Error::Call { call: "cublasLtMatmul", what: what.into() };
        let library = self.library().ok_or_else(|| none("there is no cuBLASLt"))?;
        let call = Call::of(gemm).ok_or_else(|| none("the operands lie in no way that the library knows"))?;
        if gemm.m == 0 || gemm.n == 0 || gemm.batch.contains(&0) {
            return Ok(());
        }
        let bytes = [gemm.from.bytes(), gemm.from.bytes(), gemm.dtype.bytes()];
        let bases = call.ordered(addresses);
        let starts: [u64; 3] =
            std::array::from_fn(|i| bases[i].wrapping_add_signed(call.matrices[i].offset * bytes[i] as i64));
        // All starts of the walk are as aligned as the first and the steps are.
        let mut bits = starts.map(|start| start | 256);
        for (_, steps) in &call.outer {
            let steps = call.ordered(*steps);
            (0..3).for_each(|i| bits[i] |= (steps[i] * bytes[i] as i64) as u64);
        }
        let aligned = bits.map(u64::trailing_zeros);
        let class = Class {
            from: gemm.from,
            dtype: gemm.dtype,
            sides: call.sides,
            batch: call.batch,
            rounded: self.rounds,
            aligned,
        };
        let mut prepared = library.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if !prepared.contains_key(&class) {
            if prepared.len() >= KEPT {
                prepared.clear();
            }
            prepared.insert(class.clone(), Prepared::new(library, &class)?);
        }
        let ready = &prepared[&class];
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
