//! Tables for people: columns two blanks apart, as wide as their widest cell.

use std::borrow::Cow;
use std::fmt;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned.
    Left,
    /// Right-aligned.
    Right,
    /// Right-aligned below a left-aligned title.
    BelowLeft,
}

/// A table with a line of titles.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(Cow<'static, str>, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new<T: Into<Cow<'static, str>>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (title.into(), align));
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells stay empty; cells beyond the last column are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).fold(self.columns[column].0.chars().count(), usize::max)
    }
}

impl Table {
    fn write_line(
        &self,
        f: &mut fmt::Formatter<'_>,
        widths: &[usize],
        cells: &[&str],
        are_titles: bool,
    ) -> fmt::Result {
        for (i, ((_, align), width)) in self.columns.iter().zip(widths).enumerate() {
            let gap = if i > 0 { "  " } else { "" };
            let cell = cells.get(i).copied().unwrap_or_default();
            match align {
                Align::BelowLeft if are_titles => write!(f, "{gap}{cell:<width$}")?,
                Align::Left => write!(f, "{gap}{cell:<width$}")?,
                Align::Right | Align::BelowLeft => write!(f, "{gap}{cell:>width$}")?,
            }
        }
        writeln!(f)
    }
}

/// Every line ends with a newline and is padded to the table's width.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let titles: Vec<&str> = self.columns.iter().map(|(title, _)| &**title).collect();
        self.write_line(f, &widths, &titles, true)?;
        self.rows.iter().try_for_each(|row| {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            self.write_line(f, &widths, &cells, false)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table =
            Table::new([("ID", Align::Right), ("TYPE NAME", Align::Left), ("N", Align::BelowLeft)]);
        table.row(["-1".into(), "root default".into(), "7".into()]);
        table.row(["-13".into(), "x".into(), "-17".into()]);
        let expected = " ID  TYPE NAME     N  \n -1  root default    7\n-13  x             -17\n";
        assert_eq!(table.to_string(), expected);
    }
}
