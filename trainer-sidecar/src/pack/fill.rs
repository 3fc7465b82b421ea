//! A fill value of the request as the bytes of one element.

use arrow::datatypes::{ArrowPrimitiveType, Float16Type};
use penstock_ring::DType;
use serde_json::Value;

/// The bytes of `value` as a `dtype`; `None` if it is not one, or not exactly.
///
/// JSON knows no infinities: floats also take the strings "nan", "inf" and "-inf", and `{"float": "nan"}`, which is no text.
pub(super) fn encode(dtype: DType, value: &Value) -> Option<Vec<u8>> {
    macro_rules! integer {
        ($read:ident, $type:ty) => {
            <$type>::try_from(value.$read()?).ok()?.to_le_bytes().to_vec()
        };
    }
    Some(match dtype {
        DType::Bool => vec![u8::from(value.as_bool()?)],
        DType::Int8 => integer!(as_i64, i8),
        DType::Int16 => integer!(as_i64, i16),
        DType::Int32 => integer!(as_i64, i32),
        DType::Int64 => integer!(as_i64, i64),
        DType::UInt8 => integer!(as_u64, u8),
        DType::UInt16 => integer!(as_u64, u16),
        DType::UInt32 => integer!(as_u64, u32),
        DType::UInt64 => integer!(as_u64, u64),
        DType::Float16 => {
            <Float16Type as ArrowPrimitiveType>::Native::from_f64(float(value)?).to_le_bytes().to_vec()
        }
        DType::Float32 => (float(value)? as f32).to_le_bytes().to_vec(),
        DType::Float64 => float(value)?.to_le_bytes().to_vec(),
        DType::String | DType::Bytes => value.as_str()?.as_bytes().to_vec(),
        // No Arrow type becomes one.
        DType::BFloat16 => return None,
    })
}

fn float(value: &Value) -> Option<f64> {
    match value.get("float").unwrap_or(value).as_str() {
        Some("nan") => Some(f64::NAN),
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        Some(_) => None,
        None => value.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fill_is_a_value_of_the_type_or_nothing() {
        let check = |dtype, value, expected: Option<&[u8]>| {
            assert_eq!(encode(dtype, &value).as_deref(), expected, "{value} as {dtype:?}");
        };
        check(DType::Int8, json!(-1), Some(&[255]));
        check(DType::Int8, json!(128), None);
        check(DType::UInt16, json!(258), Some(&[2, 1]));
        check(DType::UInt16, json!(-1), None);
        check(DType::Int64, json!(0.5), None);
        check(DType::Bool, json!(true), Some(&[1]));
        check(DType::Bool, json!(1), None);
        check(DType::Float16, json!(1), Some(&[0, 0x3c]));
        check(DType::Float32, json!("-inf"), Some(&f32::NEG_INFINITY.to_le_bytes()));
        check(DType::Float64, json!("zero"), None);
        check(DType::Float64, json!({"float": "inf"}), Some(&f64::INFINITY.to_le_bytes()));
        check(DType::Float64, json!({"float": "x"}), None);
        check(DType::String, json!({"float": "nan"}), None);
        check(DType::String, json!("né"), Some("né".as_bytes()));
        check(DType::Bytes, json!(7), None);
    }
}
