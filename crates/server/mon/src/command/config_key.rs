//! `config-key …`: a small key-value store for management tools.

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::Node;
use crate::text;

/// Maximum size of a value in bytes (`mon_config_key_max_entry_size`).
const VALUE_MAX: usize = 64 << 10;

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let value = call.state.config_keys().get(call.args.required("key"));
    value.map(|value| Reply::output(value.as_slice())).ok_or_else(|| Failure::missing(""))
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let key = call.args.required("key");
    let value = call.args.text("val").map_or_else(|| call.input.to_vec(), text::to_bytes);
    if value.len() > VALUE_MAX {
        return Err(Failure::new(Errno::EFBIG, format!("error: entry size limited to {VALUE_MAX} bytes")));
    }
    call.state.set_config_key(key, value);
    Ok(Reply::status(format!("set {key}")))
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    call.state.remove_config_key(call.args.required("key"));
    Ok(Reply::status("key deleted"))
}

pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    let key = call.args.required("key");
    match call.state.config_keys().contains_key(key) {
        true => Ok(Reply::status(format!("key '{key}' exists"))),
        false => Err(Failure::missing(format!("key '{key}' doesn't exist"))),
    }
}

pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&Node::array(call.state.config_keys().keys().map(String::as_str))))
}

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let prefix = call.args.required("key");
    let wanted = call.state.config_keys().iter().filter(|(key, _)| key.starts_with(prefix));
    let shown = wanted.map(|(key, value)| match std::str::from_utf8(value) {
        Ok(text) => (key, text.to_owned()),
        Err(_) => (key, format!("<<< binary blob of length {} >>>", value.len())),
    });
    Ok(call.print_json(&Node::map(shown)))
}
