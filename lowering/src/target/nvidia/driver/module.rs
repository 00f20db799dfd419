//! Kernels: machine code is loaded, and runs.

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUlaunchAttributeID as Attribute, CUresult};
use smallvec::SmallVec;

use super::link::{Log, refused};
use super::{Device, Error, check, described};
use crate::llvm::tensor_map::{STEP, Tensor, TensorMap};
use crate::target::nvidia::Object;

/// Bytes of shared memory of a block that need no leave.
const SHARED_AT_ONCE: u32 = 48 << 10;

/// Most programs along the second and third axis of a grid.
const GRID: u32 = 65535;

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Name of the kernel in its module.
    pub symbol: String,
    /// Programs that one block runs, side by side along the grid's first axis.
    pub programs: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Tensor maps that it is given behind all else, and how many it has room for.
    pub maps: Vec<TensorMap>,
    /// See [`maps`](Shape::maps).
    pub room: u32,
    /// Whether it waits by itself for the kernel before it, and may begin while that one ends.
    pub early: bool,
}

impl Shape {
    /// How an object's kernel is launched.
    pub fn of(object: &Object) -> Shape {
        let &Object { programs, threads, shared, room, early, .. } = object;
        Shape { symbol: object.symbol.clone(), programs, threads, shared, maps: object.maps.clone(), room, early }
    }
}

/// A kernel that is loaded; its clones are the same one.  It stays loaded as long as the process.
#[derive(Clone)]
pub struct Kernel(Arc<Code>);

struct Code {
    function: sys::CUfunction,
    shape: Shape,
}

// SAFETY: the handle names code that is never unloaded; launching it goes through the device.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Device {
    /// Loads machine code, or PTX text that ends with a zero.
    ///
    /// # Errors
    ///
    /// Code for another device, or not code at all: images may come from a file.
    pub fn load(&self, image: &[u8], shape: Shape) -> Result<Kernel, Error> {
        self.enter()?;
        let mut log = Log::new();
        let (mut keys, mut values) = log.options();
        let name = CString::new(shape.symbol.as_str()).unwrap_or_default();
        let (mut module, mut function) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: options and log outlive the call; the image is whole (its checksum held, or it was just made), and is
        // copied; handles are written on success, and only then read.
        let function = unsafe {
            let count = keys.len() as u32;
            let (keys, values) = (keys.as_mut_ptr(), values.as_mut_ptr());
            match sys::cuModuleLoadDataEx(module.as_mut_ptr(), image.as_ptr().cast(), count, keys, values) {
                CUresult::CUDA_SUCCESS => {}
                code => return Err(refused(&shape.symbol, described(code), &log)),
            }
            let code = sys::cuModuleGetFunction(function.as_mut_ptr(), module.assume_init(), name.as_ptr());
            self.check("cuModuleGetFunction", code)?;
            function.assume_init()
        };
        if shape.shared > SHARED_AT_ONCE {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was just loaded.
            let code = unsafe { sys::cuFuncSetAttribute(function, attribute, shape.shared as i32) };
            self.check("cuFuncSetAttribute", code)?;
        }
        Ok(Kernel(Arc::new(Code { function, shape })))
    }

    /// Has a kernel run for every program of a grid, after everything asked for so far.  `status` is the address of the
    /// word for the code of a failed check.
    ///
    /// # Safety
    ///
    /// The thread has entered the device.  `params` has a word per parameter of the program, and in each buffer's word
    /// the address of device memory that holds all elements that the programs access and that nobody else uses until
    /// they have run (what is only read may be read by others).
    pub unsafe fn launch(&self, kernel: &Kernel, grid: [u32; 3], params: &[u64], status: u64) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { self.launch_on(self.stream, kernel, grid, params, status) }
    }

    /// # Safety
    ///
    /// As for [`Device::launch`], in the order of a stream.
    pub(super) unsafe fn launch_on(
        &self,
        stream: sys::CUstream,
        kernel: &Kernel,
        grid: [u32; 3],
        params: &[u64],
        status: u64,
    ) -> Result<(), Error> {
        let shape = kernel.shape();
        let [x, y, z] = grid;
        if y > GRID || z > GRID {
            return Err(Error::Grid(grid));
        }
        let (blocks, threads, shared, none) =
            (x.div_ceil(shape.programs), shape.threads, shape.shared, ptr::null_mut());
        // Drivers before CUDA 11.8, which know no device whose kernels begin early, have no other call.
        if !shape.early {
            // SAFETY: as the caller promises; the driver copies the values before it returns.
            let code = with_values(shape, params, status, grid, |values| unsafe {
                sys::cuLaunchKernel(kernel.function(), blocks, y, z, threads, 1, 1, shared, stream, values, none)
            })?;
            return self.check("cuLaunchKernel", code);
        }
        let mut attribute = sys::CUlaunchAttribute {
            id: Attribute::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: blocks,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: stream,
            attrs: &mut attribute,
            numAttrs: 1,
        };
        // SAFETY: as above; the configuration is copied, too.
        let code = with_values(shape, params, status, grid, |values| unsafe {
            sys::cuLaunchKernelEx(&config, kernel.function(), values, none)
        })?;
        self.check("cuLaunchKernelEx", code)
    }
}

impl Kernel {
    /// How it is launched.
    pub(super) fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// The driver's name of it.
    pub(super) fn function(&self) -> sys::CUfunction {
        self.0.function
    }
}

/// Calls `f` with what the driver takes a kernel's parameters from: the address of each.
pub(super) fn with_values<T>(
    shape: &Shape,
    params: &[u64],
    status: u64,
    [x, y, z]: [u32; 3],
    f: impl FnOnce(*mut *mut c_void) -> T,
) -> Result<T, Error> {
    // The driver reads as many bytes of a value as the parameter has: the first four of the grid's numbers.
    let last = [status, u64::from(x), u64::from(y), u64::from(z)];
    let mut values: SmallVec<[*mut c_void; 64]> = SmallVec::new();
    values.extend(params.iter().chain(&last).map(|word| ptr::from_ref(word).cast_mut().cast()));
    let maps: Vec<sys::CUtensorMap> =
        shape.maps.iter().map(|map| encoded(&map.tensor(params))).collect::<Result<_, _>>()?;
    // What the kernel has no use for holds anything.
    let unused = sys::CUtensorMap { opaque: [0; 16] };
    let all = maps.iter().chain(std::iter::repeat(&unused)).take(shape.room as usize);
    values.extend(all.map(|map| ptr::from_ref(map).cast_mut().cast()));
    Ok(f(values.as_mut_ptr()))
}

/// A tensor as the copy engine wants it described: rows in panels of 128 bytes, whose pieces change places.
fn encoded(tensor: &Tensor) -> Result<sys::CUtensorMap, Error> {
    let (rank, [width, rows]) = (3, tensor.extents);
    let kind = match tensor.bytes {
        1 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        2 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        _ => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
    };
    // Pieces: as many as a box's place can tell.
    let extents = [u64::from(width), u64::from(rows), 1 << 31];
    let strides = [tensor.stride, u64::from(STEP)];
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the map is as aligned as its type says, arrays have as many elements as there are axes (strides one less), all
    // outlive the call; the address is only written down.
    let code = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut map,
            kind,
            rank,
            ptr::without_provenance_mut(tensor.start as usize),
            extents.as_ptr(),
            strides.as_ptr(),
            [width, rows, 1].as_ptr(),
            [1; 3].as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    check("cuTensorMapEncodeTiled", code)?;
    Ok(map)
}
