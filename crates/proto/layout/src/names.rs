//! The names of a file's objects.

use crate::layout::ObjectNo;

/// The number of digits of the object number in a libradosstriper name
/// (`RADOS_OBJECT_EXTENSION_FORMAT`).
const STRIPER_DIGITS: usize = 16;

/// How the objects of a file are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectNames {
    /// libradosstriper's names: the file's name, a dot, 16 hexadecimal digits.
    Striper(Vec<u8>),
    /// CephFS's names: the inode in hexadecimal, a dot, at least 8 hexadecimal digits.
    CephFs(u64),
}

impl ObjectNames {
    /// The name of an object.
    pub fn name(&self, object: ObjectNo) -> Vec<u8> {
        match self {
            Self::Striper(file) => {
                let number = format!(".{:0STRIPER_DIGITS$x}", object.0);
                [file, number.as_bytes()].concat()
            }
            Self::CephFs(inode) => format!("{inode:x}.{:08x}", object.0).into_bytes(),
        }
    }
}

/// Parses the name of a libradosstriper object into the file's name and the object's number. `None` if
/// it is not such a name.
pub fn striped_file(object: &[u8]) -> Option<(&[u8], ObjectNo)> {
    let (file, number) = object.split_at_checked(object.len().checked_sub(STRIPER_DIGITS)?)?;
    let is_digit = |c: &u8| c.is_ascii_digit() || (b'a'..=b'f').contains(c);
    let number = std::str::from_utf8(number).ok().filter(|n| n.as_bytes().iter().all(is_digit))?;
    let file = file.strip_suffix(b".").filter(|file| !file.is_empty())?;
    Some((file, ObjectNo(u64::from_str_radix(number, 16).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ceph_s() {
        let striper = ObjectNames::Striper(b"a.b".to_vec());
        assert_eq!(striper.name(ObjectNo(0)), b"a.b.0000000000000000");
        assert_eq!(striper.name(ObjectNo(0x1f)), b"a.b.000000000000001f");
        let cephfs = ObjectNames::CephFs(0x100_0000_0388);
        assert_eq!(cephfs.name(ObjectNo(1)), b"10000000388.00000001");
        assert_eq!(cephfs.name(ObjectNo(1 << 32)), b"10000000388.100000000");
    }

    #[test]
    fn files_are_found_by_their_objects() {
        assert_eq!(striped_file(b"f.000000000000001f"), Some((&b"f"[..], ObjectNo(0x1f))));
        assert_eq!(striped_file(b"a.b.ffffffffffffffff"), Some((&b"a.b"[..], ObjectNo(u64::MAX))));
        for none in
            [&b""[..], b"f", b"0000000000000000", b".0000000000000000", b"f.00000000", b"f.000000000000001F"]
        {
            assert_eq!(striped_file(none), None, "{}", String::from_utf8_lossy(none));
        }
        assert_eq!(striped_file(b"f.+00000000000001f"), None);
    }
}
