//! Untrusted input from a file.

use std::io::{self, ErrorKind, Read};

/// A reader that counts bytes. It allocates no more memory than there is data.
pub(crate) struct Input<R> {
    from: R,
    position: u64,
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.from.read(buf)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl<R: Read> Input<R> {
    /// `position`: the number of bytes already read.
    pub(crate) fn new(from: R, position: u64) -> Self {
        Self { from, position }
    }

    /// The number of bytes read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Reads the banner of a file or of a part of it.
    ///
    /// # Errors
    /// `InvalidData` if it differs from `banner`.
    pub(crate) fn banner(&mut self, banner: &str) -> io::Result<()> {
        match self.exactly(banner.len() as u64)? == banner.as_bytes() {
            true => Ok(()),
            false => Err(invalid(format!("it does not begin with '{}'", banner.trim_end()))),
        }
    }

    /// Reads exactly `len` bytes.
    ///
    /// # Errors
    /// `UnexpectedEof` if there are fewer, here and in the methods below.
    pub(crate) fn exactly(&mut self, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.by_ref().take(len).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == len { Ok(bytes) } else { Err(too_short()) }
    }

    pub(crate) fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.fill(&mut byte)?;
        Ok(byte[0])
    }

    pub(crate) fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads bytes preceded by their length.
    ///
    /// # Errors
    /// `InvalidData` if there are more than `len_max`.
    pub(crate) fn string(&mut self, len_max: u32) -> io::Result<Vec<u8>> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        let len = u32::from_le_bytes(bytes);
        if len > len_max {
            return Err(invalid(format!("{len} bytes where at most {len_max} may be")));
        }
        self.exactly(len.into())
    }

    /// Skips bytes.
    pub(crate) fn skip(&mut self, len: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.by_ref().take(len), &mut io::sink())?;
        if skipped == len { Ok(()) } else { Err(too_short()) }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact(bytes).map_err(|e| if e.kind() == ErrorKind::UnexpectedEof { too_short() } else { e })
    }
}

fn too_short() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "it ends too early")
}

/// Returns an error unless a part has the stated length, if one is stated.
pub(crate) fn agree(at: u64, said: Option<u64>, len: u64) -> io::Result<()> {
    match said.filter(|said| *said != len) {
        None => Ok(()),
        Some(said) => {
            Err(invalid(format!("what begins at byte {at} has {len} bytes, and is said to have {said}")))
        }
    }
}

pub(crate) fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}
