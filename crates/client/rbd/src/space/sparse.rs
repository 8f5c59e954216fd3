//! Detection of zeros that need not be written.

use std::ops::Range;

/// Returns the runs of blocks of `block_bytes` bytes that are not all zeros.
pub fn nonzero_runs(data: &[u8], block_bytes: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let blocks = data.chunks(block_bytes.max(1)).enumerate();
    for (n, block) in blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
        let from = n * block_bytes.max(1);
        match runs.last_mut() {
            Some(last) if last.end == from => last.end += block.len(),
            _ => runs.push(from..from + block.len()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_left_out() {
        let block = 4096;
        let mut data = vec![0; 5 * block + 10];
        (data[block], data[2 * block], data[5 * block + 9]) = (1, 1, 1);
        assert_eq!(nonzero_runs(&data, block), [block..3 * block, 5 * block..5 * block + 10]);
        assert!(nonzero_runs(&[0; 100], block).is_empty());
    }
}
