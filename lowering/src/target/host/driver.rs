//! Loads objects into this process and calls the kernels in them.
//!
//! One JIT linker lives as long as the process; each kernel gets a library of its own in it, which is emptied and used
//! again when the kernel is dropped.  No linker program and no file takes part.

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcLLJITAddObjectFile, LLVMOrcLLJITGetExecutionSession, LLVMOrcLLJITMangleAndIntern,
    LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::{
    LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols,
    LLVMOrcCJITDylibSearchOrderElement, LLVMOrcCLookupSetElement, LLVMOrcCSymbolMapPair,
    LLVMOrcExecutionSessionCreateBareJITDylib, LLVMOrcExecutionSessionLookup, LLVMOrcJITDylibClear,
    LLVMOrcJITDylibDefine, LLVMOrcJITDylibLookupFlags, LLVMOrcJITDylibRef, LLVMOrcLookupKind, LLVMOrcSymbolLookupFlags,
};

use super::object::{Object, initialise};
use super::pool::Pool;
use crate::target::Error;

/// What a kernel is: parameter slots, ids (x₀, x₁, y, z, extents of the grid), status.
pub(super) type Entry = unsafe extern "C" fn(params: *const u64, ids: *const u32, status: *mut u32);

/// A loaded kernel; its clones are the same one.
#[derive(Clone)]
pub struct Kernel {
    code: Arc<Code>,
}

struct Code {
    entry: Entry,
    symbol: String,
    library: Library,
}

/// A library of the JIT linker that holds one kernel.
struct Library(LLVMOrcJITDylibRef);

// SAFETY: LLVM guards its session with a lock, and ours is held around every use besides; the code is never written.
unsafe impl Send for Library {}
// SAFETY: as above; a shared reference gives nothing but the code's address.
unsafe impl Sync for Library {}

/// The linker, and libraries that kernels have left.
struct Linker {
    jit: LLVMOrcLLJITRef,
    vacant: Vec<Library>,
    made: usize,
}

// SAFETY: used by one thread at a time, behind a mutex, and bound to none.
unsafe impl Send for Linker {}

fn linker() -> Result<MutexGuard<'static, Linker>, String> {
    static LINKER: OnceLock<Result<Mutex<Linker>, String>> = OnceLock::new();
    let linker = LINKER.get_or_init(|| {
        initialise();
        let mut jit = ptr::null_mut();
        // SAFETY: a null builder asks for the defaults; `jit` outlives the call and is written on success.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()) })?;
        Ok(Mutex::new(Linker { jit, vacant: Vec::new(), made: 0 }))
    });
    match linker {
        Ok(linker) => Ok(linker.lock().unwrap_or_else(PoisonError::into_inner)),
        Err(message) => Err(message.clone()),
    }
}

fn check(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is ours to consume once; the message is a C string until it is disposed of.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(text)
    }
}

/// Loads an object.  It may come from a file: whether it is whole is the caller's business (a checksum), whether it is
/// for this machine and complete in itself is checked here.
pub fn load(object: &Object) -> Result<Kernel, Error> {
    object.check()?;
    let failed = |message| Error::Load { symbol: object.symbol.clone(), message };
    let mut linker = linker().map_err(failed)?;
    let library = linker.library().map_err(failed)?;
    match linker.add(&library, object) {
        Ok(address) => {
            // SAFETY: the linker resolved the symbol in an object that this compiler emitted: code with this signature.
            let entry = unsafe { std::mem::transmute::<usize, Entry>(address) };
            Ok(Kernel { code: Arc::new(Code { entry, symbol: object.symbol.clone(), library }) })
        }
        Err(message) => {
            linker.vacate(library);
            Err(failed(message))
        }
    }
}

impl Linker {
    /// An empty library, in which the memory functions are known.
    fn library(&mut self) -> Result<Library, String> {
        let library = match self.vacant.pop() {
            Some(library) => library,
            None => {
                self.made += 1;
                let name = CString::new(format!("kernel{}", self.made)).map_err(|e| e.to_string())?;
                // SAFETY: the session belongs to the live linker, and the name is unique in it.
                Library(unsafe {
                    LLVMOrcExecutionSessionCreateBareJITDylib(LLVMOrcLLJITGetExecutionSession(self.jit), name.as_ptr())
                })
            }
        };
        let mut pairs = memory_functions().map(|(name, address)| LLVMOrcCSymbolMapPair {
            // SAFETY: the name is a C string; the interned symbol is handed over to the symbol map below.
            Name: unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, name.as_ptr()) },
            Sym: LLVMJITEvaluatedSymbol {
                Address: address as u64,
                Flags: LLVMJITSymbolFlags {
                    GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8,
                    TargetFlags: 0,
                },
            },
        });
        // SAFETY: the map takes over the names; the unit goes to the library at once, which consumes it.
        check(unsafe { LLVMOrcJITDylibDefine(library.0, LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len())) })?;
        Ok(library)
    }

    /// Links an object and gives the kernel's address.
    fn add(&mut self, library: &Library, object: &Object) -> Result<usize, String> {
        let name = CString::new(object.symbol.as_str()).map_err(|e| e.to_string())?;
        let mut found: Result<usize, String> = Err("the linker did not answer".into());
        // SAFETY: the buffer is copied and handed over; the lookup answers before it returns, since the session has no
        // threads of its own, so `found` is alive when it is written; the interned name is consumed by the lookup.
        unsafe {
            let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
                object.bytes.as_ptr().cast(),
                object.bytes.len(),
                name.as_ptr(),
            );
            check(LLVMOrcLLJITAddObjectFile(self.jit, library.0, buffer))?;
            let mut order = [LLVMOrcCJITDylibSearchOrderElement {
                JD: library.0,
                JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly,
            }];
            let mut symbols = [LLVMOrcCLookupSetElement {
                Name: LLVMOrcLLJITMangleAndIntern(self.jit, name.as_ptr()),
                LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
            }];
            LLVMOrcExecutionSessionLookup(
                LLVMOrcLLJITGetExecutionSession(self.jit),
                LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
                order.as_mut_ptr(),
                order.len(),
                symbols.as_mut_ptr(),
                symbols.len(),
                answer,
                (&raw mut found).cast(),
            );
        }
        found
    }

    /// Takes a library back and frees what is in it.
    fn vacate(&mut self, library: Library) {
        // SAFETY: nothing runs in the library any more: its kernel is gone, or never came to be.
        if check(unsafe { LLVMOrcJITDylibClear(library.0) }).is_ok() {
            self.vacant.push(library);
        }
    }
}

/// Receives the result of a lookup.
extern "C" fn answer(error: LLVMErrorRef, result: *mut LLVMOrcCSymbolMapPair, count: usize, found: *mut c_void) {
    // SAFETY: `found` is the caller's variable in `add`; `result` holds `count` pairs where there is no error.
    unsafe {
        *found.cast::<Result<usize, String>>() = check(error).and_then(|()| match count {
            1 => Ok((*result).Sym.Address as usize),
            _ => Err(format!("{count} symbols instead of one")),
        });
    }
}

/// The functions that LLVM makes out of loads and stores, by the names it knows them under.
fn memory_functions() -> [(&'static CStr, usize); 3] {
    unsafe extern "C" {
        fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
        fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
        fn memset(to: *mut c_void, value: i32, bytes: usize) -> *mut c_void;
    }
    [
        (c"memcpy", memcpy as *const () as usize),
        (c"memmove", memmove as *const () as usize),
        (c"memset", memset as *const () as usize),
    ]
}

impl Drop for Code {
    fn drop(&mut self) {
        let library = Library(self.library.0);
        if let Ok(mut linker) = linker() {
            linker.vacate(library);
        }
    }
}

impl Kernel {
    /// Name of the kernel.
    pub fn symbol(&self) -> &str {
        &self.code.symbol
    }

    /// Runs one thread of a kernel whose lanes are threads; see [`emulated`](crate::target::emulated).
    ///
    /// # Safety
    ///
    /// As for [`launch`](Kernel::launch); `params` ends with the thread's place and its neighbours.
    #[cfg(test)]
    pub(in crate::target) unsafe fn call(&self, params: &[u64], ids: &[u32; 7], status: &AtomicU32) {
        // SAFETY: as the caller promises.
        unsafe { (self.code.entry)(params.as_ptr(), ids.as_ptr(), status.as_ptr()) }
    }

    /// Runs every program of a grid on a pool and returns when all are done.  `status` gets the code of the first
    /// failed check, unless it holds one already.
    ///
    /// # Safety
    ///
    /// `params` has a slot per parameter of the program, and in each buffer's slot the address of memory that is valid
    /// for all elements that the programs access, aligned to its element type, and not accessed by others meanwhile
    /// (reading what the program only reads is fine).
    pub unsafe fn launch(&self, pool: &Pool, grid: [u32; 3], params: &[u64], status: &AtomicU32) {
        pool.run(grid, &|ids| {
            // SAFETY: as the caller promises.
            unsafe { self.run(ids, params, status) }
        });
    }

    /// Runs some programs of a grid on this thread: x₀ … x₁−1 at one y and z, followed by the extents of the grid.
    ///
    /// # Safety
    ///
    /// As for [`Kernel::launch`], as far as these programs access memory.
    pub unsafe fn run(&self, ids: &[u32; 7], params: &[u64], status: &AtomicU32) {
        // SAFETY: the caller vouches for the slots; `ids` has seven entries; `status` outlives the call and is only
        // accessed atomically.
        unsafe { (self.code.entry)(params.as_ptr(), ids.as_ptr(), status.as_ptr()) }
    }
}
