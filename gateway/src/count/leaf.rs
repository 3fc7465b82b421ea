//! The columns that statistics speak of.

use crate::dataset::File;

/// The only leaf of a column that is values itself and no part of lists or structures, and the column's name.
pub(super) fn plain_leaf(file: &File, place: usize) -> Option<(usize, &str)> {
    let schema = file.footer.parquet_schema();
    let root = schema.root_schema().get_fields().get(place)?;
    let leaf = (0..schema.num_columns()).find(|&leaf| schema.get_column_root_idx(leaf) == place)?;
    let is_plain = root.is_primitive() && schema.column(leaf).max_rep_level() == 0;
    is_plain.then(|| (leaf, root.name()))
}
