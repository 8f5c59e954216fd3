//! What goes over the admin socket. A request ends with a zero byte or a new line, a reply is four bytes of
//! length, big endian, and as many of text; then the server closes (Ceph, src/common/admin_socket.cc,
//! `do_accept`).
//!
//! A request is a JSON object with the command in `prefix` and its arguments beside it, or the bare words of
//! the command. Programs older than that sent four bytes, the first of them zero.

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::request::Request;

/// Bytes of a request, more than any command of ours needs. Ceph's own limit was 1,024.
pub(super) const REQUEST_MAX: usize = 16 << 10;

/// Where a request ends, if what has come so far contains all of it: its length and that of what is to be
/// skipped.
pub(super) fn end(received: &[u8]) -> Option<usize> {
    if received.first() == Some(&0) {
        return (received.len() >= 4).then_some(4);
    }
    received.iter().position(|&byte| byte == 0 || byte == b'\n')
}

/// The words of the command, and the arguments that have names.
pub(super) fn parse(request: &[u8]) -> Result<(Vec<String>, Request), Failure> {
    if let [0, code @ ..] = request {
        // 0 asks for the version; the others were for counters that had no names yet.
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

/// A reply as it is sent.
pub(super) fn reply(text: &str) -> Vec<u8> {
    // Replies are reports of some kilobytes; one of 4 GiB would be cut off.
    let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut reply = Vec::with_capacity(4 + text.len());
    reply.extend_from_slice(&len.to_be_bytes());
    reply.extend(text.bytes().take(len as usize));
    reply
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// An argument's value as words; Ceph sends several as an array.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
