//! One schema for all files, and columns by name.

use arrow::array::{Float32Array, Int8Array, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;

fn ints(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn floats(values: impl IntoIterator<Item = f32>) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(values))
}

/// Two files, of which the second is unlike the first, or in another order.
fn unlike(second: Vec<(&str, ArrayRef)>) -> Directory {
    let directory = Directory::new();
    directory.write("a.parquet", [("a", ints([1])), ("x", floats([1.]))]);
    let batch = RecordBatch::try_from_iter(second).unwrap();
    write(&directory.path("b.parquet"), &batch, WriterProperties::default());
    directory
}

#[tokio::test]
async fn a_column_that_is_not_in_all_files_alike_is_refused_by_file_and_column() {
    for (second, column, expected) in [
        (vec![("a", ints([2]))], "x", r#"DIR/b.parquet has no column "x" but DIR/a.parquet has"#),
        (
            vec![("x", ints([2])), ("a", ints([2]))],
            "x",
            r#"column "x" is Int32 in DIR/b.parquet but Float32 in DIR/a.parquet"#,
        ),
        (
            vec![("y", ints([2])), ("a", ints([2])), ("x", floats([2.]))],
            "y",
            r#"DIR/b.parquet has a column "y" but DIR/a.parquet has not"#,
        ),
    ] {
        let directory = unlike(second);
        let place = fs::canonicalize(directory.0.path()).unwrap();
        let expected = expected.replace("DIR", place.to_str().unwrap());
        // Of a list the files are called so, too.
        let listed = format!("file://{0}/a.parquet file://{0}/b.parquet", place.display());
        for uri in [place.to_str().unwrap(), &listed] {
            let snapshot = Dataset::new("test", uri).unwrap().snapshot().await.unwrap();
            let named = |name: &str| vec![name.to_owned()];
            let told = [
                snapshot.project(&[]).map(drop),
                snapshot.project(&named(column)).map(drop),
                snapshot.select(&named(&format!("a + {column} AS z"))).map(drop),
                snapshot.filter(&format!("{column} > 1")).map(drop),
            ];
            for told in told {
                let error = told.unwrap_err();
                assert_eq!(error.code(), penstock_proto::Code::BadFile);
                let text = error.to_string();
                assert!(text.contains(&expected) && text.contains("leave it out with columns"), "{text}");
            }
            assert!(snapshot.project(&named("a")).is_ok());
            assert!(snapshot.filter("a > 1").is_ok());
            let inspected = inspect::Inspection::new(
                &Location::parse(uri).unwrap(),
                &snapshot,
                crate::plan::tests::order(1, penstock_proto::Shuffle::None),
                None,
            );
            let text = inspected.unwrap().to_string();
            assert!(
                text.contains(&format!("{column}  not alike in all files: {expected}"))
                    || text.contains(&expected),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn columns_may_lie_in_any_order() {
    let directory = unlike(vec![("x", floats([2.])), ("a", ints([2]))]);
    let snapshot = directory.snapshot("").await.unwrap();
    let columns: Vec<_> = snapshot.schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(columns, ["a", "x"]);
    let all = snapshot.project(&[]).unwrap();
    for file in &snapshot.files {
        assert_eq!(all.leaves(&file.footer), [0, 1]);
        assert_eq!(file.footer.parquet_schema().column(0).name(), "a");
    }
}

#[tokio::test]
async fn two_columns_of_one_name_are_refused() {
    let directory = Directory::new();
    let batch = RecordBatch::try_from_iter([("a", ints([1])), ("a", ints([2]))]).unwrap();
    write(&directory.path("a.parquet"), &batch, WriterProperties::default());
    let text = directory.refusal("").await;
    assert!(text.contains(r#"a.parquet has two columns named "a""#), "{text}");
}

#[tokio::test]
async fn a_column_may_be_null_if_it_may_in_any_file() {
    let directory = Directory::new();
    directory.write("a.parquet", [("a", ints([1]))]);
    directory.write("b.parquet", [("a", Arc::new(Int32Array::from(vec![None, Some(2)])) as ArrayRef)]);
    let snapshot = directory.snapshot("").await.unwrap();
    assert!(!snapshot.files[0].footer.schema().field(0).is_nullable());
    assert!(snapshot.schema.field(0).is_nullable());
}

#[tokio::test]
async fn columns_come_in_the_order_asked_for() {
    let directory = Directory::new();
    directory.write("a.parquet", [("a", ints([1])), ("b", floats([2.])), ("c", ints([3])), ("d", ints([4]))]);
    let snapshot = directory.snapshot("").await.unwrap();
    let columns = ["d", "a", "b"].map(str::to_owned);
    let projection = snapshot.project(&columns).unwrap();
    let file = &snapshot.files[0];
    let reader = fs::File::open(directory.path("a.parquet")).unwrap();
    let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(reader, file.footer.clone())
        .with_projection(projection.mask(&file.footer))
        .build()
        .unwrap();
    let batch = projection.arrange(&batches.last().unwrap().unwrap()).unwrap();
    let expected = RecordBatch::try_from_iter([("d", ints([4])), ("a", ints([1])), ("b", floats([2.]))]);
    assert_eq!(batch, expected.unwrap());
    assert_eq!(batch.schema(), *projection.schema());
    assert_eq!(projection.leaves(&file.footer), [0, 1, 3]);
}

#[tokio::test]
async fn an_unknown_column_is_refused_with_what_is_near() {
    let directory = Directory::new();
    directory.write("a.parquet", [("image", ints([1])), ("label", ints([1]))]);
    let snapshot = directory.snapshot("").await.unwrap();
    let refusal = |columns: &[&str]| {
        let columns: Vec<_> = columns.iter().map(|&column| column.to_owned()).collect();
        snapshot.project(&columns).unwrap_err().to_string()
    };
    assert_eq!(refusal(&["lable"]), r#"the dataset has no column "lable": did you mean "label"?"#);
    assert_eq!(refusal(&["weight"]), r#"the dataset has no column "weight": it has "image", "label""#);
    let inner = Fields::from(vec![Field::new("city name", DataType::Int32, false)]);
    let place = StructArray::new(inner, vec![ints([1])], None);
    directory.write("b.parquet", [("place", Arc::new(place) as ArrayRef), ("a.b", ints([1]))]);
    let dotted = directory.snapshot("b.parquet").await.unwrap();
    let refused = |column: &str| dotted.project(&[column.to_owned()]).unwrap_err().to_string();
    assert!(dotted.project(&["a.b".to_owned()]).is_ok());
    assert_eq!(
        refused(r#""a.b""#),
        r#"the dataset has no column "\"a.b\"": names in columns are written without quotes, "a.b""#
    );
    assert_eq!(
        refused("place.city name"),
        r#"the dataset has no column "place.city name": it is a member of column "place", to be had with select=['place."city name" AS "city name"']"#
    );
    assert_eq!(refusal(&["label", "label"]), r#"column "label" is asked for twice: name it once"#);
}

/// Ten rows in a group: the bytes are those of the values as Arrow holds them.
#[tokio::test]
async fn bytes_are_told_by_the_footer() {
    let directory = Directory::new();
    let words = StringArray::from_iter_values((0..10).map(|_| "word"));
    let dictionary = words.clone();
    let small = Int8Array::from_iter((0..10).map(|i| (i > 0).then_some(i)));
    let lists: arrow::array::ListArray = {
        let values = (0..10).map(|_| Some((0..28).map(Some)));
        arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::UInt8Type, _, _>(values)
    };
    directory.write(
        "a.parquet",
        [
            ("int", ints(0..10)),
            ("small", Arc::new(small) as ArrayRef),
            ("list", Arc::new(lists) as ArrayRef),
            ("word", Arc::new(dictionary) as ArrayRef),
        ],
    );
    let snapshot = directory.snapshot("").await.unwrap();
    let bytes = |column: &str| {
        let shapes = snapshot.block_shapes(&snapshot.project(&[column.to_owned()]).unwrap(), None);
        assert_eq!(shapes.len(), 1);
        shapes[0].bytes
    };
    assert_eq!(bytes("int"), 40);
    assert_eq!(bytes("small"), 10 + 2);
    assert_eq!(bytes("list"), 280 + 40 + 35);
    // Written by dictionary, yet told unencoded: four letters and an offset each.
    assert_eq!(bytes("word"), 40 + 40);
    assert_eq!(*snapshot.schema.field(1).data_type(), DataType::Int8);
}
