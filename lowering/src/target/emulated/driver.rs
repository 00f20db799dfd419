//! Compiles programs for the emulated GPU and runs each lane on a thread.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};

use inkwell::context::Context;

use super::emit::{Emulated, SLOTS};
use super::fragment;
use crate::llvm::tensor_map::{STEP, Tensor, TensorMap};
use crate::llvm::{lower_body, started};
use crate::spec::Spec;
use crate::target::host::{Kernel, Object, load, spec as processor};
use crate::target::module;
use crate::tile::Program;

/// A program, loaded.
pub struct Loaded {
    kernel: Kernel,
    scratch: u32,
    maps: Vec<TensorMap>,
    spec: Spec,
}

/// A GPU with few lanes, so that few threads have to meet.
pub fn spec(lanes: u32, warps: u32) -> Spec {
    Spec { name: "emulated".into(), lanes, warps, load_bytes: 16, shared_bytes: 128 << 10, ..processor() }
}

/// The emulated GPU that multiplies and copies as a machine does, for programs of so many warps.
pub fn like(machine: &Spec, warps: u32) -> Spec {
    let &Spec { matrices, group, boxes, .. } = machine;
    Spec { name: machine.name.clone(), matrices, group, boxes, ..spec(machine.lanes, warps) }
}

/// What the threads of a program share.
struct Meeting {
    warps: Vec<(Barrier, Vec<AtomicU32>)>,
    all: Barrier,
    spec: Spec,
    /// What each lane of each warp hands to a matrix instruction.
    operands: Vec<Mutex<Vec<Vec<u32>>>>,
    /// What the engine knows of the buffers.
    tensors: Vec<Tensor>,
}

extern "C" fn exchange(meeting: *const Meeting, warp: u32, lane: u32, word: u32, from: u32) -> u32 {
    // SAFETY: the address is that of the meeting that outlives all threads.
    let meeting = unsafe { &*meeting };
    let (barrier, words) = &meeting.warps[warp as usize];
    words[lane as usize].store(word, Relaxed);
    barrier.wait();
    let got = words[from as usize % words.len()].load(Relaxed);
    barrier.wait();
    got
}

extern "C" fn wait(meeting: *const Meeting) {
    // SAFETY: as above.
    unsafe { &*meeting }.all.wait();
}

extern "C" fn multiply(meeting: *const Meeting, warp: u32, lane: u32, which: u32, words: *mut u32) {
    // SAFETY: as above; `words` holds as many as the lanes of such an instruction have elements.
    let (meeting, words) = unsafe {
        let meeting = &*meeting;
        let count = fragment::words(&meeting.spec.name, &meeting.spec.matrices[which as usize]);
        (meeting, std::slice::from_raw_parts_mut(words, count))
    };
    let warp = warp as usize;
    let operands = || meeting.operands[warp].lock().unwrap();
    operands()[lane as usize] = words.to_vec();
    meeting.warps[warp].0.wait();
    let result = fragment::multiply(&meeting.spec.name, &meeting.spec.matrices[which as usize], &operands(), lane);
    let first = words.len() - result.len();
    words[first..].copy_from_slice(&result);
    meeting.warps[warp].0.wait();
}

/// Copies a box as the engine does: zeros from where the tensor's rows end, and where it has no more of them.
extern "C" fn copy(meeting: *const Meeting, map: u32, x: u32, y: u32, z: u32, to: *mut u8) {
    // SAFETY: as above.
    let Tensor { start, bytes, stride, extents: [width, rows] } = unsafe { &*meeting }.tensors[map as usize];
    let pieces = width * bytes / STEP;
    for (row, number) in (0..rows).flat_map(|row| (0..width * bytes).map(move |number| (row, number))) {
        let (across, down) = (x * bytes + number, y + row);
        let (piece, inside) = (number / STEP, number % STEP);
        let place = row * width * bytes + (piece ^ (row % pieces)) * STEP + inside;
        let before = u64::from(across) + u64::from(down) * stride + u64::from(z) * u64::from(STEP);
        // SAFETY: the kernel asks for boxes of its buffers alone, and has room for them where it wants them.
        unsafe {
            let from = std::ptr::with_exposed_provenance::<u8>(start.wrapping_add(before) as usize);
            *to.add(place as usize) = if across < width * bytes && down < rows { *from } else { 0 };
        }
    }
}

/// Compiles and loads a program.
pub fn compile(program: &Program, spec: &Spec) -> Result<Loaded, String> {
    let native = module::native(program, &mut |_, _| {});
    let spec = &started(&native, Spec { absent: program.absent, ..spec.clone() });
    let context = Context::create();
    crate::target::host::Compiler::initialise();
    let text = |error: module::Error| error.to_string();
    let (ir, machine, symbol) = module::begin(&context, &native, spec).map_err(text)?;
    let emulated = Emulated::begin(&ir, &native, spec, &symbol);
    lower_body(&ir, &emulated, &native, spec);
    let (scratch, maps) = emulated.end(&ir);
    module::optimise(&ir, &machine, "function(early-cse<memssa>,gvn)", &native, &mut |_, _| {}).map_err(text)?;
    let bytes = module::relocatable(&ir, &machine, &native).map_err(text)?;
    let kernel = load(&Object { symbol, bytes }).map_err(text)?;
    Ok(Loaded { kernel, scratch, maps, spec: spec.clone() })
}

impl Loaded {
    /// What the engine that copies boxes has to know.
    pub fn maps(&self) -> &[TensorMap] {
        &self.maps
    }

    /// Runs all programs of a grid, one after the other, each on all of its threads; gives the code of a failed check.
    ///
    /// # Safety
    ///
    /// As for [`Kernel::launch`].
    pub unsafe fn launch(&self, grid: [u32; 3], params: &[u64]) -> u32 {
        let (lanes, warps) = (self.spec.lanes, self.spec.present());
        let threads = lanes * warps;
        let words = || (0..lanes).map(|_| AtomicU32::new(0)).collect();
        let meeting = Meeting {
            warps: (0..warps).map(|_| (Barrier::new(lanes as usize), words())).collect(),
            all: Barrier::new(threads as usize),
            spec: self.spec.clone(),
            operands: (0..warps).map(|_| Mutex::new(vec![Vec::new(); lanes as usize])).collect(),
            tensors: self.maps.iter().map(|map| map.tensor(params)).collect(),
        };
        let scratch = vec![0u128; self.scratch as usize / 16 + 1];
        let status = AtomicU32::new(0);
        let run = |thread: u32| {
            let own: [u64; SLOTS] = [
                (thread % lanes).into(),
                (thread / lanes).into(),
                &raw const meeting as u64,
                exchange as *const () as u64,
                wait as *const () as u64,
                scratch.as_ptr() as u64,
                multiply as *const () as u64,
                copy as *const () as u64,
            ];
            let params: Vec<u64> = params.iter().copied().chain(own).collect();
            for (z, y, x) in
                (0..grid[2]).flat_map(|z| (0..grid[1]).flat_map(move |y| (0..grid[0]).map(move |x| (z, y, x))))
            {
                let ids = [x, x + 1, y, z, grid[0], grid[1], grid[2]];
                // SAFETY: as the caller promises; what follows the parameters lives until all threads have ended.
                unsafe { self.kernel.call(&params, &ids, &status) };
                meeting.all.wait();
            }
        };
        std::thread::scope(|scope| {
            (0..threads).for_each(|thread| {
                scope.spawn(move || run(thread));
            });
        });
        status.into_inner()
    }
}
