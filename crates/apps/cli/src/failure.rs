//! The program's errors: a one-line message and an exit status.

use std::any::Any;
use std::{fmt, io};

use loligo_rados::Errno;

use crate::words::CalledAs;

/// An error that ends the program: one line with the action, its object, and the reason.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: String,
    errno: Option<Errno>,
    /// The message of stock `rbd`, where scripts look for it.
    stock: Option<&'static str>,
    status: u8,
}

/// The exit status of errors that set none, as in `rados`.
const FAILED: u8 = 1;

impl Failure {
    /// Creates a failure without an errno. `what` names the command and the object or file.
    pub(crate) fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string(), errno: None, stock: None, status: FAILED }
    }

    /// Creates a failure with the errno that stock programs report for it.
    pub(crate) fn of(errno: Errno, what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { errno: Some(errno), ..Self::new(what, why) }
    }

    /// Makes the errno, if there is one, the exit status, as `rbd` does.
    pub(crate) fn ending_with_errno(self) -> Self {
        let status = self.errno.and_then(|errno| u8::try_from(errno.0).ok());
        Self { status: status.filter(|status| *status != 0).unwrap_or(self.status), ..self }
    }

    /// Returns the error line of a program with this name. Under a stock program's name it includes the
    /// text that scripts look for.
    pub(crate) fn line(&self, called: CalledAs) -> String {
        let errno = self.errno.filter(|_| called != CalledAs::Loligo && self.stock.is_none());
        let words =
            |errno: Errno| errno.words().map_or_else(|| format!("Unknown error {}", errno.0), str::to_owned);
        let text = errno.map(|errno| format!(": ({}) {}", errno.0, words(errno)));
        let stock = self.stock.filter(|_| called == CalledAs::Rbd).map(|stock| format!(": {stock}"));
        format!("{}: {self}{}", called.name(), stock.or(text).unwrap_or_default())
    }

    /// Returns the exit status.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", one_line(&self.what), one_line(&self.why))
    }
}

/// Escapes control characters, which could break a line or move a terminal's cursor: a name may have any
/// character.
pub(crate) fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Adds the failed action to an error.
pub(crate) trait Context<T> {
    /// Turns an error into a [`Failure`] of `what`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display + 'static> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|why| Failure {
            errno: errno(&why),
            stock: stock_words(&why),
            ..Failure::new(what(), why)
        })
    }
}

/// Returns stock `rbd`'s message for an error, where it is not the errno alone.
fn stock_words(why: &dyn Any) -> Option<&'static str> {
    use loligo_rbd::Error as E;
    Some(match why.downcast_ref::<E>()? {
        E::NoSnapshot(_) => "error setting snapshot context: (2) No such file or directory",
        E::KeptUntil(_) => "Deferment time has not expired",
        E::Kept { .. } => "some expired images could not be removed",
        E::HasSnapshots(_) => "image has snapshots",
        E::HasClones(_) => "image has snapshots with linked clones",
        _ => return None,
    })
}

/// Returns the errno of an error, if it has one.
fn errno(why: &dyn Any) -> Option<Errno> {
    let rados = why.downcast_ref::<loligo_rados::Error>().map(loligo_rados::Error::errno);
    let image = why.downcast_ref::<loligo_rbd::Error>().map(loligo_rbd::Error::errno);
    let file = why.downcast_ref::<loligo_fs::Error>().map(loligo_fs::Error::errno);
    let local = why.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).map(Errno);
    rados.or(image).or(file).or(local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_errno_where_that_is_wanted() {
        let failed = |why: loligo_rbd::Error| Err::<(), _>(why).context(String::new).expect_err("it failed");
        let none = || failed(loligo_rbd::Error::NoImage("i".into()));
        assert_eq!((none().status(), none().ending_with_errno().status()), (1, 2));
        let file = Err::<(), _>(io::Error::from_raw_os_error(17)).context(String::new);
        assert_eq!(file.expect_err("it failed").ending_with_errno().status(), 17);
        assert_eq!(Failure::new("a", "b").ending_with_errno().status(), 1);
    }

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
