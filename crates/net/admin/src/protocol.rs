//! The protocol of the admin socket. A request ends with a zero byte or a newline. A reply is a length
//! of four bytes, big endian, followed by that many bytes of text; then the server closes the connection
//! (Ceph, src/common/admin_socket.cc, `do_accept`).
//!
//! A request is a JSON object with the command in `prefix` and its arguments as further members, or the
//! bare words of the command. Older programs send four bytes, the first of them zero.

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::request::Request;

/// Maximum bytes of a request, more than any command needs. Ceph's own limit was 1,024.
pub(super) const REQUEST_MAX: usize = 16 << 10;

/// Returns the length of the request, without its terminator, if it has been received completely.
pub(super) fn end(received: &[u8]) -> Option<usize> {
    if received.first() == Some(&0) {
        return (received.len() >= 4).then_some(4);
    }
    received.iter().position(|&byte| byte == 0 || byte == b'\n')
}

/// Parses a request into the words of the command and the named arguments.
pub(super) fn parse(request: &[u8]) -> Result<(Vec<String>, Request), Failure> {
    if let [0, code @ ..] = request {
        // 0 asks for the version; other codes asked for performance counters.
        let word = if code == [0, 0, 0] { "0" } else { "perfcounters_dump" };
        return Ok((vec![word.to_owned()], Request::default()));
    }
    let text = std::str::from_utf8(request).map_err(|_| Failure::new("a request is text in UTF-8"))?;
    let text = text.trim();
    if !text.starts_with('{') {
        return Ok((words(text), Request::default()));
    }
    let object: Map<String, Value> = serde_json::from_str(text)
        .map_err(|e| Failure::new(format!("a request is a JSON object or words: {e}")))?;
    let prefix = object.get("prefix").and_then(Value::as_str);
    let prefix = prefix.ok_or_else(|| Failure::new("a request has a 'prefix'"))?;
    let args = object.iter().filter(|(name, _)| *name != "prefix");
    let args = args.map(|(name, value)| (name.clone(), plain(value))).collect();
    Ok((words(prefix), Request { args }))
}

/// Encodes a reply.
pub(super) fn reply(text: &str) -> Vec<u8> {
    // Replies are reports of some kilobytes; one above 4 GiB would be truncated.
    let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut reply = Vec::with_capacity(4 + text.len());
    reply.extend_from_slice(&len.to_be_bytes());
    reply.extend(text.bytes().take(len as usize));
    reply
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Converts an argument's value to text; Ceph sends several words as an array.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
