//! Extended attributes.

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_fs::{Caps, Changes, Errno, Error, Node, XattrMode};

use super::Server;
use crate::kernel::{Answer, Head, Op};

/// `XATTR_CREATE` and `XATTR_REPLACE`.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// The bits of a mode that `chmod(2)` sets, and that by which a file runs as its group.
const PERMISSIONS: u32 = 0o7777;
const SET_GROUP_ID: u32 = 0o2000;

impl Server {
    pub(super) async fn xattrs(&self, head: &Head, op: Op) -> Result<Answer, Error> {
        match op {
            Op::GetXattr { name, size } => sized(self.seen(head).await?.xattr(&name).await?, size),
            Op::ListXattr { size } => {
                let names = self.seen(head).await?.list_xattrs().await?;
                let list: Vec<u8> = names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect();
                sized(list.into(), size)
            }
            Op::SetXattr { name, value, flags, kills_sgid } => {
                let how = match flags & (CREATE | REPLACE) {
                    0 => XattrMode::Any,
                    CREATE => XattrMode::Create,
                    REPLACE => XattrMode::Replace,
                    _ => return Err(Errno::EINVAL.into()),
                };
                let node = self.changed(head).await?;
                node.set_xattr(&name, value, how).await?;
                if kills_sgid {
                    kill_sgid(&node).await?;
                }
                Ok(Answer::Done)
            }
            Op::RemoveXattr { name } => {
                self.changed(head).await?.remove_xattr(&name).await.map(|()| Answer::Done)
            }
            _ => Err(Errno::ENOSYS.into()),
        }
    }
}

/// Ends that a file runs as its group. The rules of access control lists leave that to the file system.
async fn kill_sgid(node: &Node) -> Result<(), Error> {
    let mode = node.stat(Caps::STAT).await?.mode;
    if mode & SET_GROUP_ID == 0 {
        return Ok(());
    }
    let permissions = Some(mode & PERMISSIONS & !SET_GROUP_ID);
    node.set(&Changes { permissions, ..Changes::default() }).await
}

/// Answers with a value, or, if no room is given for it, with its size.
fn sized(value: Bytes, room: u32) -> Result<Answer, Error> {
    match room as usize {
        0 => Ok(Answer::xattr_size(value.len().saturating_as::<u32>())),
        room if room < value.len() => Err(Errno::ERANGE.into()),
        _ => Ok(Answer::Data(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_where_they_have_room() {
        let value = Bytes::from_static(b"value");
        assert!(matches!(sized(value.clone(), 0), Ok(Answer::Body(_))));
        assert_eq!(sized(value.clone(), 4).expect_err("too long").errno(), Errno::ERANGE);
        assert!(matches!(sized(value, 5), Ok(Answer::Data(_))));
    }
}
