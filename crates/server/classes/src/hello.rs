//! Class `hello`: the example among Ceph's classes (`src/cls/hello`), which tests call.

use bytes::Bytes;
use loligo_wire::Errno;

use crate::class::{Class, DONE, Outcome, give, rd, rw, wr};
use crate::handle::Handle;

pub(crate) static CLASS: Class = Class {
    name: "hello",
    methods: &[
        rd("say_hello", say_hello),
        wr("record_hello", record_hello),
        wr("write_return_data", write_return_data),
        wr("writes_dont_return_data", writes_dont_return_data),
        wr("write_too_much_return_data", write_too_much_return_data),
        rd("replay", replay),
        rw("turn_it_to_11", turn_it_to_11),
        wr("bad_reader", bad_reader),
        rd("bad_writer", bad_writer),
    ],
};

/// The filter that the class offers to listings. It selects the same objects as Ceph's own filter
/// `plain`.
pub(crate) const FILTER: &[u8] = b"hello.hello";

/// Longer names are refused.
const NAME_LEN_MAX: usize = 100;
/// Bytes of the object that are read.
const READ_LEN: u64 = 1100;

fn greeting(input: &[u8]) -> Result<Vec<u8>, Errno> {
    if input.len() > NAME_LEN_MAX {
        return Err(Errno::EINVAL);
    }
    let name = if input.is_empty() { b"world" } else { input };
    Ok([&b"Hello, "[..], name, b"!"].concat())
}

fn say_hello(_: &mut Handle<'_>, input: &[u8]) -> Outcome {
    give(greeting(input)?.into())
}

fn record_hello(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let greeting = greeting(input)?;
    if object.exists()? {
        return Err(Errno::EEXIST);
    }
    object.write_full(greeting.into())?;
    sign(object, "said_by")
}

/// Stores the caller's name and address in an attribute.
fn sign(object: &mut Handle<'_>, attribute: &str) -> Outcome {
    let (client, addr) = (object.client(), object.client_addr());
    let addr = addr.sock.map(|sock| format!("{sock}/{}", addr.nonce)).unwrap_or_default();
    object.set_xattr(attribute, format!("{client} {addr}").as_bytes())?;
    DONE
}

/// Changes the object. Fails if there is input: then nothing is changed, and the failed call still has
/// an output.
fn mark(object: &mut Handle<'_>, input: &[u8]) -> Result<(), Errno> {
    object.set_xattr("foo", b"bar")?;
    if input.is_empty() {
        return Ok(());
    }
    object.explain(Bytes::from_static(b"too much input data!"));
    Err(Errno::EINVAL)
}

fn write_return_data(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    mark(object, input)?;
    Ok((42, Bytes::from_static(b"you might see this")))
}

fn writes_dont_return_data(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    mark(object, input)?;
    give(Bytes::from_static(b"you will never see this"))
}

fn write_too_much_return_data(object: &mut Handle<'_>, _: &[u8]) -> Outcome {
    object.set_xattr("foo", b"bar")?;
    let long = "you should not see this because it is toooooooooooooooooo long. ".repeat(3);
    Ok((42, long.into()))
}

fn replay(object: &mut Handle<'_>, _: &[u8]) -> Outcome {
    give(object.read(0, READ_LEN)?)
}

fn turn_it_to_11(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    if !input.is_empty() {
        return Err(Errno::EINVAL);
    }
    let text = object.read(0, READ_LEN)?;
    object.write_full(text.to_ascii_uppercase().into())?;
    sign(object, "amplified_by")
}

/// Reads although it is marked as a writer.
fn bad_reader(object: &mut Handle<'_>, _: &[u8]) -> Outcome {
    object.read(0, 1)?;
    DONE
}

/// Writes although it is marked as a reader.
fn bad_writer(object: &mut Handle<'_>, _: &[u8]) -> Outcome {
    object.write(0, Bytes::from_static(b"no"))?;
    DONE
}
