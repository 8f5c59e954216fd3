use loligo_wire::message::osd::MOSDOp;

use crate::errno::Errno;

/// How large things may be. The defaults are a stock OSD's options of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `osd_max_object_size`, in bytes.
    pub object_bytes: u64,
    /// `osd_max_object_name_len`, in bytes.
    pub object_name_len: usize,
    /// `osd_max_object_namespace_len`, in bytes.
    pub namespace_len: usize,
    /// `osd_max_attr_name_len`, in bytes.
    pub xattr_name_len: usize,
    /// `osd_max_omap_entries_per_request`.
    pub omap_entries: u64,
    /// `osd_max_omap_bytes_per_request`.
    pub omap_bytes: usize,
    /// `osd_max_pgls`: objects in one answer of a listing.
    pub list_entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_bytes: 128 << 20,
            object_name_len: 2048,
            namespace_len: 256,
            xattr_name_len: 100,
            omap_entries: 1024,
            omap_bytes: 1 << 30,
            list_entries: 1024,
        }
    }
}

impl Limits {
    /// Whether the request's names are short enough.
    pub(crate) fn check_names(&self, op: &MOSDOp) -> Result<(), Errno> {
        let fits = op.oid.len() <= self.object_name_len
            && op.locator.key.len() <= self.object_name_len
            && op.locator.nspace.len() <= self.namespace_len;
        if fits { Ok(()) } else { Err(Errno::ENAMETOOLONG) }
    }

    /// Whether a range lies within what an object may be.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let fits = offset < self.object_bytes && len <= self.object_bytes - offset;
        if fits || (offset == self.object_bytes && len == 0) { Ok(()) } else { Err(Errno::EFBIG) }
    }
}
