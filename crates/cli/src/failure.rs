use std::fmt;

/// What the program ends with: one line that says what failed, on what, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: String,
}

impl Failure {
    /// `what` names the command and the object or file.
    pub(crate) fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", one_line(&self.what), one_line(&self.why))
    }
}

/// With escapes for what would break a line or move a terminal's cursor: a name may have any character.
fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Names what failed.
pub(crate) trait Context<T> {
    /// Turns an error into a [`Failure`] of `what`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|why| Failure::new(what(), why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_that_shows_what_a_name_has() {
        for (what, why, shown) in [
            ("get p/o", "no such object", "get p/o: no such object"),
            ("get p/o\n", "no such object", "get p/o\\n: no such object"),
            ("rm p/a\r\tb", "x\u{1b}[2K", "rm p/a\\r\\tb: x\\u{1b}[2K"),
            ("put p/é ü", "日", "put p/é ü: 日"),
        ] {
            assert_eq!(Failure::new(what, why).to_string(), shown);
        }
    }
}
