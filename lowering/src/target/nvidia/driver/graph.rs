//! Work that comes again and again, recorded once and asked for as a whole: a graph, in the driver's words.  What a kernel
//! is given may differ from one time to the next; products stay as they were recorded.

use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::sys;
use smallvec::SmallVec;

use super::module::with_values;
use super::{Device, Error, Kernel};
use crate::schedule::Gemm;

/// One thing to record.
pub enum Work<'a> {
    /// A kernel.
    Launch {
        /// Which.
        kernel: &'a Kernel,
        /// Numbers of programs.
        grid: [u32; 3],
        /// A word per parameter.
        params: &'a [u64],
        /// Address of the word for the code of a failed check.
        status: u64,
    },
    /// A product by the library.
    Product {
        /// What to compute.
        gemm: &'a Gemm,
        /// Addresses of its buffers, and of its epilogue's bias.
        at: ([u64; 3], Option<u64>),
    },
}

/// Recorded work.
pub struct Graph {
    /// Kept for the names of its nodes.
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    /// A node per kernel, in order.
    nodes: Vec<Node>,
}

struct Node {
    node: sys::CUgraphNode,
    kernel: Kernel,
    grid: [u32; 3],
    /// Parameters and the address of the status word, as they are now.
    words: SmallVec<[u64; 12]>,
}

// SAFETY: handles that any thread may use which has entered the device; one thread at a time has the graph.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the handles are this value's own; the driver keeps what still runs.
        unsafe {
            let _ = sys::cuGraphExecDestroy(self.exec);
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}

impl Graph {
    /// How many kernels it has.
    pub fn kernels(&self) -> usize {
        self.nodes.len()
    }
}

/// A stream that is recording; stops when dropped.
struct Recording(sys::CUstream);

impl Recording {
    fn start(device: &Device, stream: sys::CUstream) -> Result<Recording, Error> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive and used for recording only.
        device.check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream, mode) })?;
        Ok(Recording(stream))
    }

    /// The node that was recorded last.
    fn last(&self, device: &Device) -> Result<sys::CUgraphNode, Error> {
        let (mut status, mut count) = (MaybeUninit::uninit(), 0);
        let mut nodes: *const sys::CUgraphNode = ptr::null();
        // How a next node would wait: the driver does not say what it waits for where it may not say how.
        let mut edges: *const sys::CUgraphEdgeData = ptr::null();
        // SAFETY: what the driver writes outlives the call; its lists are its own until the next recorded call.
        unsafe {
            let (id, graph, edges) = (ptr::null_mut(), ptr::null_mut(), &mut edges);
            let code =
                sys::cuStreamGetCaptureInfo_v3(self.0, status.as_mut_ptr(), id, graph, &mut nodes, edges, &mut count);
            device.check("cuStreamGetCaptureInfo", code)?;
            match count {
                1 => Ok(*nodes),
                _ => Err(Error::Call { call: "cuStreamGetCaptureInfo", what: format!("{count} last nodes") }),
            }
        }
    }

    fn stop(self, device: &Device) -> Result<sys::CUgraph, Error> {
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is recording; the driver writes the handle on success.
        let code = unsafe { sys::cuStreamEndCapture(self.0, &mut graph) };
        std::mem::forget(self);
        device.check("cuStreamEndCapture", code)?;
        Ok(graph)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let mut graph = ptr::null_mut();
        // SAFETY: as in `stop`; what was recorded is thrown away.
        unsafe {
            let _ = sys::cuStreamEndCapture(self.0, &mut graph);
            if !graph.is_null() {
                let _ = sys::cuGraphDestroy(graph);
            }
        }
    }
}

impl Device {
    /// Records work, without asking for it.  It must have run before, so that all it needs is loaded.
    ///
    /// # Safety
    ///
    /// The thread has entered the device; whoever replays the graph vouches for the addresses in it.
    pub unsafe fn record(&self, work: &[Work<'_>]) -> Result<Graph, Error> {
        let stream = self.side()?;
        let recording = Recording::start(self, stream)?;
        let mut nodes = Vec::new();
        for one in work {
            match *one {
                Work::Launch { kernel, grid, params, status } => {
                    // SAFETY: nothing runs yet.
                    unsafe { self.launch_on(stream, kernel, grid, params, status)? };
                    let mut words = SmallVec::from_slice(params);
                    words.push(status);
                    nodes.push(Node { node: recording.last(self)?, kernel: kernel.clone(), grid, words });
                }
                // SAFETY: as above.
                Work::Product { gemm, at } => unsafe { self.product_on(stream, gemm, at)? },
            }
        }
        let graph = recording.stop(self)?;
        let mut exec = ptr::null_mut();
        // SAFETY: the graph was just recorded; it goes with what is made of it.
        match self.check("cuGraphInstantiate", unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0) }) {
            Ok(()) => Ok(Graph { graph, exec, nodes }),
            Err(error) => {
                // SAFETY: as above; it is nobody else's.
                let _ = unsafe { sys::cuGraphDestroy(graph) };
                Err(error)
            }
        }
    }

    /// Gives the `number`th kernel of a graph other parameters from its next replay on.
    pub fn change(&self, graph: &mut Graph, number: usize, params: &[u64], status: u64) -> Result<(), Error> {
        let exec = graph.exec;
        let node = &mut graph.nodes[number];
        let (last, own) = match node.words.split_last() {
            Some((last, own)) => (*last, own),
            None => unreachable!("a status word is always there"),
        };
        if last == status && own == params {
            return Ok(());
        }
        let shape = node.kernel.shape();
        let code = with_values(shape, params, status, node.grid, |values| {
            let given = sys::CUDA_KERNEL_NODE_PARAMS {
                func: node.kernel.function(),
                gridDimX: node.grid[0].div_ceil(shape.programs),
                gridDimY: node.grid[1],
                gridDimZ: node.grid[2],
                blockDimX: shape.threads,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: shape.shared,
                kernelParams: values,
                extra: ptr::null_mut(),
                kern: ptr::null_mut(),
                ctx: ptr::null_mut(),
            };
            // SAFETY: the node is one of this graph's kernels, which takes such parameters; the driver copies them.
            unsafe { sys::cuGraphExecKernelNodeSetParams_v2(exec, node.node, &given) }
        })?;
        self.check("cuGraphExecKernelNodeSetParams", code)?;
        node.words.clear();
        node.words.extend_from_slice(params);
        node.words.push(status);
        Ok(())
    }

    /// Asks for everything in a graph, after everything asked for so far.
    ///
    /// # Safety
    ///
    /// What holds for [`Device::launch`] and [`Device::product`], with the addresses that are in the graph now.
    pub unsafe fn replay(&self, graph: &Graph) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        self.check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(graph.exec, self.stream) })
    }
}
