//! Values from standard input, and bytes for standard output.

use std::io::{Read, Write};

use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::say::Stdout;

/// Returns the value of the command line, or all of standard input if there is none.
pub(crate) fn given_or_read(given: Option<&Name>) -> Result<Vec<u8>, Failure> {
    if let Some(given) = given {
        return Ok(given.as_bytes().to_vec());
    }
    let mut value = Vec::new();
    std::io::stdin().read_to_end(&mut value).context(|| "read standard input".to_owned())?;
    Ok(value)
}

/// Prints one name a line, as its bytes.
pub(crate) fn print_lines<N: AsRef<[u8]>>(names: impl Iterator<Item = N>) -> Result<(), Failure> {
    names.into_iter().try_for_each(|name| print_bytes(&[name.as_ref(), b"\n"].concat()))
}

/// Prints bytes unchanged, and flushes them.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = Stdout;
    out.write_all(bytes).and_then(|()| out.flush()).context(|| "write standard output".to_owned())
}
