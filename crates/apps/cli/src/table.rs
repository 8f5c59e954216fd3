//! Tables for people.

use crate::name;

/// Formats a table: titles first, two spaces between columns. `right` selects the columns that are
/// right-aligned; titles are always left-aligned. Names are in the form of [`name::shown`]. Like stock
/// programs, it counts each byte as one column.
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
