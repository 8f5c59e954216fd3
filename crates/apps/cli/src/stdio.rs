//! What is read from the standard input, and bytes for the standard output.

use std::io::{Read, Write};

use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::say::Stdout;

/// A value of the command line, or all of standard input.
pub(crate) fn given_or_read(given: Option<&Name>) -> Result<Vec<u8>, Failure> {
    if let Some(given) = given {
        return Ok(given.as_bytes().to_vec());
    }
    let mut value = Vec::new();
    std::io::stdin().read_to_end(&mut value).context(|| "read standard input".to_owned())?;
    Ok(value)
}

/// One name a line, as its bytes are.
pub(crate) fn print_lines<N: AsRef<[u8]>>(names: impl Iterator<Item = N>) -> Result<(), Failure> {
    names.into_iter().try_for_each(|name| print_bytes(&[name.as_ref(), b"\n"].concat()))
}

/// Bytes as they are; at once, for who reads them.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = Stdout;
    out.write_all(bytes).and_then(|()| out.flush()).context(|| "write standard output".to_owned())
}
