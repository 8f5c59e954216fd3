//! Numbers in the machine's byte order, which is that of the kernel's interface.
#![expect(clippy::host_endian_bytes, reason = "the kernel's interface has the machine's order")]

/// Reads numbers and names from a request.
#[derive(Clone, Debug)]
pub(super) struct Fields<'b>(&'b [u8]);

/// The request ends before a field. The kernel sends no such request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooShort;

impl<'b> Fields<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], TooShort> {
        let (first, rest) = self.0.split_first_chunk().ok_or(TooShort)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn u16(&mut self) -> Result<u16, TooShort> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, TooShort> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, TooShort> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Skips fields.
    pub(super) fn skip<const N: usize>(&mut self) -> Result<(), TooShort> {
        self.array::<N>().map(drop)
    }

    /// Reads a name, which ends with a zero.
    pub(super) fn name(&mut self) -> Result<Vec<u8>, TooShort> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(TooShort)?;
        let name = self.0[..end].to_vec();
        self.0 = &self.0[end + 1..];
        Ok(name)
    }

    /// Reads so many bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'b [u8], TooShort> {
        let (first, rest) = self.0.split_at_checked(len).ok_or(TooShort)?;
        self.0 = rest;
        Ok(first)
    }
}

/// Writes numbers into an answer.
#[derive(Debug, Default)]
pub(super) struct Body(pub(super) Vec<u8>);

impl Body {
    pub(super) fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(super) fn i32(self, number: i32) -> Self {
        self.u32(number.cast_unsigned())
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(super) fn i64(self, number: i64) -> Self {
        self.u64(number.cast_unsigned())
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn zeros(mut self, len: usize) -> Self {
        self.0.resize(self.0.len() + len, 0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_where_the_request_ends() {
        let bytes = Body::default().u32(7).u64(9).bytes(b"name\0rest").0;
        let mut fields = Fields::new(&bytes);
        assert_eq!((fields.u32(), fields.u64()), (Ok(7), Ok(9)));
        assert_eq!(fields.name(), Ok(b"name".to_vec()));
        assert_eq!(fields.clone().bytes(5), Err(TooShort));
        assert_eq!(fields.name(), Err(TooShort));
        assert_eq!(fields.bytes(4), Ok(&b"rest"[..]));
        assert_eq!(fields.u32(), Err(TooShort));
    }
}
