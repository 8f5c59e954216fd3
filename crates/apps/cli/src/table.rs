//! Tables for people.

use crate::name;

/// The lines of a table, titles first, two blanks between its columns; which are right-aligned is said,
/// titles never are. Names in it are as [`name::shown`] writes them; like stock programs it takes each byte
/// for as wide as a letter.
pub(crate) fn lines<const N: usize>(right: [bool; N], rows: &[[String; N]]) -> Vec<String> {
    let width = |cell: &String| name::as_bytes(cell).len();
    let widths: [usize; N] =
        std::array::from_fn(|n| rows.iter().map(|row| width(&row[n])).max().unwrap_or(0));
    let line = |(number, row): (usize, &[String; N])| {
        let cells: [String; N] = std::array::from_fn(|n| {
            let blanks = " ".repeat(widths[n] - width(&row[n]));
            if right[n] && number > 0 { blanks + &row[n] } else { format!("{}{blanks}", row[n]) }
        });
        cells.join("  ")
    };
    rows.iter().enumerate().map(line).collect()
}
