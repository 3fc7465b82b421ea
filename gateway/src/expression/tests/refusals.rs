//! What is refused, and what the person who wrote it is told.

use super::*;

fn refusal(text: &str) -> String {
    Predicate::parse(text, &rows().schema()).unwrap_err().to_string()
}

fn item(text: &str) -> String {
    Expression::parse(text, &rows().schema()).unwrap_err().to_string()
}

#[test]
fn refusals_say_where_and_what_instead() {
    insta::assert_snapshot!(
        [
            "", "i >", "i > 3 i", "pric > 3", "i > 1 AND\n  pric > 3", "i > 'x'", "i + s > 1", "i", "i AND b", "list = list",
            "i LIKE 'x'", "logp(f) > 1", "log1p(s) > 1", "log1p() > 1", "day > 'yesterday'", "DATE '1.2.2024' = day",
            "CAST(day AS INT) > 1", "CAST(i AS MONEY) > 1", "i IN (SELECT 1)", "s ~ 'x'", "b.c = 1", "count(*) > 1",
            "hash_bucket(i, n) = 1", "hash_bucket(i, 0) = 1", "hash_bucket(f, 10) = 1", "EXTRACT(century FROM t) = 20",
            "s LIKE 'a' ESCAPE 'b'", "x'00' = s", "i > CAST('many' AS INT)",
        ]
        .map(|text| format!("{text:?}: {}", refusal(text)))
        .join("\n"), @r##"
        "": expected: an expression, found: EOF; a column named like a word of SQL is written in double quotes
        "i >": expected: an expression, found: EOF; a column named like a word of SQL is written in double quotes
        "i > 3 i": it goes on at letter 7 with "i" where it should end: write one expression, its conditions joined by AND or OR
        "pric > 3": at letter 1: the dataset has no column "pric", did you mean "price"?
        "i > 1 AND\n  pric > 3": at line 2, letter 3: the dataset has no column "pric", did you mean "price"?
        "i > 'x'": at letter 1: > takes no BIGINT and TEXT: convert one by CAST(… AS …)
        "i + s > 1": at letter 5: + takes numbers, not TEXT
        "i": it gives BIGINT, not a condition: compare it with something, as in x > 3
        "i AND b": at letter 1: AND takes conditions, not BIGINT
        "list = list": at letter 1: = takes no List(Int32) and List(Int32): convert one by CAST(… AS …)
        "i LIKE 'x'": at letter 1: LIKE takes texts, not BIGINT
        "logp(f) > 1": at letter 1: there is no function "logp", did you mean "log1p", "log2", "log10"?
        "log1p(s) > 1": at letter 1: log1p takes a number, not TEXT
        "log1p() > 1": at letter 1: log1p takes a number, not nothing
        "day > 'yesterday'": at letter 1: "yesterday" is no timestamp: write it like '2024-01-31 12:00:00' or '2024-01-31T12:00:00+01:00'
        "DATE '1.2.2024' = day": at letter 6: "1.2.2024" is no date: write it like '2024-01-31'
        "CAST(day AS INT) > 1": at letter 6: a CAST from DATE to BIGINT is not read here, convert by way of TEXT, or take a part by EXTRACT
        "CAST(i AS MONEY) > 1": at letter 6: the type MONEY is not read here, there are BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, each of these UNSIGNED, REAL, DOUBLE, TEXT, DATE and TIMESTAMP
        "i IN (SELECT 1)": at letter 1: "i IN (SELECT 1)" is not read here, see the grammar in gateway/expressions.md
        "s ~ 'x'": at letter 1: the operator ~ is not read here, there are = <> < <= > >=, + - * / % and ||
        "b.c = 1": at letter 3: b.c is not read here, b is Boolean and has no members
        "count(*) > 1": at letter 1: there is no function "count", did you mean "round"?
        "hash_bucket(i, n) = 1": at letter 1: hash_bucket takes an integer or a text, a constant number of buckets, and a constant seed or none, not BIGINT, BIGINT
        "hash_bucket(i, 0) = 1": at letter 1: hash_bucket takes an integer or a text, a constant number of buckets, and a constant seed or none, not BIGINT, BIGINT
        "hash_bucket(f, 10) = 1": at letter 1: hash_bucket takes an integer or a text, a constant number of buckets, and a constant seed or none, not DOUBLE, BIGINT
        "EXTRACT(century FROM t) = 20": at letter 22: the part CENTURY is not read here, there are year, quarter, month, week, day, hour, minute, second, dow and doy
        "s LIKE 'a' ESCAPE 'b'": at letter 1: "s LIKE 'a' ESCAPE 'b'" is not read here, see the grammar in gateway/expressions.md
        "x'00' = s": at letter 1: the constant X'00' is not read here, there are numbers, 'texts', TRUE, FALSE, NULL, DATE '…' and TIMESTAMP '…'
        "i > CAST('many' AS INT)": at letter 10: CAST('many' AS INT) is not possible for "many": TRY_CAST('many' AS INT) gives NULL there
        "##);
    insta::assert_snapshot!(["i + 1", "*", "NULL AS x", "i AS a, n AS b"].map(|text| format!("{text:?}: {}", item(text))).join("\n"), @r#"
        "i + 1": "i + 1" has no name: write i + 1 AS NAME
        "*": at letter 1: "*" is not read here, name the columns one by one
        "NULL AS x": it gives NULL, which no column can hold: say its type by CAST(… AS …)
        "i AS a, n AS b": it goes on at letter 7 with "," where it should end: write one expression, its conditions joined by AND or OR
        "#);
}

/// Names that many datasets have, though SQL has other uses for them.
#[test]
fn columns_may_be_called_as_words_of_sql() {
    let plain = "user date time timestamp label index value key order group left right match first last offset limit \
                 default position floor map array current_date type name text year month day row rows language source \
                 session window partition rank count sum range class table column values end case in is as select";
    let quoted = "all any trim struct interval exists from";
    let is_read = |name: &str, written: &str| {
        let schema = Schema::new(vec![Field::new(name, DataType::Int64, true)]);
        let item = Expression::parse(&format!("{written} + 1 AS {written}"), &schema);
        item.and(Expression::parse(written, &schema)).is_ok()
            && Predicate::parse(&format!("{written} > 3 AND 1 < {written}"), &schema).is_ok()
    };
    for name in plain.split_whitespace() {
        assert!(is_read(name, name), "{name}");
    }
    for name in quoted.split_whitespace() {
        assert!(!is_read(name, name) && is_read(name, &format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn what_is_too_long_or_too_deep_is_refused_before_it_is_walked() {
    let deep = format!("{}i{} > 1", "(".repeat(5_000), ")".repeat(5_000));
    assert!(refusal(&deep).contains("more than the 2000 that are read"), "{}", refusal(&deep));
    let deep = format!("{}i{} > 1", "(".repeat(500), ")".repeat(500));
    assert!(refusal(&deep).contains("deep"), "{}", refusal(&deep));
    let deep = format!("i{} > 1", " + 1".repeat(900));
    assert!(refusal(&deep).contains("nests deeper than 64"), "{}", refusal(&deep));
    let deep = format!("{}b", "NOT ".repeat(1_900));
    assert!(Predicate::parse(&deep, &rows().schema()).is_err());
    let long = format!("s = '{}'", "x".repeat(2 << 20));
    assert!(refusal(&long).contains("bytes, more than the"), "{}", refusal(&long));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    /// Whatever is written, nothing falls over.
    #[test]
    fn no_text_is_a_panic(words in proptest::collection::vec(proptest::sample::select(vec![
        "i", "f", "s", "t", "b", "(", ")", "'x'", "1", "-", "+", "/", "%", "=", "<", "AND", "OR", "NOT", "IN", "CASE", "WHEN", "THEN",
        "END", "CAST", "AS", "INT", "LIKE", "BETWEEN", "IS", "NULL", "DATE", "substr", "EXTRACT", "FROM", "year", ",", "||", "*",
    ]), 0..14)) {
        let (text, rows) = (words.join(" "), rows());
        let places: Vec<usize> = (0..rows.num_columns()).collect();
        if let Ok(predicate) = Predicate::parse(&text, &rows.schema()) {
            predicate.passes(Input { batch: &rows.project(predicate.columns()).unwrap(), places: predicate.columns() }).unwrap();
        }
        if let Ok(expression) = Expression::parse(&format!("{text} AS x"), &rows.schema()) {
            expression.evaluate(Input { batch: &rows, places: &places }).unwrap();
        }
    }
}
