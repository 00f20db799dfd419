//! Products as cuBLASLt is told of them, and its choice of a kernel for each: the same one every time, on the word of
//! sizes, types and alignments alone.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudarc::cublaslt::sys::cublasLtMatmulPreferenceAttributes_t as Wish;
use cudarc::cublaslt::sys::{self, cublasLtMatmulDescAttributes_t as Desc, cublasStatus_t as Status};
use cudarc::cublaslt::sys::{cublasLtEpilogue_t as Kind, cublasLtMatrixLayoutAttribute_t as Lay};

use super::Error;
use super::matrices::{BIAS, Side};
use crate::dtype::DType;

/// Bytes that the library may use besides: what its fastest kernels for this generation want.
pub(super) const WORKSPACE: usize = 32 << 20;

/// Splits of a sum whose parts are added up in the type of the sum, in a fixed order.
const FIXED_ORDER: u32 = 2;

/// What a prepared product is good for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub(super) from: DType,
    pub(super) dtype: DType,
    pub(super) sides: [Side; 3],
    pub(super) batch: u64,
    /// Whether factors may be rounded to tf32.
    pub(super) rounded: bool,
    /// Logarithms of the addresses' alignments, in bytes.
    pub(super) aligned: [u32; 3],
    pub(super) finish: Option<Finish>,
}

/// An epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Finish {
    pub(super) bias: bool,
    pub(super) relu: bool,
}

impl Finish {
    fn kind(self) -> Kind {
        match (self.bias, self.relu) {
            (false, false) => Kind::CUBLASLT_EPILOGUE_DEFAULT,
            (false, true) => Kind::CUBLASLT_EPILOGUE_RELU,
            (true, false) => Kind::CUBLASLT_EPILOGUE_BIAS,
            (true, true) => Kind::CUBLASLT_EPILOGUE_RELU_BIAS,
        }
    }
}

/// A product's descriptors, and the library's choice of a kernel.
pub(super) struct Prepared {
    pub(super) desc: sys::cublasLtMatmulDesc_t,
    pub(super) layouts: [sys::cublasLtMatrixLayout_t; 3],
    pub(super) algorithm: sys::cublasLtMatmulAlgo_t,
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

pub(super) fn check(call: &'static str, status: Status) -> Result<(), Error> {
    match status {
        Status::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(Error::Call { call, what: format!("{other:?}") }),
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
    pub(super) fn new(handle: sys::cublasLtHandle_t, class: &Class) -> Result<Prepared, Error> {
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
            match class.finish {
                None => made.choose(handle, class)?,
                // Wide results keep their bits: the kernel is that of the plain product, whose sums have the same order.
                Some(finish) if class.dtype.bytes() > 2 => {
                    made.choose(handle, class)?;
                    made.describe(finish)?;
                    made.check(handle, class)?;
                }
                Some(finish) => {
                    made.describe(finish)?;
                    made.choose(handle, class)?;
                }
            }
            Ok(made)
        }
    }

    /// Says what the epilogue is, with a bias that is as aligned as all are: the library looks at the address when it is
    /// asked for a kernel.  All members of a batch have the same bias unless told otherwise.
    fn describe(&mut self, finish: Finish) -> Result<(), Error> {
        // SAFETY: as in `new`; nobody follows the address.
        unsafe {
            set!(
                sys::cublasLtMatmulDescSetAttribute,
                self.desc,
                Desc::CUBLASLT_MATMUL_DESC_EPILOGUE,
                finish.kind() as u32
            )?;
        }
        if finish.bias { self.aim(BIAS) } else { Ok(()) }
    }

    /// Says where the bias is.
    pub(super) fn aim(&mut self, bias: u64) -> Result<(), Error> {
        // SAFETY: as in `new`.
        unsafe {
            set!(
                sys::cublasLtMatmulDescSetAttribute,
                self.desc,
                Desc::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                std::ptr::without_provenance::<c_void>(bias as usize)
            )
        }
    }

    /// Asks the library whether the chosen kernel computes the epilogue, too.
    ///
    /// # Safety
    ///
    /// The descriptors are complete.
    unsafe fn check(&self, handle: sys::cublasLtHandle_t, class: &Class) -> Result<(), Error> {
        let mut told = MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::zeroed();
        let [x, y, z] = self.layouts;
        // SAFETY: as the caller promises; zeros are a value of what the library writes.
        let told = unsafe {
            let (desc, algorithm) = (self.desc, &raw const self.algorithm);
            let code = sys::cublasLtMatmulAlgoCheck(handle, desc, x, y, z, z, algorithm, told.as_mut_ptr());
            check("cublasLtMatmulAlgoCheck", code)?;
            told.assume_init()
        };
        check("cublasLtMatmulAlgoCheck", told.state)?;
        if told.workspaceSize > WORKSPACE {
            let what = format!("{} bytes of workspace for {class:?}", told.workspaceSize);
            return Err(Error::Call { call: "cublasLtMatmulAlgoCheck", what });
        }
        Ok(())
    }

    /// Asks the library which of its kernels is the best for the product.
    ///
    /// # Safety
    ///
    /// The descriptors are complete.
    unsafe fn choose(&mut self, handle: sys::cublasLtHandle_t, class: &Class) -> Result<(), Error> {
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
                    handle,
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
