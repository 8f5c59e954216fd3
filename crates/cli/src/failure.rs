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
        write!(f, "{}: {}", self.what, self.why)
    }
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
