//! Bytes looked up in a table of 256 bytes: what a dictionary of small integers comes to.
//!
//! In: indices, a table. Out: what lies there, appended. Where the processor has a byte permutation over
//! whole tables (AVX-512 VBMI) it takes 64 at a time; elsewhere one by one.

/// Appends `table[index]` for every index.
pub(super) fn look_up(indices: &[u8], table: &[u8; 256], out: &mut Vec<u8>) {
    #[cfg(target_arch = "x86_64")]
    if vector::look_up(indices, table, out) {
        return;
    }
    one_by_one(indices, table, out);
}

fn one_by_one(indices: &[u8], table: &[u8; 256], out: &mut Vec<u8>) {
    out.extend(indices.iter().map(|&index| table[usize::from(index)]));
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "a kernel of instructions that not every processor has")]
mod vector {
    use std::arch::x86_64::{__m512i, _mm512_mask_blend_epi8, _mm512_movepi8_mask, _mm512_permutex2var_epi8};

    /// Does nothing, and says so, where the processor lacks the instructions.
    pub(super) fn look_up(indices: &[u8], table: &[u8; 256], out: &mut Vec<u8>) -> bool {
        let has_all = is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512bw");
        if has_all {
            // SAFETY: the processor has the instructions.
            unsafe { by_64(indices, table, out) }
        }
        has_all
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn by_64(indices: &[u8], table: &[u8; 256], out: &mut Vec<u8>) {
        let (quarters, _) = table.as_chunks::<64>();
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|quarter: usize| vector(quarters[quarter]));
        let (chunks, rest) = indices.as_chunks::<64>();
        out.reserve(indices.len());
        for &chunk in chunks {
            let indices = vector(chunk);
            let low = _mm512_permutex2var_epi8(first, indices, second);
            let high = _mm512_permutex2var_epi8(third, indices, fourth);
            // The highest bit of an index says which half of the table it means.
            let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(indices), low, high);
            out.extend_from_slice(&bytes(found));
        }
        super::one_by_one(rest, table, out);
    }

    #[inline]
    fn vector(bytes: [u8; 64]) -> __m512i {
        // SAFETY: both are 64 bytes without padding, and any bytes are a vector.
        unsafe { std::mem::transmute(bytes) }
    }

    #[inline]
    fn bytes(vector: __m512i) -> [u8; 64] {
        // SAFETY: both are 64 bytes without padding, and any vector is bytes.
        unsafe { std::mem::transmute(vector) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_finds_the_same() {
        let table: [u8; 256] = std::array::from_fn(|index| (index as u8).wrapping_mul(151).wrapping_add(7));
        for count in [0, 1, 63, 64, 65, 1000] {
            let indices: Vec<u8> = (0..count).map(|place: usize| (place * 37 % 256) as u8).collect();
            let (mut fast, mut slow) = (vec![1], vec![1]);
            look_up(&indices, &table, &mut fast);
            one_by_one(&indices, &table, &mut slow);
            assert_eq!(fast, slow);
        }
    }
}
