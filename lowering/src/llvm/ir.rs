//! LLVM instructions on "the element type of this target": a scalar, or a vector with one element per lane.
//!
//! Every function takes both; the operands of one call are all of the one kind or all of the other.  A panic in here is
//! a bug in the lowering, never a property of the program that is compiled.

use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{
    BasicMetadataValueEnum, BasicValue, BasicValueEnum, InstructionOpcode, InstructionValue, PointerValue, ValueKind,
    VectorValue,
};
use inkwell::{FloatPredicate, IntPredicate};

use crate::dtype::DType;

/// An LLVM value: a scalar or a vector.
pub type Any<'c> = BasicValueEnum<'c>;

/// A function under construction.
pub struct Ir<'c> {
    /// Owner of all types and constants.
    pub context: &'c Context,
    /// What the function belongs to.
    pub module: Module<'c>,
    /// Where instructions go.
    pub builder: Builder<'c>,
}

/// Unwraps what the builder returns: it fails only where it has no position or the operands are of the wrong kind.
pub fn built<T>(result: Result<T, BuilderError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("bug in the lowering: {error}"),
    }
}

impl<'c> Ir<'c> {
    /// An empty module and a builder for it.
    pub fn new(context: &'c Context, name: &str) -> Ir<'c> {
        Ir { context, module: context.create_module(name), builder: context.create_builder() }
    }

    /// The type of one element in registers.  Booleans are single bits; bfloat16 is only ever moved and reinterpreted,
    /// so it is an integer here.
    pub fn scalar_type(&self, dtype: DType) -> BasicTypeEnum<'c> {
        let c = self.context;
        match dtype {
            DType::Bool => c.bool_type().into(),
            DType::I8 | DType::U8 => c.i8_type().into(),
            DType::I16 | DType::U16 | DType::Bf16 => c.i16_type().into(),
            DType::I32 | DType::U32 => c.i32_type().into(),
            DType::I64 | DType::U64 => c.i64_type().into(),
            DType::F16 => c.f16_type().into(),
            DType::F32 => c.f32_type().into(),
            DType::F64 => c.f64_type().into(),
        }
    }

    /// The type of one element in memory: as in registers, but for booleans, which are bytes.
    pub fn memory_type(&self, dtype: DType) -> BasicTypeEnum<'c> {
        if dtype == DType::Bool { self.context.i8_type().into() } else { self.scalar_type(dtype) }
    }

    /// `n` elements side by side; a scalar for `n = 1`.
    pub fn wide(&self, element: BasicTypeEnum<'c>, n: u32) -> BasicTypeEnum<'c> {
        match (n, element) {
            (1, _) => element,
            (_, BasicTypeEnum::IntType(t)) => t.vec_type(n).into(),
            (_, BasicTypeEnum::FloatType(t)) => t.vec_type(n).into(),
            (_, BasicTypeEnum::PointerType(t)) => t.vec_type(n).into(),
            _ => panic!("bug in the lowering: vectors of {element}"),
        }
    }

    /// The element type of a value, itself where it is a scalar.
    pub fn element(&self, ty: BasicTypeEnum<'c>) -> BasicTypeEnum<'c> {
        if let BasicTypeEnum::VectorType(v) = ty { v.get_element_type() } else { ty }
    }

    /// Number of elements side by side; 1 for a scalar.
    pub fn width(&self, value: Any<'c>) -> u32 {
        if let Any::VectorValue(v) = value { v.get_type().get_size() } else { 1 }
    }

    /// A type with the element type `element` and the width of `like`.
    pub fn shaped_like(&self, element: BasicTypeEnum<'c>, like: Any<'c>) -> BasicTypeEnum<'c> {
        self.wide(element, self.width(like))
    }

    /// A constant of one element, by its bit pattern.
    pub fn constant(&self, dtype: DType, bits: u64) -> Any<'c> {
        match self.scalar_type(dtype) {
            BasicTypeEnum::IntType(t) => t.const_int(bits, false).into(),
            float => {
                let bits = match dtype.bytes() {
                    2 => self.context.i16_type().const_int(bits, false),
                    4 => self.context.i32_type().const_int(bits, false),
                    _ => self.context.i64_type().const_int(bits, false),
                };
                self.bitcast(bits.into(), float)
            }
        }
    }

    /// An integer constant of the type of `like`, splat over its width.
    pub fn int_like(&self, like: Any<'c>, value: i64) -> Any<'c> {
        let element = self.element(like.get_type()).into_int_type();
        self.splat(element.const_int(value as u64, true).into(), self.width(like))
    }

    /// A floating-point constant of the type of `like`.
    pub fn float_like(&self, like: Any<'c>, value: f64) -> Any<'c> {
        let element = self.element(like.get_type()).into_float_type();
        self.splat(element.const_float(value).into(), self.width(like))
    }

    /// An i32.
    pub fn i32(&self, value: u32) -> Any<'c> {
        self.context.i32_type().const_int(u64::from(value), false).into()
    }

    /// An i1.
    pub fn bit(&self, value: bool) -> Any<'c> {
        self.context.bool_type().const_int(u64::from(value), false).into()
    }

    /// A constant vector of integers of the type `element`.
    pub fn ints(&self, element: BasicTypeEnum<'c>, values: impl Iterator<Item = u64>) -> Any<'c> {
        let element = element.into_int_type();
        let values: Vec<_> = values.map(|v| element.const_int(v, false)).collect();
        if let [value] = values[..] { value.into() } else { inkwell::types::VectorType::const_vector(&values).into() }
    }

    /// Any value of a type.
    pub fn poison(&self, ty: BasicTypeEnum<'c>) -> Any<'c> {
        match ty {
            BasicTypeEnum::IntType(t) => t.get_poison().into(),
            BasicTypeEnum::FloatType(t) => t.get_poison().into(),
            BasicTypeEnum::VectorType(t) => t.get_poison().into(),
            BasicTypeEnum::PointerType(t) => t.get_poison().into(),
            _ => panic!("bug in the lowering: poison of {ty}"),
        }
    }

    /// One element in all positions.
    pub fn splat(&self, x: Any<'c>, n: u32) -> Any<'c> {
        if n == 1 {
            return x;
        }
        let ty = self.wide(x.get_type(), n);
        let first = self.insert(self.poison(ty), x, 0);
        self.shuffle(first, &vec![0; n as usize])
    }

    /// One element of a vector.
    pub fn extract(&self, x: Any<'c>, i: u32) -> Any<'c> {
        match x {
            Any::VectorValue(v) => built(self.builder.build_extract_element(v, self.i32(i).into_int_value(), "")),
            _ => x,
        }
    }

    /// A vector with one element replaced.
    pub fn insert(&self, x: Any<'c>, element: Any<'c>, i: u32) -> Any<'c> {
        match x {
            Any::VectorValue(v) => {
                built(self.builder.build_insert_element(v, element, self.i32(i).into_int_value(), "")).into()
            }
            _ => element,
        }
    }

    /// Element `i` of the result is element `from[i]` of `x`; a result of one element is a scalar.
    pub fn shuffle(&self, x: Any<'c>, from: &[u32]) -> Any<'c> {
        let Any::VectorValue(v) = x else { return self.splat(x, from.len() as u32) };
        if let [i] = from {
            return self.extract(x, *i);
        }
        if from.len() == v.get_type().get_size() as usize && from.iter().enumerate().all(|(i, &f)| i as u32 == f) {
            return x;
        }
        self.shuffle2(x, self.poison(x.get_type()), from)
    }

    /// Element `i` of the result is element `from[i]` of `x` and `y` side by side.
    pub fn shuffle2(&self, x: Any<'c>, y: Any<'c>, from: &[u32]) -> Any<'c> {
        let mask = self.ints(self.context.i32_type().into(), from.iter().map(|&i| u64::from(i)));
        let mask: VectorValue = mask.into_vector_value();
        built(self.builder.build_shuffle_vector(x.into_vector_value(), y.into_vector_value(), mask, "")).into()
    }

    /// An arithmetic or bitwise instruction.
    pub fn binary(&self, op: InstructionOpcode, x: Any<'c>, y: Any<'c>) -> Any<'c> {
        built(self.builder.build_binop(op, x, y, ""))
    }

    /// A converting instruction, to elements of type `element`.
    pub fn convert(&self, op: InstructionOpcode, x: Any<'c>, element: BasicTypeEnum<'c>) -> Any<'c> {
        built(self.builder.build_cast(op, x, self.shaped_like(element, x), ""))
    }

    /// The same bits as elements of another type of the same width.
    pub fn bitcast(&self, x: Any<'c>, element: BasicTypeEnum<'c>) -> Any<'c> {
        built(self.builder.build_bit_cast(x, self.shaped_like(element, x), ""))
    }

    /// An integer comparison.
    pub fn icmp(&self, predicate: IntPredicate, x: Any<'c>, y: Any<'c>) -> Any<'c> {
        match (x, y) {
            (Any::VectorValue(x), Any::VectorValue(y)) => {
                built(self.builder.build_int_compare(predicate, x, y, "")).into()
            }
            _ => built(self.builder.build_int_compare(predicate, x.into_int_value(), y.into_int_value(), "")).into(),
        }
    }

    /// A floating-point comparison.
    pub fn fcmp(&self, predicate: FloatPredicate, x: Any<'c>, y: Any<'c>) -> Any<'c> {
        match (x, y) {
            (Any::VectorValue(x), Any::VectorValue(y)) => {
                built(self.builder.build_float_compare(predicate, x, y, "")).into()
            }
            _ => built(self.builder.build_float_compare(predicate, x.into_float_value(), y.into_float_value(), ""))
                .into(),
        }
    }

    /// `c ? x : y`, element by element.
    pub fn select(&self, c: Any<'c>, x: Any<'c>, y: Any<'c>) -> Any<'c> {
        match c {
            Any::VectorValue(c) => built(self.builder.build_select(c, x, y, "")),
            _ => built(self.builder.build_select(c.into_int_value(), x, y, "")),
        }
    }

    /// A negated float.
    pub fn fneg(&self, x: Any<'c>) -> Any<'c> {
        match x {
            Any::VectorValue(v) => built(self.builder.build_float_neg(v, "")).into(),
            _ => built(self.builder.build_float_neg(x.into_float_value(), "")).into(),
        }
    }

    /// All bits flipped.
    pub fn not(&self, x: Any<'c>) -> Any<'c> {
        self.binary(InstructionOpcode::Xor, x, self.int_like(x, -1))
    }

    /// Calls an intrinsic that is overloaded over `types` and gives a value.
    pub fn intrinsic(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[Any<'c>]) -> Any<'c> {
        match self.call(name, types, args) {
            ValueKind::Basic(value) => value,
            ValueKind::Instruction(_) => panic!("bug in the lowering: `{name}` gives nothing"),
        }
    }

    /// Calls an intrinsic that is overloaded over `types`.
    pub fn call(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[Any<'c>]) -> ValueKind<'c> {
        let function = Intrinsic::find(name).and_then(|i| i.get_declaration(&self.module, types));
        let Some(function) = function else { panic!("bug in the lowering: no intrinsic `{name}`") };
        let args: Vec<BasicMetadataValueEnum> = args.iter().map(|&a| a.into()).collect();
        built(self.builder.build_call(function, &args, "")).try_as_basic_value()
    }

    /// Reads a value of type `ty`.
    pub fn load(&self, ty: BasicTypeEnum<'c>, address: PointerValue<'c>, align: u32) -> Any<'c> {
        let value = built(self.builder.build_load(ty, address, ""));
        if let Some(inst) = value.as_instruction_value() {
            let _ = inst.set_alignment(align);
        }
        value
    }

    /// Writes a value.
    pub fn store(&self, address: PointerValue<'c>, value: Any<'c>, align: u32) -> InstructionValue<'c> {
        let inst = built(self.builder.build_store(address, value));
        let _ = inst.set_alignment(align);
        inst
    }

    /// Writes a value that no cache needs to keep.
    pub fn store_streaming(&self, address: PointerValue<'c>, value: Any<'c>, align: u32) -> InstructionValue<'c> {
        let inst = self.store(address, value, align);
        let one = self.context.metadata_node(&[self.context.i32_type().const_int(1, false).into()]);
        let _ = inst.set_metadata(one, self.context.get_kind_id("nontemporal"));
        inst
    }
}
