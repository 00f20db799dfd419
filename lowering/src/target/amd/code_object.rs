//! Reads what a code object says of its kernels: the metadata that the loader and the launch go by, the descriptor that
//! the hardware goes by, and the instructions.  Knows nothing of programs and their parameters.
//!
//! Source of the formats: LLVM's User Guide for the AMDGPU Backend, chapters "Code Object Metadata" (version 5 and later,
//! a MessagePack map in the note `NT_AMDGPU_METADATA`) and "Kernel Descriptor" (64 bytes at the symbol `NAME.kd`).

use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object as _, ObjectSection, ObjectSymbol};
use rmpv::ValueRef;

/// Owner and type of the note that holds the metadata.
const NOTE: (&[u8], elf::NoteType) = (b"AMDGPU", elf::NoteType(32));

/// The bytes are not a code object, or lack something that every code object has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a code object of an AMD GPU: {0}")]
pub struct Malformed(String);

/// A linked code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeObject {
    /// `amdgcn-amd-amdhsa--gfx942`
    pub target: String,
    /// The kernels in it.
    pub kernels: Vec<Kernel>,
}

/// One kernel of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name, which a module is asked for.
    pub name: String,
    /// Its arguments, in the order of launching.
    pub args: Vec<Argument>,
    /// Bytes of all arguments.
    pub kernarg_bytes: u32,
    /// Alignment of the arguments.
    pub kernarg_align: u32,
    /// Bytes of shared memory (LDS) of a work-group.
    pub group_bytes: u32,
    /// Bytes of scratch memory of a lane: 0 where everything fits registers.
    pub private_bytes: u32,
    /// Most lanes of a work-group.
    pub max_workgroup: u32,
    /// Lanes of a wavefront.
    pub wavefront: u32,
    /// Scalar registers of a wavefront.
    pub sgprs: u32,
    /// Vector registers of a lane, those for accumulators included.
    pub vgprs: u32,
    /// Scalar registers that had to be put into lanes of vector registers.
    pub sgpr_spills: u32,
    /// Vector registers that had to be put into scratch memory.
    pub vgpr_spills: u32,
    /// Whether every work-group is as large as the launch says.
    pub uniform_workgroup: bool,
    /// What the hardware is set up with.
    pub descriptor: Descriptor,
    /// Its instructions.
    pub code: Vec<u8>,
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the source.
    pub name: String,
    /// Where it lies among the arguments.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// `global_buffer`, `by_value`, or one of those that the loader is to fill in, `hidden_…`.
    pub kind: String,
}

/// The parts of a kernel descriptor that the compiler's contract with the launch rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Bytes of shared memory (LDS) of a work-group.
    pub group_bytes: u32,
    /// Bytes of scratch memory of a lane.
    pub private_bytes: u32,
    /// Bytes of the arguments.
    pub kernarg_bytes: u32,
    /// `COMPUTE_PGM_RSRC1`
    rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2`
    rsrc2: u32,
    /// Which addresses and sizes the first scalar registers are given.
    properties: u16,
}

impl Descriptor {
    /// Whether f32 numbers below the normal ones are kept, as operands and as results.
    pub fn keeps_f32_denormals(self) -> bool {
        self.rsrc1 >> 16 & 3 == 3
    }

    /// Whether f16 and f64 numbers below the normal ones are kept, as operands and as results.
    pub fn keeps_f16_f64_denormals(self) -> bool {
        self.rsrc1 >> 18 & 3 == 3
    }

    /// Whether results are rounded to the nearest, ties to even.
    pub fn rounds_to_nearest(self) -> bool {
        self.rsrc1 >> 12 & 15 == 0
    }

    /// Whether of all that the loader could hand over (addresses of the packet, of the queue and of scratch memory, an
    /// identity, sizes) the kernel wants the address of its arguments alone.
    pub fn wants_arguments_only(self) -> bool {
        const DISPATCH: u16 = 1 << 1;
        const QUEUE: u16 = 1 << 2;
        const ARGUMENTS: u16 = 1 << 3;
        const IDENTITY: u16 = 1 << 4;
        const SCRATCH: u16 = 1 << 5 | 1 << 6;
        self.properties & (DISPATCH | QUEUE | ARGUMENTS | IDENTITY | SCRATCH) == ARGUMENTS
    }

    /// Along which axes of the grid the kernel is told its place.
    pub fn wants_places(self) -> [bool; 3] {
        [7, 8, 9].map(|bit| self.rsrc2 >> bit & 1 == 1)
    }

    /// Lanes of a wavefront.
    pub fn wavefront(self) -> u32 {
        if self.properties >> 10 & 1 == 1 { 32 } else { 64 }
    }
}

impl CodeObject {
    /// Reads a code object, which may come from a file.
    ///
    /// # Errors
    ///
    /// The bytes are not a linked code object, or its metadata lacks an entry that the format asks for.
    pub fn read(bytes: &[u8]) -> Result<CodeObject, Malformed> {
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(|e| Malformed(e.to_string()))?;
        let header = file.elf_header();
        let (machine, kind) = (header.e_machine.get(file.endian()), header.e_type.get(file.endian()));
        if (machine, kind) != (elf::EM_AMDGPU, elf::ET_DYN) {
            return Err(Malformed(format!("wants an ELF machine and type of 224 and 3, got {machine} and {kind}")));
        }
        let metadata = metadata(&file, bytes)?;
        let root = rmpv::decode::read_value_ref(&mut &metadata[..]).map_err(|e| Malformed(e.to_string()))?;
        let root = Map(&root);
        let kernels = root.list("amdhsa.kernels")?.iter().map(|kernel| Kernel::read(Map(kernel), &file));
        Ok(CodeObject { target: root.text("amdhsa.target")?, kernels: kernels.collect::<Result<_, _>>()? })
    }
}

impl CodeObject {
    /// The kernel of that name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn kernel(self, name: &str) -> Result<Kernel, Malformed> {
        let missing = || Malformed(format!("it has no kernel `{name}`"));
        self.kernels.into_iter().find(|kernel| kernel.name == name).ok_or_else(missing)
    }
}

impl Kernel {
    fn read(map: Map<'_>, file: &ElfFile64<'_, Endianness>) -> Result<Kernel, Malformed> {
        let name = map.text(".name")?;
        let descriptor = symbol(file, &map.text(".symbol")?)?;
        let args = map.list(".args").unwrap_or_default().iter().map(|arg| {
            let arg = Map(arg);
            let name = arg.text(".name").unwrap_or_default();
            let (offset, size) = (arg.number(".offset")?, arg.number(".size")?);
            Ok(Argument { name, offset, size, kind: arg.text(".value_kind")? })
        });
        Ok(Kernel {
            args: args.collect::<Result<_, _>>()?,
            kernarg_bytes: map.number(".kernarg_segment_size")?,
            kernarg_align: map.number(".kernarg_segment_align")?,
            group_bytes: map.number(".group_segment_fixed_size")?,
            private_bytes: map.number(".private_segment_fixed_size")?,
            max_workgroup: map.number(".max_flat_workgroup_size")?,
            wavefront: map.number(".wavefront_size")?,
            sgprs: map.number(".sgpr_count")?,
            vgprs: map.number(".vgpr_count")?,
            sgpr_spills: map.number(".sgpr_spill_count")?,
            vgpr_spills: map.number(".vgpr_spill_count")?,
            uniform_workgroup: map.number(".uniform_work_group_size").is_ok_and(|x| x == 1),
            descriptor: Descriptor::read(&descriptor)?,
            code: symbol(file, &name)?,
            name,
        })
    }
}

impl Descriptor {
    fn read(bytes: &[u8]) -> Result<Descriptor, Malformed> {
        if bytes.len() != 64 {
            return Err(Malformed(format!("wants a kernel descriptor of 64 bytes, got {}", bytes.len())));
        }
        let word = |at: usize| bytes[at..at + 4].iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
        Ok(Descriptor {
            group_bytes: word(0),
            private_bytes: word(4),
            kernarg_bytes: word(8),
            rsrc1: word(48),
            rsrc2: word(52),
            properties: word(56) as u16,
        })
    }
}

/// The contents of the note that describes the kernels.
fn metadata<'a>(file: &ElfFile64<'a, Endianness>, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
    let endian = file.endian();
    for segment in file.elf_program_headers() {
        let notes = segment.notes(endian, bytes).map_err(|e| Malformed(e.to_string()))?;
        let Some(mut notes) = notes else { continue };
        while let Some(note) = notes.next().map_err(|e| Malformed(e.to_string()))? {
            if (note.name(), note.n_type(endian)) == NOTE {
                return Ok(note.desc());
            }
        }
    }
    Err(Malformed("it has no note with metadata".into()))
}

/// The bytes that a symbol names.
fn symbol(file: &ElfFile64<'_, Endianness>, name: &str) -> Result<Vec<u8>, Malformed> {
    let missing = || Malformed(format!("it has no contents for the symbol `{name}`"));
    let symbol = file.dynamic_symbols().find(|s| s.name() == Ok(name)).ok_or_else(missing)?;
    let section = symbol.section_index().and_then(|i| file.section_by_index(i).ok()).ok_or_else(missing)?;
    let data = section.data_range(symbol.address(), symbol.size()).ok().flatten().ok_or_else(missing)?;
    Ok(data.to_vec())
}

/// A MessagePack map with texts as keys.
#[derive(Clone, Copy)]
struct Map<'a>(&'a ValueRef<'a>);

impl<'a> Map<'a> {
    fn get(self, key: &str) -> Result<&'a ValueRef<'a>, Malformed> {
        let entries = if let ValueRef::Map(entries) = self.0 { entries.as_slice() } else { &[] };
        let found = entries.iter().find(|(k, _)| matches!(k, ValueRef::String(s) if s.as_str() == Some(key)));
        found.map(|(_, value)| value).ok_or_else(|| Malformed(format!("its metadata has no `{key}`")))
    }

    fn text(self, key: &str) -> Result<String, Malformed> {
        match self.get(key)? {
            ValueRef::String(text) => Ok(text.as_str().unwrap_or_default().to_owned()),
            other => Err(Malformed(format!("`{key}` in its metadata is no text: {other}"))),
        }
    }

    fn number(self, key: &str) -> Result<u32, Malformed> {
        let value = self.get(key)?;
        let number =
            if let ValueRef::Integer(n) = value { n.as_u64().and_then(|n| u32::try_from(n).ok()) } else { None };
        number.ok_or_else(|| Malformed(format!("`{key}` in its metadata is no number: {value}")))
    }

    fn list(self, key: &str) -> Result<&'a [ValueRef<'a>], Malformed> {
        match self.get(key)? {
            ValueRef::Array(list) => Ok(list),
            other => Err(Malformed(format!("`{key}` in its metadata is no list: {other}"))),
        }
    }
}
