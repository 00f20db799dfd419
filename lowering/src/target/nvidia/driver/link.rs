//! PTX text becomes machine code, by the driver's own compiler.  Knows nothing of what the code does but whether it may do
//! with few registers.
//!
//! What is linked is compiled as a part of something larger: the compiler then takes as many registers as it has use for,
//! where it would weigh them against the warps that fit a multiprocessor if the text were all there is (on an H200, a
//! softmax's 95 instead of 48).  But only what is linked comes out as machine code that can be kept.  So the weighing is
//! done here: a kernel gets the fewest registers, of some, with which nearly nothing is left to memory.

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::sys::{self, CUfunction_attribute, CUjit_option as Key, CUresult};

use super::{Device, Error, described};
use crate::target::nvidia::Object;

/// Registers of a thread that are tried first: half as many warps as there can be then run at one time, which hides what
/// memory takes.  Fewer would keep a lane from having several loads under way.
const FEWEST: u32 = 64;

/// Most that are tried: with more, no further warp fits.
const MOST: u32 = 104;

/// Registers that the threads of a block have together at most.
const REGISTERS: u32 = 65536;

/// What registers are given out in.
const STEP: u32 = 8;

/// Bytes of text from which on it is compiled once only.
const LONG: usize = 96 << 10;

/// Bytes that the driver's compiler may say.
const LOG: usize = 8 << 10;

/// What the driver's compiler says, and the options that have it say so.
pub(super) struct Log {
    errors: Vec<u8>,
}

impl Log {
    pub(super) fn new() -> Log {
        Log { errors: vec![0; LOG] }
    }

    /// Options for the driver: keys and values.
    pub(super) fn options(&mut self) -> (Vec<Key>, Vec<*mut c_void>) {
        let keys = vec![Key::CU_JIT_ERROR_LOG_BUFFER, Key::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        (keys, vec![self.errors.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG)])
    }

    fn text(&self) -> String {
        let end = self.errors.iter().position(|&b| b == 0).unwrap_or(LOG);
        String::from_utf8_lossy(&self.errors[..end]).trim().to_string()
    }
}

/// The error of a kernel that the driver does not take.
pub(super) fn refused(symbol: &str, what: String, log: &Log) -> Error {
    Error::Refused { symbol: symbol.into(), what, log: log.text() }
}

impl Device {
    /// Compiles an object's text to machine code for this device.  `cpu` is the processor that the text is for, as LLVM
    /// names it: text for one processor alone (`sm_90a`) is compiled for that one.
    ///
    /// # Errors
    ///
    /// The compiler's own words where it refuses the text.
    pub fn link(&self, object: &Object, cpu: &str) -> Result<Vec<u8>, Error> {
        self.enter()?;
        let mut limit = FEWEST;
        let most = MOST.min(REGISTERS / object.threads.max(1));
        while let Some(least) = object.spill.filter(|_| limit <= most && object.ptx.len() < LONG) {
            // Older drivers do not know of limits by option, and where memory is short there is none to look at the code.
            let Ok(code) = self.compiled(object, cpu, Some(limit)) else { break };
            let Ok(spilt) = self.spilt(&code, &object.symbol) else { break };
            if spilt <= least {
                return Ok(code);
            }
            if limit > FEWEST {
                break;
            }
            // What was left to memory has its place in as many more.
            limit = ((limit + spilt / 4) / STEP * STEP).max(limit + STEP);
        }
        self.compiled(object, cpu, None)
    }

    /// Machine code that takes at most so many registers.
    fn compiled(&self, object: &Object, cpu: &str, registers: Option<u32>) -> Result<Vec<u8>, Error> {
        let symbol = object.symbol.as_str();
        let mut log = Log::new();
        let (mut keys, mut values) = log.options();
        if let Some(number) = cpu.strip_prefix("sm_").and_then(|rest| rest.strip_suffix('a')?.parse::<usize>().ok()) {
            keys.push(Key::CU_JIT_TARGET);
            values.push(ptr::without_provenance_mut(sys::CU_COMPUTE_ACCELERATED_TARGET_BASE as usize + number));
        }
        // The number of threads, which the text has, would decide otherwise.
        let (mut own_keys, mut own_values) = match registers {
            Some(limit) => (
                vec![Key::CU_JIT_MAX_REGISTERS, Key::CU_JIT_OVERRIDE_DIRECTIVE_VALUES],
                vec![ptr::without_provenance_mut(limit as usize), ptr::without_provenance_mut(1)],
            ),
            None => (Vec::new(), Vec::new()),
        };
        let text = CString::new(object.ptx.as_str()).map_err(|e| refused(symbol, e.to_string(), &Log::new()))?;
        let name = CString::new(symbol).unwrap_or_default();
        let mut state = MaybeUninit::uninit();
        // SAFETY: options and log outlive the link; the state is written on success and destroyed once; the text ends
        // with a zero, which counts; the code belongs to the state and is copied before that goes.
        unsafe {
            let code =
                sys::cuLinkCreate_v2(keys.len() as u32, keys.as_mut_ptr(), values.as_mut_ptr(), state.as_mut_ptr());
            self.check("cuLinkCreate", code)?;
            let state = state.assume_init();
            let (mut start, mut len) = (ptr::null_mut(), 0);
            let bytes = text.as_bytes_with_nul();
            let mut code = sys::cuLinkAddData_v2(
                state,
                sys::CUjitInputType::CU_JIT_INPUT_PTX,
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
                name.as_ptr(),
                own_keys.len() as u32,
                own_keys.as_mut_ptr(),
                own_values.as_mut_ptr(),
            );
            if code == CUresult::CUDA_SUCCESS {
                code = sys::cuLinkComplete(state, &mut start, &mut len);
            }
            let linked = match code {
                CUresult::CUDA_SUCCESS => Ok(std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec()),
                code => Err(refused(symbol, described(code), &log)),
            };
            let _ = sys::cuLinkDestroy(state);
            linked
        }
    }

    /// Bytes of a thread that a kernel leaves to memory.
    fn spilt(&self, code: &[u8], symbol: &str) -> Result<u32, Error> {
        let name = CString::new(symbol).unwrap_or_default();
        let (mut module, mut function, mut bytes) = (MaybeUninit::uninit(), MaybeUninit::uninit(), 0);
        // SAFETY: the code was just linked; handles are written on success, and only then read; nobody else has the module.
        unsafe {
            self.check("cuModuleLoadData", sys::cuModuleLoadData(module.as_mut_ptr(), code.as_ptr().cast()))?;
            let module = module.assume_init();
            let got = sys::cuModuleGetFunction(function.as_mut_ptr(), module, name.as_ptr());
            let asked = self.check("cuModuleGetFunction", got).and_then(|()| {
                let local = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
                let code = sys::cuFuncGetAttribute(&mut bytes, local, function.assume_init());
                self.check("cuFuncGetAttribute", code)
            });
            let _ = sys::cuModuleUnload(module);
            asked.map(|()| u32::try_from(bytes).unwrap_or(0))
        }
    }
}
