//! Tables for people.

/// The lines of a table, titles first, two blanks between its columns; which are right-aligned is said,
/// titles never are.
pub(crate) fn lines<const N: usize>(right: [bool; N], rows: &[[String; N]]) -> Vec<String> {
    let widths: [usize; N] =
        std::array::from_fn(|n| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0));
    let line = |(number, row): (usize, &[String; N])| {
        let cells: [String; N] = std::array::from_fn(|n| match right[n] && number > 0 {
            true => format!("{:>1$}", row[n], widths[n]),
            false => format!("{:<1$}", row[n], widths[n]),
        });
        cells.join("  ")
    };
    rows.iter().enumerate().map(line).collect()
}
