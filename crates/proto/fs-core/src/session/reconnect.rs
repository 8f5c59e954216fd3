//! What a client claims of a metadata server that has restarted, in messages of bounded size.

/// One message of a reconnect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// The claims in this message.
    pub claims: Vec<T>,
    /// Whether another message follows.
    pub more: bool,
}

/// Divides claims into messages of at most `bytes_max` bytes each, by the encoded size of each claim. A
/// claim that is larger has a message of its own. Without claims there is one empty message: it tells the
/// server that the client is there and holds nothing.
///
/// `can_divide` says whether the server knows several messages (feature bit `MULTI_RECONNECT`).
pub fn split_claims<T>(
    claims: Vec<T>,
    size_of: impl Fn(&T) -> usize,
    bytes_max: usize,
    can_divide: bool,
) -> Vec<Part<T>> {
    if !can_divide {
        return vec![Part { claims, more: false }];
    }
    let mut parts: Vec<Part<T>> = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0_usize;
    for claim in claims {
        let size = size_of(&claim);
        if !part.is_empty() && bytes.saturating_add(size) > bytes_max {
            parts.push(Part { claims: std::mem::take(&mut part), more: true });
            bytes = 0;
        }
        bytes = bytes.saturating_add(size);
        part.push(claim);
    }
    parts.push(Part { claims: part, more: false });
    parts
}
