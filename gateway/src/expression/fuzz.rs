//! Foreign texts for filters and selections.

use arrow::array::Array as _;
use penstock_fuzz::fuzz;

use super::tests::rows;
use super::*;

#[test]
fn fuzz_expressions() {
    let seeds = [
        "i > 3 AND (s LIKE 'a%' OR n IN (1, 2, 3)) AND NOT b",
        "log1p(abs(f)) + i * 2 - n / 3 AS a",
        "CASE WHEN u BETWEEN 1 AND 7 THEN s ELSE upper(trim(s)) END AS t",
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
        // What is taken never fails for what a row holds.
        if let Ok(filter) = &filter {
            assert_eq!(filter.passes(input).unwrap().len(), rows.num_rows());
        }
        if let Ok(selection) = &selection {
            assert_eq!(selection.evaluate(input).unwrap().len(), rows.num_rows());
        }
        let passes = filter.map_or_else(words, |_| "filters".to_owned());
        let gives = selection.map_or_else(words, |selection| selection.field().data_type().to_string());
        format!("{passes} {gives}")
    });
}
