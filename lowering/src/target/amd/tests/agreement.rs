//! What holds of every kernel: its metadata and its descriptor say what the launch goes by.

use super::Compiled;
use crate::target::amd::Argument;
use crate::tile::{ParamKind, Program};

/// Panics where something does not hold.
pub fn check(program: &Program, c: &Compiled) {
    let (kernel, machine, descriptor) = (&c.kernel, &c.machine, c.kernel.descriptor);
    let wrong = |what: &str| format!("{what}: {program}\n{}", c.text());

    // One word a parameter, the status word's address, three extents.
    let word = |i: usize, name: String, buffer: bool| {
        let kind = if buffer { "global_buffer" } else { "by_value" };
        Argument { name, offset: 8 * i as u32, size: 8, kind: kind.into() }
    };
    let params = program.params.iter().enumerate();
    let mut args: Vec<Argument> =
        params.map(|(i, (p, data))| word(i, p.to_string(), matches!(data.kind, ParamKind::Buffer { .. }))).collect();
    args.push(word(args.len(), "status".into(), true));
    let end = 8 * args.len() as u32;
    let extents = ["x", "y", "z"].iter().zip(0..);
    let extents = extents.map(|(name, i)| (name.to_string(), end + 4 * i));
    args.extend(extents.map(|(name, offset)| Argument { name, offset, size: 4, kind: "by_value".into() }));
    assert_eq!(kernel.args, args, "{}", wrong("arguments"));
    assert_eq!((kernel.kernarg_bytes, kernel.kernarg_align), (end + 12, 8), "{}", wrong("arguments"));
    assert_eq!(descriptor.kernarg_bytes, end + 12, "{}", wrong("arguments"));

    // A work-group of whole waves, some programs side by side.
    assert_eq!(c.object.threads, machine.lanes * machine.warps * c.object.programs, "{}", wrong("lanes"));
    assert_eq!((kernel.max_workgroup, kernel.uniform_workgroup), (c.object.threads, true), "{}", wrong("work-group"));
    assert_eq!((kernel.wavefront, descriptor.wavefront()), (machine.lanes, machine.lanes), "{}", wrong("wave"));

    // Everything in registers.
    assert_eq!((kernel.private_bytes, descriptor.private_bytes), (0, 0), "{}", wrong("scratch memory"));
    assert_eq!((kernel.spills, c.count("scratch_"), c.count("buffer_")), (0, 0, 0), "{}", wrong("spills"));
    assert_eq!(c.count("flat_"), 0, "{}", wrong("an access of unknown memory"));
    assert_eq!(kernel.group_bytes, descriptor.group_bytes, "{}", wrong("shared memory"));
    assert!(kernel.group_bytes <= machine.shared_bytes, "{}", wrong("shared memory"));

    // Handed the address of its arguments, and its place where it asks for it; nothing is called.
    assert!(descriptor.wants_arguments_only(), "{}", wrong("handed"));
    assert!(descriptor.wants_places()[0], "{}", wrong("place"));
    assert_eq!((c.count("s_endpgm"), c.count("s_swappc")), (1, 0), "{}", wrong("calls"));

    // IEEE arithmetic.
    assert!(descriptor.rounds_to_nearest(), "{}", wrong("rounding"));
    assert!(descriptor.keeps_f32_denormals() && descriptor.keeps_f16_f64_denormals(), "{}", wrong("denormals"));
}
