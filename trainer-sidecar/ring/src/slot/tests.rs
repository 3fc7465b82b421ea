use proptest::prelude::*;

use super::*;
use crate::map::Region;
use crate::writer::SlotWriter;

const HEADER: BatchHeader = BatchHeader { epoch: 3, step: 41, rows: 2 };

/// A slot with an int32 [2, 3] column, a string column of 2, and a bool column.
fn written() -> Region {
    let columns = [
        ColumnSpec::fixed(DType::Int32, vec![2, 3]),
        ColumnSpec::text(DType::String, vec![2], 5),
        ColumnSpec::fixed(DType::Bool, vec![2]),
    ];
    let mut region = Region::heap(&[0, 4096]).remove(0);
    let mut writer = SlotWriter::begin(region.bytes_mut(), HEADER, &columns).unwrap();
    writer.column(0).copy_from_slice(&[7; 24]);
    writer.offsets(1).copy_from_slice(&[0, 2, 5]);
    writer.column(1).copy_from_slice(b"abcde");
    writer.column(2).copy_from_slice(&[1, 0]);
    region
}

#[test]
fn what_was_written_is_read() {
    let mut region = written();
    let slot: &[u8] = region.bytes_mut();
    let (header, columns) = read(slot).unwrap();
    assert_eq!(header, HEADER);
    assert_eq!(
        columns.iter().map(|c| c.dtype).collect::<Vec<_>>(),
        [DType::Int32, DType::String, DType::Bool]
    );
    assert_eq!(columns[0].dims, [2, 3]);
    assert_eq!(slot[columns[0].data.clone()], [7; 24]);
    assert_eq!(words(&slot[columns[1].offsets.clone().unwrap()]), Some(&[0, 2, 5][..]));
    assert_eq!(&slot[columns[1].data.clone()], b"abcde");
    assert_eq!(slot[columns[2].data.clone()], [1, 0]);
}

#[test]
fn a_column_may_have_rows_of_its_own() {
    let columns = [
        ColumnSpec::fixed(DType::Int32, vec![5]).with_own_rows(),
        ColumnSpec::text(DType::String, vec![0], 0).with_own_rows(),
        ColumnSpec::fixed(DType::Int64, vec![2]),
    ];
    let mut region = Region::heap(&[0, 4096]).remove(0);
    SlotWriter::begin(region.bytes_mut(), HEADER, &columns).unwrap().offsets(1).fill(0);
    let (_, read) = read(region.bytes_mut()).unwrap();
    assert_eq!(read.iter().map(|column| column.dims[0]).collect::<Vec<_>>(), [5, 0, 2]);
}

#[test]
fn a_hostile_header_is_refused_by_the_field_it_forged() {
    let entry = |column: u64| (SLOT_HEADER + COLUMN_ENTRY * column) as usize;
    let tail = 8 + 8 * MAX_DIMS;
    let check = |at: usize, forged: &[u8], what: &str| {
        let mut region = written();
        region.bytes_mut()[at..at + forged.len()].copy_from_slice(forged);
        assert_eq!(read(region.bytes_mut()).unwrap_err().what, what, "at {at}");
    };
    check(0, b"X", "magic");
    check(4, &u32::MAX.to_le_bytes(), "column count");
    check(24, &3_u64.to_le_bytes(), "rows");
    check(entry(2) + 8, &1_u64.to_le_bytes(), "rows");
    check(entry(0), &99_u32.to_le_bytes(), "type");
    check(entry(0) + 4, &0_u32.to_le_bytes(), "number of dimensions");
    check(entry(0) + 4, &9_u32.to_le_bytes(), "number of dimensions");
    check(entry(0) + 16, &u64::MAX.to_le_bytes(), "shape");
    check(entry(0) + 16, &4_u64.to_le_bytes(), "data bytes");
    check(entry(0) + tail + 8, &4096_u64.to_le_bytes(), "data place");
    check(entry(0) + tail + 8, &0_u64.to_le_bytes(), "data place");
    check(entry(0) + tail + 8, &(-128_i64).to_le_bytes(), "data place");
    check(entry(0) + tail + 8, &513_u64.to_le_bytes(), "data place");
    check(entry(1) + tail, &0_u64.to_le_bytes(), "offsets place");
    check(entry(1) + tail + 16, &4_u64.to_le_bytes(), "last offset");
    let offsets = read(written().bytes_mut()).unwrap().1[1].offsets.clone().unwrap().start;
    check(offsets, &1_i64.to_le_bytes(), "offset");
    check(offsets + 8, &(-1_i64).to_le_bytes(), "offset");
    check(offsets + 8, &9_i64.to_le_bytes(), "offset");
    check(offsets + 16, &6_i64.to_le_bytes(), "last offset");
    assert_eq!(read(&[0; 63]).unwrap_err().what, "length");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 32 } else { 2048 }) })]
    #[test]
    fn random_damage_is_refused_or_stays_inside_the_slot(at in 0_usize..640, value in any::<u8>()) {
        let mut region = written();
        region.bytes_mut()[at] = value;
        let slot: &[u8] = region.bytes_mut();
        if let Ok((_, columns)) = read(slot) {
            for column in columns {
                prop_assert!(slot.get(column.data.clone()).is_some());
                prop_assert!(column.offsets.is_none_or(|offsets| slot.get(offsets).is_some()));
            }
        }
    }
}
