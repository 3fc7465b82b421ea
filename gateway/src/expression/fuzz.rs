//! Foreign texts for filters and selections.

use arrow::array::Array as _;
use penstock_fuzz::fuzz;

use super::tests::rows;
use super::*;

fn check(given: Result<usize, ArrowError>, rows: usize) {
    match given {
        Ok(given) => assert_eq!(given, rows),
        Err(error) => assert!(Uncast::of(&error).is_some(), "{error}"),
    }
}

#[test]
fn fuzz_expressions() {
    let seeds = [
        "i > 3 AND (s LIKE 'a%' OR n IN (1, 2, 3)) AND NOT b",
        "log1p(abs(f)) + i * 2 - n / 3 AS a",
        "CASE WHEN u BETWEEN 1 AND 7 THEN s ELSE upper(trim(s)) END AS t",
        "u > 3 OR CAST(s AS INT) < 7 AND NOT TRY_CAST(s AS REAL) > 1",
        "CAST(day AS TIMESTAMP) < t AND price >= 9.99 AND raw IS NOT NULL",
        "hash_bucket(s, 100) AS h",
        "least(1, i, n) AS l",
    ];
    let rows = rows();
    let schema = rows.schema();
    let places: Vec<usize> = (0..rows.num_columns()).collect();
    let input = Input { batch: &rows, places: &places };
    let words = |error: ExpressionError| error.to_string().split('"').step_by(2).collect::<String>();
    fuzz("expressions", &seeds.map(|seed| seed.as_bytes().to_vec()), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let filter = Predicate::parse(&text, &schema);
        let selection = Expression::parse(&text, &schema);
        // What is taken fails for what a row holds by a CAST alone.
        if let Ok(filter) = &filter {
            check(filter.passes(input).map(|passes| passes.len()), rows.num_rows());
        }
        if let Ok(selection) = &selection {
            check(selection.evaluate(input).map(|values| values.len()), rows.num_rows());
        }
        let passes = filter.map_or_else(words, |_| "filters".to_owned());
        let gives = selection.map_or_else(words, |selection| selection.field().data_type().to_string());
        format!("{passes} {gives}")
    });
}
