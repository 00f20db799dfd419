//! NVIDIA's driver while a program runs: devices, memory, kernels and the order of work.  Found when the first device is
//! opened: a binary built without CUDA runs with it, and where there is no driver that is an error in one line.
//!
//! A device has one stream, on which everything happens in the order in which it was asked for, by whichever thread.  So
//! memory may be handed to new work as soon as all work that uses it has been asked for, and nobody waits for the device
//! but who reads.

mod clock;
mod graph;
mod link;
mod matrices;
mod memory;
mod module;
mod order;
mod prepared;
mod product;

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::sync::{Mutex, OnceLock};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};

pub use clock::Stamp;
pub use graph::{Graph, Work};
pub use matrices::takes;
use memory::Staging;
pub use module::{Kernel, Shape};
pub use order::{Mark, Ticket};
use order::{Marks, Words};
use product::Library;
pub use product::{has_products, library_version};

use super::specs::best;
use crate::spec::Spec;

/// Why the driver did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no driver.
    #[error("no NVIDIA driver: the library libcuda.so.1 is not on this computer")]
    NoDriver,
    /// The driver sees fewer devices.
    #[error("there is no NVIDIA device {wanted}: the driver sees {found}")]
    NoDevice {
        /// The device asked for.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A call failed.
    #[error("{call} failed: {what}")]
    Call {
        /// The function.
        call: &'static str,
        /// The driver's name of the error, and what it means.
        what: String,
    },
    /// The driver's compiler refused a program.
    #[error("the NVIDIA driver does not take {symbol}: {what}\n{log}")]
    Refused {
        /// The kernel.
        symbol: String,
        /// The driver's name of the error, and what it means.
        what: String,
        /// What its compiler said.
        log: String,
    },
    /// More programs than a launch can have.
    #[error("a grid of {0:?} programs is too large: 65535 along the second and third axis")]
    Grid([u32; 3]),
    /// An earlier kernel spoilt the device's state; nothing runs on it any more.
    #[error(
        "NVIDIA device {device} has stopped after a fault ({what}) and cannot be used again before the program is restarted"
    )]
    Stopped {
        /// The device.
        device: usize,
        /// The first error after the fault.
        what: String,
    },
}

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// As its maker calls it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Version of CUDA that the driver implements: 12040 for 12.4.
    pub driver: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the cache that they share.
    pub cache: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Most bytes of shared memory of a block.
    pub shared: u32,
}

impl Facts {
    /// The greatest PTX version that the driver takes, major times ten plus minor, as far as Kiln asks for: from CUDA
    /// 12.0 on minor versions go up together, but for 12.6, which kept that of 12.5.
    pub fn ptx_version(&self) -> u32 {
        match (self.driver / 1000, self.driver % 1000 / 10) {
            (..12, _) => 70,
            (12, minor @ 0..=5) => 80 + minor,
            (12, 6) => 85,
            _ => 86,
        }
    }

    /// What makes the best code that the device runs; nothing where it is too old.
    pub fn spec(&self) -> Option<Spec> {
        best(self.capability, self.ptx_version())
    }
}

/// A stream as a value of its own.
#[derive(Clone, Copy)]
struct Side(sys::CUstream);

/// A device that was opened.
pub struct Device {
    number: usize,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// A stream that only records.
    side: OnceLock<Side>,
    facts: Facts,
    /// The error after which nothing works any more.
    stopped: OnceLock<String>,
    uploads: Mutex<Staging>,
    downloads: Mutex<Staging>,
    marks: Mutex<Marks>,
    words: Mutex<Words>,
    library: OnceLock<Option<Library>>,
    /// Whether products may round factors of f32 to tf32.
    rounds: bool,
}

// SAFETY: the driver's handles may be used by any thread in whose context they are, which `enter` sees to; what changes
// is behind locks.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What the driver says about an error.
fn described(code: CUresult) -> String {
    let text = |ask: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
        let mut start = std::ptr::null();
        // SAFETY: `start` outlives the call; on success it is a C string that lives as long as the driver.
        unsafe {
            (ask(code, &mut start) == CUresult::CUDA_SUCCESS && !start.is_null())
                .then(|| CStr::from_ptr(start).to_string_lossy().into_owned())
        }
    };
    match (text(sys::cuGetErrorString), text(sys::cuGetErrorName)) {
        (Some(meaning), Some(name)) => format!("{meaning}, {name}"),
        _ => format!("error {}", code as u32),
    }
}

fn check(call: &'static str, code: CUresult) -> Result<(), Error> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::Call { call, what: described(code) }),
    }
}

/// Whether a library is there, which then stays loaded: the one that cudarc finds.
fn is_there(library: &str) -> bool {
    let names = cudarc::get_lib_name_candidates(library);
    // SAFETY: loading runs the library's initialisers, which ask nothing of the program.
    names.iter().any(|name| unsafe { libloading::Library::new(name) }.map(std::mem::forget).is_ok())
}

/// Starts the driver, once.
fn initialise() -> Result<(), Error> {
    static STARTED: OnceLock<Result<(), Error>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            if !is_there("cuda") {
                return Err(Error::NoDriver);
            }
            // SAFETY: may be called at any time.
            check("cuInit", unsafe { sys::cuInit(0) })
        })
        .clone()
}

/// Version of CUDA that the driver implements: 12040 for 12.4.
///
/// # Errors
///
/// Where there is no driver.
pub fn driver_version() -> Result<u32, Error> {
    initialise()?;
    let mut version = 0;
    // SAFETY: the driver writes an integer that outlives the call.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    Ok(version as u32)
}

/// How many devices there are: none without a driver.
pub fn count() -> usize {
    let mut count = 0;
    // SAFETY: as above.
    let asked = initialise().and_then(|()| check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) }));
    if asked.is_ok() { count as usize } else { 0 }
}

/// Finds a device by its number.
fn find(number: usize) -> Result<sys::CUdevice, Error> {
    initialise()?;
    let found = count();
    if number >= found {
        return Err(Error::NoDevice { wanted: number, found });
    }
    let mut device = 0;
    // SAFETY: the number is that of a device, and the driver writes an integer that outlives the call.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, number as c_int) })?;
    Ok(device)
}

/// What is known of a device, which need not be opened for it.
///
/// # Errors
///
/// Where there is no such device.
pub fn facts(number: usize) -> Result<Facts, Error> {
    let device = find(number)?;
    let mut name = [0; 256];
    let mut memory = 0;
    // SAFETY: the driver writes at most as many bytes as it is told and ends them with a zero; both outlive the call.
    let name = unsafe {
        check("cuDeviceGetName", sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device))?;
        check("cuDeviceTotalMem", sys::cuDeviceTotalMem_v2(&mut memory, device))?;
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    let ask = |attribute| -> Result<u32, Error> {
        let mut value = 0;
        // SAFETY: the driver writes an integer that outlives the call.
        check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })?;
        Ok(value as u32)
    };
    Ok(Facts {
        name,
        capability: (
            ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        driver: driver_version()?,
        multiprocessors: ask(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        cache: ask(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        memory: memory as u64,
        shared: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}

impl Device {
    /// Opens a device: makes its primary context, which other users of CUDA in the process share, and a stream in it.
    ///
    /// # Errors
    ///
    /// Where there is no such device, or it is not free.
    pub fn open(number: usize) -> Result<Device, Error> {
        let device = find(number)?;
        let facts = facts(number)?;
        let (mut context, mut stream) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the driver writes the handles on success, and only then are they read.  The context is never released:
        // devices live as long as the process.
        let (context, stream) = unsafe {
            check("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(context.as_mut_ptr(), device))?;
            let context = context.assume_init();
            check("cuCtxSetCurrent", sys::cuCtxSetCurrent(context))?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check("cuStreamCreate", sys::cuStreamCreate(stream.as_mut_ptr(), flags))?;
            (context, stream.assume_init())
        };
        Ok(Device {
            number,
            context,
            stream,
            side: OnceLock::new(),
            facts,
            stopped: OnceLock::new(),
            uploads: Mutex::default(),
            downloads: Mutex::default(),
            marks: Mutex::default(),
            words: Mutex::default(),
            library: OnceLock::new(),
            rounds: false,
        })
    }

    /// The same, with products that may round factors of f32 to tf32: 10 bits of mantissa, several times as fast.
    pub fn with_tf32(self, rounds: bool) -> Device {
        Device { rounds, ..self }
    }

    /// What is known of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Makes this thread one that may use the device.
    ///
    /// # Errors
    ///
    /// If the device has stopped.
    pub fn enter(&self) -> Result<(), Error> {
        if let Some(what) = self.stopped.get() {
            return Err(Error::Stopped { device: self.number, what: what.clone() });
        }
        // SAFETY: the context lives as long as the process.
        self.check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// The stream that only records.
    fn side(&self) -> Result<sys::CUstream, Error> {
        if let Some(Side(stream)) = self.side.get() {
            return Ok(*stream);
        }
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the driver writes the handle on success.
        self.check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
        Ok(self.side.get_or_init(|| Side(stream)).0)
    }

    /// Whether a call did what it should.  Errors after which the context is dead are kept.
    fn check(&self, call: &'static str, code: CUresult) -> Result<(), Error> {
        if code == CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        if !is_fatal(code) {
            return check(call, code);
        }
        let what = self.stopped.get_or_init(|| described(code));
        Err(Error::Stopped { device: self.number, what: what.clone() })
    }
}

/// Whether a context is dead after such an error, whoever gets it: the driver reports what an earlier kernel did.
fn is_fatal(code: CUresult) -> bool {
    use CUresult as R;
    matches!(
        code,
        R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_LAUNCH_FAILED
            | R::CUDA_ERROR_ECC_UNCORRECTABLE
            | R::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | R::CUDA_ERROR_DEINITIALIZED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(driver: u32) -> Facts {
        Facts { name: "X".into(), capability: (9, 0), driver, multiprocessors: 1, cache: 1, memory: 1, shared: 1 }
    }

    #[test]
    fn the_ptx_version_is_one_that_the_driver_takes() {
        for (driver, wanted) in [(12000, 80), (12040, 84), (12060, 85), (12080, 86), (13000, 86), (11080, 70)] {
            assert_eq!(on(driver).ptx_version(), wanted, "{driver}");
        }
    }

    /// Whatever machine tests run on, a device that it has not is one clear line.
    #[test]
    fn a_device_that_is_not_there_is_one_line() {
        let message = Device::open(4096).err().expect("nobody has so many").to_string();
        assert!(message.starts_with("no NVIDIA driver") || message.contains("4096") || message.contains("cuInit"));
        assert!(!message.contains('\n'), "{message}");
        assert!(count() < 4096);
    }
}
