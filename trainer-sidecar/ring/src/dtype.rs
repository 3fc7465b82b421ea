//! Element types a column can have in a slot.
//!
//! *In:* a name or a wire number. *Out:* the type, its width. *Promise:* wire numbers never change
//! meaning. *Knows nothing* of Arrow's or TensorFlow's own numbering.

macro_rules! dtypes {
    ($($variant:ident = $wire:literal, $name:literal, $size:literal;)*) => {
        /// The element type of a column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum DType { $(#[doc = concat!("`", $name, "`")] $variant = $wire,)* }

        impl DType {
            /// All types, in the order of their wire numbers.
            pub const ALL: &[DType] = &[$(DType::$variant,)*];

            /// The name used in the description JSON, for example `float32`.
            pub fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Bytes of one element; `None` for `string` and `bytes`, whose elements vary.
            pub fn size(self) -> Option<u64> {
                let size: u64 = match self { $(DType::$variant => $size,)* };
                (size > 0).then_some(size)
            }

            pub(crate) fn from_wire(wire: u32) -> Option<DType> {
                match wire { $($wire => Some(DType::$variant),)* _ => None }
            }
        }
    };
}

dtypes! {
    Bool = 1, "bool", 1;
    Int8 = 2, "int8", 1;
    Int16 = 3, "int16", 2;
    Int32 = 4, "int32", 4;
    Int64 = 5, "int64", 8;
    UInt8 = 6, "uint8", 1;
    UInt16 = 7, "uint16", 2;
    UInt32 = 8, "uint32", 4;
    UInt64 = 9, "uint64", 8;
    Float16 = 10, "float16", 2;
    BFloat16 = 11, "bfloat16", 2;
    Float32 = 12, "float32", 4;
    Float64 = 13, "float64", 8;
    String = 14, "string", 0;
    Bytes = 15, "bytes", 0;
}

impl DType {
    /// The type of this name, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    pub(crate) fn wire(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_wire_numbers_lead_back_to_the_type() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            assert_eq!(DType::from_wire(dtype.wire()), Some(dtype));
        }
        assert_eq!(DType::from_name("complex64"), None);
        assert_eq!(DType::from_wire(0), None);
    }
}
