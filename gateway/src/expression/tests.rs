//! What expressions mean, case by case; random ones against an evaluation row by row, and pruning against both.

pub(crate) mod random;
mod refusals;

use std::sync::Arc;

use arrow::array::types::TimestampNanosecondType;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int64Array, ListArray, PrimitiveArray, StringArray, StructArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Int32Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::*;

/// 2^53 + 1, which DOUBLE cannot hold.
const ODD: i64 = (1 << 53) + 1;

/// Five rows.
pub(super) fn rows() -> RecordBatch {
    let moments = [Some(0), Some(1_706_702_400_000_000_001), None, Some(-1), Some(86_400_000_000_000)];
    let moments: PrimitiveArray<TimestampNanosecondType> = moments.into_iter().collect();
    let decimals = Decimal128Array::from(vec![Some(1010), Some(-5), None, Some(0), Some(999)]);
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)]), None, None, None, None]);
    let columns: [(&str, ArrayRef); 13] = [
        ("i", Arc::new(Int64Array::from(vec![Some(1), Some(-3), None, Some(i64::MAX), Some(ODD)]))),
        ("n", Arc::new(Int8Array::from(vec![Some(5), Some(-128), Some(0), Some(127), None]))),
        ("u", Arc::new(UInt64Array::from(vec![Some(0), Some(u64::MAX), None, Some(7), Some(1 << 63)]))),
        (
            "f",
            Arc::new(Float64Array::from(vec![
                Some(1.5),
                Some(f64::NAN),
                Some(-0.0),
                None,
                Some((1u64 << 53) as f64),
            ])),
        ),
        ("g", Arc::new(Float32Array::from(vec![Some(0.1), Some(2.0), None, Some(-1.0), Some(100.0)]))),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("apple"), Some(" Äpfel "), None, Some(""), Some("banana")])),
        ),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true), None]))),
        ("day", Arc::new(Date32Array::from(vec![Some(0), Some(19_753), None, Some(-1), Some(1)]))),
        ("t", Arc::new(moments.with_timezone("+02:00"))),
        ("price", Arc::new(decimals.with_precision_and_scale(9, 2).unwrap())),
        ("list", Arc::new(lists)),
        (
            "raw",
            Arc::new(BinaryArray::from(vec![
                Some(b"apple".as_slice()),
                Some(&[0xff]),
                None,
                Some(b""),
                Some(b"x"),
            ])),
        ),
        ("a b", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]))),
    ];
    RecordBatch::try_from_iter(columns.map(|(name, column)| (name, column))).unwrap()
}

fn evaluated(text: &str) -> ArrayRef {
    let rows = rows();
    let places: Vec<usize> = (0..rows.num_columns()).collect();
    let expression =
        Expression::parse(&format!("{text} AS x"), &rows.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let made = expression.evaluate(Input { batch: &rows, places: &places }).unwrap();
    assert_eq!(made.data_type(), expression.field().data_type(), "{text}");
    made
}

/// The values of an expression, one a row.
fn check(text: &str, expected: &str) {
    let made = evaluated(text);
    let options = FormatOptions::new().with_null("-");
    let shown = ArrayFormatter::try_new(&made, &options).unwrap();
    let shown: Vec<String> = (0..made.len()).map(|row| shown.value(row).to_string()).collect();
    assert_eq!(shown.join(" | "), expected, "{text}");
}

/// Which rows pass, as digits.
fn passing(text: &str) -> String {
    let rows = rows();
    let predicate = Predicate::parse(text, &rows.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
    // Only what it reads is there.
    let batch = rows.project(predicate.columns()).unwrap();
    let passes = predicate.passes(Input { batch: &batch, places: predicate.columns() }).unwrap();
    assert_eq!(passes.len(), 5);
    passes.set_indices().map(|row| row.to_string()).collect()
}

#[test]
fn comparisons_of_numbers_are_exact_across_types() {
    assert_eq!(passing("i > 0"), "034");
    assert_eq!(passing("0 < i"), "034");
    assert_eq!(passing("i = 9007199254740993"), "4");
    assert_eq!(passing("i > f"), "4", "2^53 + 1 is above 2^53, and NaN is nothing's equal");
    assert_eq!(passing("i <= 9007199254740992.0"), "01");
    assert_eq!(passing("i = 9223372036854775808"), "", "beyond BIGINT");
    assert_eq!(passing("i < 9223372036854775808"), "0134");
    assert_eq!(passing("i >= -9223372036854775808"), "0134");
    assert_eq!(passing("u > i"), "14");
    assert_eq!(passing("u = 18446744073709551615"), "1");
    assert_eq!(passing("n = -128 OR n = 127"), "13");
    assert_eq!(passing("price = 10.10 OR price < 0"), "01");
}

#[test]
fn nan_and_zero_follow_ieee() {
    assert_eq!(passing("f = f"), "024");
    assert_eq!(passing("f <> f"), "1");
    assert_eq!(passing("f = 0"), "2");
    assert_eq!(passing("NOT f > 1"), "12");
    assert_eq!(passing("is_nan(f)"), "1");
}

#[test]
fn conditions_know_three_values() {
    assert_eq!(passing("b"), "03");
    assert_eq!(passing("NOT b"), "1");
    assert_eq!(passing("b IS NULL"), "24");
    assert_eq!(passing("b IS NOT TRUE"), "124");
    assert_eq!(passing("b IS FALSE"), "1");
    assert_eq!(passing("b = NULL OR NULL"), "");
    assert_eq!(passing("NULL"), "");
    assert_eq!(passing("TRUE"), "01234");
    assert_eq!(passing("1 = 1 AND NOT 2 < 1"), "01234");
    check("b AND NULL", "- | false | - | - | -");
    check("b OR NULL", "true | - | - | true | -");
    assert_eq!(passing("i IN (1, 2, -3)"), "01");
    assert_eq!(passing("i NOT IN (1, NULL)"), "");
    assert_eq!(passing("i IN (1, NULL)"), "0");
    assert_eq!(passing("u IN (7, 9223372036854775808)"), "34");
    assert_eq!(passing("f IN (1.5, 3)"), "0");
    assert_eq!(passing("s IN ('apple', '')"), "03");
    assert_eq!(passing("i BETWEEN -3 AND 1"), "01");
    assert_eq!(passing("i NOT BETWEEN -3 AND 1"), "34");
    assert_eq!(passing("list IS NOT NULL"), "0");
    assert_eq!(passing("\"a b\" > 3 AND `a b` < 5"), "3");
}

#[test]
fn what_cannot_be_computed_is_null() {
    check("i + 1", "2 | -2 | - | - | 9007199254740994");
    check("-i * 2", "-2 | 6 | - | - | -18014398509481986");
    check("10 % (n + 128)", "10 | - | 10 | 10 | -");
    check("i / 2", "0.5 | -1.5 | - | 4.611686018427388e18 | 4503599627370496.0");
    check("1 / n", "0.2 | -0.0078125 | inf | 0.007874015748031496 | -");
    check("u + 0", "0 | - | - | 7 | -");
    check("TRY_CAST(s AS INTEGER)", "- | - | - | - | -");
    check("TRY_CAST(f AS BIGINT)", "1 | - | 0 | - | 9007199254740992");
    check("SAFE_CAST(n AS TINYINT UNSIGNED)", "5 | - | 0 | 127 | -");
    check("TRY_CAST('12' AS SMALLINT) + 0", "12 | 12 | 12 | 12 | 12");
    check("abs(i - 9223372036854775807 - 4)", "- | - | - | 4 | 9214364837600034818");
}

#[test]
fn a_cast_refuses_what_it_would_lose() {
    let refused = |text: &str| {
        let rows = rows();
        let places: Vec<usize> = (0..rows.num_columns()).collect();
        let expression = Expression::parse(&format!("{text} AS x"), &rows.schema()).unwrap();
        let error = expression.evaluate(Input { batch: &rows, places: &places }).unwrap_err();
        Uncast::of(&error).unwrap_or_else(|| panic!("{text}: {error}")).to_string()
    };
    insta::assert_snapshot!(
        [
            "CAST(s AS INTEGER)", "i::SMALLINT + 1", "coalesce(CAST(f AS BIGINT), 0)", "CAST(n AS TINYINT UNSIGNED)",
            "CAST(raw AS TEXT)", "CAST(concat(s, s, s, s, s, s, s, s, s, s, s, s, s) AS DATE)",
        ]
        .map(refused)
        .join("\n"), @r#"
        CAST(s AS INTEGER) is not possible for "apple": TRY_CAST(s AS INTEGER) gives NULL there
        CAST(i AS SMALLINT) is not possible for "9223372036854775807": TRY_CAST(i AS SMALLINT) gives NULL there
        CAST(f AS BIGINT) is not possible for "NaN": TRY_CAST(f AS BIGINT) gives NULL there
        CAST(n AS TINYINT UNSIGNED) is not possible for "-128": TRY_CAST(n AS TINYINT UNSIGNED) gives NULL there
        CAST(raw AS TEXT) is not possible for "ff": TRY_CAST(raw AS TEXT) gives NULL there
        CAST(concat(s, s, s, s, s, s, s, s, s, s, s, s, s) AS DATE) is not possible for "appleappleappleappleappleappleappleappleappleappleappleapple…": TRY_CAST(concat(s, s, s, s, s, s, s, s, s, s, s, s, s) AS DATE) gives NULL there
        "#);
    // Where nothing is lost, nothing is refused; NULL stays what it is.
    check("CAST(n AS SMALLINT)", "5 | -128 | 0 | 127 | -");
    check("CAST(CAST(i AS TEXT) AS BIGINT)", "1 | -3 | - | 9223372036854775807 | 9007199254740993");
    check("CAST(nullif(s, s) AS INTEGER)", "- | - | - | - | -");
}

#[test]
fn what_is_decided_already_is_not_cast() {
    let digits = "starts_with(s, '1')";
    assert_eq!(passing(&format!("{digits} AND CAST(s AS INTEGER) > 1")), "");
    assert_eq!(passing(&format!("NOT {digits} OR CAST(s AS INTEGER) > 1")), "0134");
    // Of NULL and another condition nothing is decided.
    assert_eq!(passing("i = -3 AND b IS NULL AND CAST(s AS INTEGER) = 1"), "");
    check(
        "CASE WHEN i > 1 THEN CAST(n AS SMALLINT UNSIGNED) WHEN b THEN 7 WHEN i < 0 THEN -1 ELSE CAST(s AS INTEGER) END",
        "7 | -1 | - | 127 | -",
    );
    check("CASE WHEN TRUE THEN 1 ELSE CAST(s AS INTEGER) END", "1 | 1 | 1 | 1 | 1");
    check("CASE WHEN NULL THEN CAST(s AS INTEGER) ELSE n END", "5 | -128 | 0 | 127 | -");
}

#[test]
fn the_outermost_cast_is_the_type_of_the_column() {
    for (text, expected) in [
        ("CAST(i AS REAL)", DataType::Float32),
        ("CAST(i AS DOUBLE)", DataType::Float64),
        ("n::INT", DataType::Int32),
        ("(TRY_CAST(n AS SMALLINT UNSIGNED))", DataType::UInt16),
        ("CAST(7 AS TINYINT)", DataType::Int8),
        ("CAST(i AS TEXT)", DataType::Utf8),
        ("CAST(n AS INT) + 1", DataType::Int64),
        ("g * 2", DataType::Float64),
        ("u", DataType::UInt64),
        ("n", DataType::Int8),
        ("CASE WHEN b THEN n END", DataType::Int64),
        ("b OR i > 1", DataType::Boolean),
    ] {
        assert_eq!(evaluated(text).data_type(), &expected, "{text}");
    }
}

#[test]
fn members_of_structures_are_columns() {
    let there = NullBuffer::from(vec![true, false, true]);
    let lat: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), Some(2.5), None]));
    let lat_field = Arc::new(Field::new("lat", DataType::Float64, true));
    let at = StructArray::new(vec![Arc::clone(&lat_field)].into(), vec![lat], None);
    let city: ArrayRef = Arc::new(StringArray::from(vec!["Ulm", "hidden", "Bonn"]));
    let fields =
        vec![Field::new("city name", DataType::Utf8, false), Field::new("at", at.data_type().clone(), false)];
    let place = StructArray::new(fields.into(), vec![city, Arc::new(at)], Some(there));
    let rows = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
        ("place", Arc::new(place)),
    ]);
    let rows = rows.unwrap();
    let made = |text: &str| Expression::parse(text, &rows.schema()).unwrap();
    let values = |text: &str| made(text).evaluate(Input { batch: &rows, places: &[0, 1] }).unwrap();
    let field = made("place.\"city name\"").field().as_ref().clone();
    assert_eq!(field, Field::new("city name", DataType::Utf8, true), "null where the place is");
    let cities: ArrayRef = Arc::new(StringArray::from(vec![Some("Ulm"), None, Some("Bonn")]));
    assert_eq!(&values("place.\"city name\" AS c"), &cities);
    let whole = values("place.at AS at");
    assert_eq!(
        (whole.as_struct().null_count(), made("place.at AS at").field().data_type()),
        (1, whole.data_type())
    );
    let double: ArrayRef = Arc::new(Float64Array::from(vec![Some(3.0), None, None]));
    assert_eq!(&values("place.at.lat * 2 AS x"), &double);
    assert_eq!(made("place.at.lat * 2 AS x").columns(), [1]);

    let filter = Predicate::parse("place.at.lat IS NULL AND id < 3", &rows.schema()).unwrap();
    let passes = filter.passes(Input { batch: &rows, places: &[0, 1] }).unwrap();
    assert_eq!(passes.set_indices().collect::<Vec<_>>(), [1]);
    let refused = |text: &str| Predicate::parse(text, &rows.schema()).unwrap_err().to_string();
    assert_eq!(refused("place.at.lon > 1"), "at letter 10: place.at has no member \"lon\", it has \"lat\"");
    assert_eq!(
        refused("plaice.at.lon > 1"),
        "at letter 1: the dataset has no column \"plaice\", did you mean \"place\"?"
    );
    assert_eq!(refused("id.lon > 1"), "at letter 4: id.lon is not read here, id is Int64 and has no members");
}

#[test]
fn names_with_dots_are_written_in_quotes() {
    let inner = vec![Field::new("b", DataType::Int64, true), Field::new("d", DataType::Int64, true)];
    let int = |name: &str| Field::new(name, DataType::Int64, true);
    let schema = Schema::new(vec![
        Field::new("a", DataType::Struct(inner.into()), true),
        int("a.b"),
        int("c.d"),
        int("e"),
        int("e.f.g"),
    ]);
    let read = |text: &str| Predicate::parse(text, &schema).map(|read| read.columns().to_vec());
    assert_eq!(read("\"a.b\" > 1 AND \"c.d\" > 1 AND \"e.f.g\" > 1").unwrap(), [1, 2, 4]);
    assert_eq!(read("\"a\".\"b\" > 1 AND a.d > 1").unwrap(), [0]);
    let refused = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(
        refused("a.b > 1"),
        "at letter 1: a.b is a member of a column and a column of its own: write \"a\".\"b\" for the member, \"a.b\" for the column"
    );
    let told = |written: &str| {
        format!(
            "at letter 1: {written} is no member of a column: the dataset has a column of that name, which is written \"{written}\""
        )
    };
    assert_eq!(refused("c.d > 1"), told("c.d"));
    assert_eq!(refused("e.f.g > 1"), told("e.f.g"));
    assert_eq!(
        refused("c.e > 1"),
        "at letter 1: the dataset has no column \"c\", it has \"a\", \"a.b\", \"c.d\", \"e\", \"e.f.g\"; a name with dots in it is \
         written in double quotes, \"c.e\""
    );
    let item = Expression::parse("c.d", &schema).unwrap_err().to_string();
    assert_eq!(item, told("c.d"));
}

#[test]
fn functions_of_numbers() {
    check("log1p(price)", "2.4069451083182885 | -0.051293294387550536 | - | 0.0 | 2.3969857684155302");
    check("clip(i, 0, 5)", "1 | 0 | - | 5 | 5");
    check("clip(f, 0.5, 2)", "1.5 | NaN | 0.5 | - | 2.0");
    check("floor(f)", "1.0 | NaN | -0.0 | - | 9007199254740992.0");
    check("ceil(g) + round(g) + sign(g)", "2.0 | 5.0 | - | -3.0 | 201.0");
    check("round(i)", "1 | -3 | - | 9223372036854775807 | 9007199254740993");
    check("sqrt(g * g)", "0.10000000149011612 | 2.0 | - | 1.0 | 100.0");
    check("ln(n)", "1.6094379124341003 | NaN | -inf | 4.844187086458591 | -");
    check("power(n, 2)", "25.0 | 16384.0 | 0.0 | 16129.0 | -");
}

#[test]
fn functions_of_texts() {
    check("upper(trim(s))", "APPLE | ÄPFEL | - |  | BANANA");
    check("length(s)", "5 | 7 | - | 0 | 6");
    check("substr(s, 2, 3)", "ppl | Äpf | - |  | ana");
    check("substring(s FROM 3)", "ple | pfel  | - |  | nana");
    check("substr(s, -1, 3)", "a |   | - |  | b");
    check("'<' || s || '>'", "<apple> | < Äpfel > | - | <> | <banana>");
    check(
        "concat(s, CAST(i AS TEXT))",
        "apple1 |  Äpfel -3 | - | 9223372036854775807 | banana9007199254740993",
    );
    assert_eq!(passing("s LIKE '%an%'"), "4");
    assert_eq!(passing("s LIKE '_pple'"), "0");
    assert_eq!(passing("s NOT LIKE 'a%'"), "134");
    assert_eq!(passing("s ILIKE 'APP%'"), "0");
    assert_eq!(passing("starts_with(s, 'b') OR ends_with(s, 'le') OR contains(s, 'Ä')"), "014");
    assert_eq!(passing("s < 'b'"), "013");
    assert_eq!(passing("lower(s) = 'apple'"), "0");
}

#[test]
fn functions_of_any_kind() {
    check("coalesce(f, i, 7)", "1.5 | NaN | -0.0 | 9.223372036854776e18 | 9007199254740992.0");
    check("coalesce(s, '?')", "apple |  Äpfel  | ? |  | banana");
    check("TRY_CAST(raw AS TEXT)", "apple | - | - |  | x");
    check("nullif(n, 0)", "5 | -128 | - | 127 | -");
    check("CASE WHEN i > 1 THEN 'many' WHEN i = 1 THEN 'one' END", "one | - | - | many | many");
    check("CASE n WHEN 5 THEN 1 WHEN 127 THEN 2 ELSE f END", "1.0 | NaN | -0.0 | 2.0 | 9007199254740992.0");
}

#[test]
fn moments_are_exact_and_utc() {
    assert_eq!(passing("t >= '2024-01-31 12:00:00'"), "1");
    assert_eq!(passing("t > TIMESTAMP '2024-01-31 12:00:00'"), "1", "by a nanosecond");
    assert_eq!(passing("t > '2024-01-31T14:00:00.000000001+02:00'"), "");
    assert_eq!(passing("t < '1970-01-01'"), "3");
    assert_eq!(passing("day = DATE '2024-01-31'"), "1");
    assert_eq!(passing("day < t"), "13");
    assert_eq!(passing("t BETWEEN '1970-01-01' AND '1970-01-02'"), "04");
    assert_eq!(passing("day IN ('1970-01-01', '1970-01-02')"), "04");
    assert_eq!(passing("t < TIMESTAMP '9999-12-31 23:59:59'"), "0134");
    check("EXTRACT(year FROM t)", "1970 | 2024 | - | 1969 | 1970");
    check("EXTRACT(dow FROM day) * 100 + EXTRACT(hour FROM t)", "400 | 312 | - | 323 | 500");
    check(
        "coalesce(t, day, '1970-01-03'::TIMESTAMP)",
        "1970-01-01T00:00:00 | 2024-01-31T12:00:00 | 1970-01-03T00:00:00 | 1969-12-31T23:59:59.999999 | 1970-01-02T00:00:00",
    );
}

/// Buckets are features of trained models: these numbers never change. By
/// `xxhash.xxh64_intdigest(…, seed) % n` in Python.
#[test]
fn buckets_are_pinned() {
    check("hash_bucket(i, 1000)", "269 | 603 | - | 972 | 454");
    check("hash_bucket(s, 1000, 7)", "716 | 941 | - | 561 | 278");
}

#[test]
fn a_long_filter_is_read_without_depth() {
    let either: Vec<String> = (0..400).map(|i| format!("i = {i}")).collect();
    assert_eq!(passing(&either.join(" OR ")), "0");
    let listed: Vec<String> = (0..20_000).map(|i| i.to_string()).collect();
    assert_eq!(passing(&format!("i IN ({})", listed.join(", "))), "0");
}
