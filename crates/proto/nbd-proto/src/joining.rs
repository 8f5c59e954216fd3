//! The client's side of the handshake: it is greeted by a server, names an export and learns its size.

use az::SaturatingAs as _;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::NAME_MAX;
use super::words::{
    EXPORT_NAME_ZEROES, FIXED_NEWSTYLE, GREETING, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC, info, option,
    reply, transmission,
};

/// Maximum bytes of one answer to an option; a longer one is an error.
const ANSWER_BYTES_MAX: u32 = 64 << 10;
/// Maximum number of answers to one option; servers send three or four kinds of information.
const ANSWERS_MAX: u32 = 64;
/// Bytes of an answer before its data: magic, option, kind, length.
const ANSWER_HEAD: usize = 20;
/// Bytes of a server's greeting: two magics and its flags.
const GREETING_BYTES: usize = 18;

/// A client's side of a handshake, without TLS and with simple replies, as the kernel's client uses them
/// afterwards.
///
/// [`next`](Self::next) is fed the server's bytes and writes the bytes to send, until it returns the
/// server's offer.
#[derive(Debug)]
pub struct Joining {
    name: String,
    waits: Waits,
    /// The server sends no zeros behind its answer to EXPORT_NAME.
    no_zeroes: bool,
    offer: Option<Offer>,
    /// The client has promised to keep to the server's block sizes.
    keeps_blocks: bool,
    block_min: u32,
    answers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Greeting,
    Go,
    ExportName,
    Nothing,
}

/// A server's description of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Size in bytes.
    pub size: u64,
    /// The transmission flags as received.
    pub flags: u16,
    /// Requests must begin and end at multiples of this number of bytes. It is 1, unless the server offers
    /// the export only to clients that promise to keep to its block sizes.
    pub block_min: u32,
}

impl Offer {
    /// The export is read-only.
    pub fn is_read_only(&self) -> bool {
        self.flags & transmission::READ_ONLY != 0
    }

    /// Data written over one connection are visible and flushed over all.
    pub fn can_multi_conn(&self) -> bool {
        self.flags & transmission::CAN_MULTI_CONN != 0
    }
}

/// Why an export cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwilling {
    /// The listener does not speak NBD.
    #[error("what listens there does not speak NBD")]
    Stranger,
    /// The server supports only the handshake of before 2011.
    #[error("the server speaks the old handshake, in which exports have no names")]
    Oldstyle,
    /// The server requires TLS.
    #[error("the server wants TLS, which the kernel's client does not speak")]
    Tls,
    /// The server refused.
    #[error("the server refused: {why} ({code:#x})")]
    Refused {
        /// The kind of its reply.
        code: u32,
        /// Its message.
        why: String,
    },
    /// The server's answer is unsolicited, too long or too short.
    #[error("the server's answer makes no sense")]
    Answer,
    /// A name is too long for the protocol.
    #[error("a name has at most {NAME_MAX} bytes")]
    Name,
}

impl Joining {
    /// Creates a handshake for the export `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            waits: Waits::Greeting,
            no_zeroes: false,
            offer: None,
            keeps_blocks: false,
            block_min: 1,
            answers: 0,
        }
    }

    /// Processes the bytes that have arrived. If it returns `None`, the caller sends the written bytes
    /// and reads more. Bytes left in `from` behind the offer are a violation by the server.
    ///
    /// # Errors
    /// The export is not available, or the server has violated the protocol.
    pub fn next(&mut self, from: &mut BytesMut, out: &mut BytesMut) -> Result<Option<Offer>, Unwilling> {
        loop {
            let went_on = match self.waits {
                Waits::Greeting => self.greeted(from, out)?,
                Waits::Go => self.answered(from, out)?,
                Waits::ExportName => self.named(from)?,
                Waits::Nothing => {
                    return Ok(self.offer.map(|offer| Offer { block_min: self.block_min, ..offer }));
                }
            };
            if !went_on {
                return Ok(None);
            }
        }
    }

    fn greeted(&mut self, from: &mut BytesMut, out: &mut BytesMut) -> Result<bool, Unwilling> {
        let seen = from.len().min(8);
        if from[..seen] != GREETING[..seen] {
            return Err(Unwilling::Stranger);
        }
        if from.len() < GREETING_BYTES {
            return Ok(false);
        }
        let (magics, flags) = (from.split_to(16), from.get_u16());
        if magics != GREETING[..] || flags & FIXED_NEWSTYLE == 0 {
            return Err(Unwilling::Oldstyle);
        }
        if self.name.len() > NAME_MAX {
            return Err(Unwilling::Name);
        }
        self.no_zeroes = flags & NO_ZEROES != 0;
        out.put_u32(u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES)));
        self.ask_to_go(out);
        self.waits = Waits::Go;
        Ok(true)
    }

    /// Writes the GO option. A client that asks for block sizes promises to keep to them; without that
    /// promise the server must accept any request. They are asked for only if the server insists: a
    /// server's preferred size does not tell the sector size that partition tables count in.
    fn ask_to_go(&self, out: &mut BytesMut) {
        let wanted: &[u16] = if self.keeps_blocks { &[info::BLOCK_SIZE] } else { &[] };
        head(option::GO, 4 + self.name.len() + 2 + 2 * wanted.len(), out);
        out.put_u32(self.name.len().saturating_as::<u32>());
        out.put_slice(self.name.as_bytes());
        out.put_u16(wanted.len().saturating_as::<u16>());
        wanted.iter().for_each(|kind| out.put_u16(*kind));
    }

    fn answered(&mut self, from: &mut BytesMut, out: &mut BytesMut) -> Result<bool, Unwilling> {
        let Some(mut start) = from.get(..ANSWER_HEAD) else { return Ok(false) };
        let (magic, asked) = (start.get_u64(), start.get_u32());
        let (kind, len) = (start.get_u32(), start.get_u32());
        if magic != OPTION_REPLY_MAGIC || asked != option::GO || len > ANSWER_BYTES_MAX {
            return Err(Unwilling::Answer);
        }
        if from.len() < ANSWER_HEAD + len as usize {
            return Ok(false);
        }
        self.answers += 1;
        if self.answers > ANSWERS_MAX {
            return Err(Unwilling::Answer);
        }
        from.advance(ANSWER_HEAD);
        let data = from.split_to(len as usize).freeze();
        match kind {
            reply::INFO => self.informed(data)?,
            reply::ACK if self.offer.is_some() => self.waits = Waits::Nothing,
            reply::ERR_UNSUP => {
                head(option::EXPORT_NAME, self.name.len(), out);
                out.put_slice(self.name.as_bytes());
                self.waits = Waits::ExportName;
            }
            reply::ERR_BLOCK_SIZE_REQD if !self.keeps_blocks => {
                self.keeps_blocks = true;
                self.ask_to_go(out);
            }
            reply::ERR_TLS_REQD => return Err(Unwilling::Tls),
            code if code & reply::ERROR != 0 => {
                let why =
                    String::from_utf8_lossy(&data).chars().filter(|c| !c.is_control()).take(200).collect();
                return Err(Unwilling::Refused { code, why });
            }
            _ => return Err(Unwilling::Answer),
        }
        Ok(true)
    }

    fn informed(&mut self, mut data: Bytes) -> Result<(), Unwilling> {
        match (data.try_get_u16(), data.len()) {
            (Ok(info::EXPORT), 10) => {
                let (size, flags) = (data.get_u64(), data.get_u16());
                self.offer = Some(Offer { size, flags, block_min: 1 });
            }
            (Ok(info::BLOCK_SIZE), 12) if self.keeps_blocks => self.block_min = data.get_u32(),
            (Ok(info::BLOCK_SIZE), 12) => {}
            (Ok(info::EXPORT | info::BLOCK_SIZE) | Err(_), _) => return Err(Unwilling::Answer),
            // Names, descriptions and unknown information are ignored.
            (Ok(_), _) => {}
        }
        Ok(())
    }

    /// Reads the answer to EXPORT_NAME. A server that refuses ends the connection.
    fn named(&mut self, from: &mut BytesMut) -> Result<bool, Unwilling> {
        let zeroes = if self.no_zeroes { 0 } else { EXPORT_NAME_ZEROES };
        if from.len() < 10 + zeroes {
            return Ok(false);
        }
        self.offer = Some(Offer { size: from.get_u64(), flags: from.get_u16(), block_min: 1 });
        from.advance(zeroes);
        self.waits = Waits::Nothing;
        Ok(true)
    }
}

fn head(option: u32, len: usize, out: &mut BytesMut) {
    out.put_u64(OPTION_MAGIC);
    out.put_u32(option);
    out.put_u32(len.saturating_as::<u32>());
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Can, Export, Handshake, Refused};
    use super::*;

    fn export(name: &str) -> Export {
        let can = Can { write: true, trim: true, fast_zero: true, multi_conn: true };
        Export { name: name.to_owned(), description: String::new(), size: 12345, can }
    }

    /// Runs a handshake with the server's side of this crate, three bytes at a time.
    fn join(name: &str, needs_tls: bool) -> Result<Offer, Unwilling> {
        let mut server = Handshake::new(needs_tls);
        let mut client = Joining::new(name);
        let (mut to_server, mut to_client, mut said) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
        server.greet(&mut said);
        loop {
            while !said.is_empty() {
                to_client.extend(said.split_to(said.len().min(3)));
                if let Some(offer) = client.next(&mut to_client, &mut to_server)? {
                    assert!(said.is_empty() && to_client.is_empty(), "nothing is left");
                    return Ok(offer);
                }
            }
            match server.next(&mut to_server, &mut said).expect("it keeps to the protocol") {
                Some(Asked::Export { name, chosen }) => {
                    assert!(chosen);
                    let known = export(&name);
                    let found = if name == "disk" { Ok(&known) } else { Err(Refused::Unknown) };
                    server.export(found, &mut said).expect("it has an answer");
                }
                other => assert_eq!(other, None),
            }
        }
    }

    #[test]
    fn our_server_is_joined_or_says_why_not() {
        let offer = join("disk", false).expect("it is there");
        assert_eq!((offer.size, offer.block_min), (12345, 1));
        assert!(offer.can_multi_conn() && !offer.is_read_only());
        let refused = join("else", false).expect_err("there is none").to_string();
        assert_eq!(refused, "the server refused: there is no such export (0x80000006)");
        assert_eq!(join("disk", true), Err(Unwilling::Tls));
    }

    /// Returns the result for a server that sends `words`, and the client's bytes.
    fn told(words: &[&[u8]]) -> (Result<Option<Offer>, Unwilling>, BytesMut) {
        let (mut from, mut out) = (BytesMut::new(), BytesMut::new());
        let mut client = Joining::new("x");
        words.iter().for_each(|word| from.extend_from_slice(word));
        (client.next(&mut from, &mut out), out)
    }

    const GREETED: &[u8] = b"NBDMAGICIHAVEOPT\0\x01";
    const ANSWER: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07";

    #[test]
    fn a_server_without_go_is_asked_in_the_oldest_way() {
        let unsupported = [ANSWER, b"\x80\0\0\x01\0\0\0\0"].concat();
        let (asked, said) = told(&[GREETED, &unsupported]);
        assert_eq!(asked, Ok(None));
        assert!(said.ends_with(b"IHAVEOPT\0\0\0\x01\0\0\0\x01x"));
        let (size, zeroes) = ([&[0; 7][..], &[9, 0, 3]].concat(), [0; 124]);
        assert_eq!(told(&[GREETED, &unsupported, &size, &zeroes[1..]]).0, Ok(None));
        let offer =
            told(&[GREETED, &unsupported, &size, &zeroes]).0.expect("it offers").expect("all is there");
        assert_eq!(offer, Offer { size: 9, flags: 3, block_min: 1 });
        assert!(offer.is_read_only());
    }

    #[test]
    fn sizes_of_blocks_bind_only_if_the_server_insists() {
        let export = [ANSWER, b"\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x10\0\0\x01\x0d"].concat();
        let blocks = [ANSWER, b"\0\0\0\x03\0\0\0\x0e\0\x03\0\0\x10\0\0\0\x10\0\x02\0\0\0"].concat();
        let done = [ANSWER, b"\0\0\0\x01\0\0\0\0"].concat();
        let insists = [ANSWER, b"\x80\0\0\x08\0\0\0\0"].concat();
        let (offered, said) = told(&[GREETED, &export, &blocks, &done]);
        assert_eq!(offered.map(|offer| offer.map(|offer| offer.block_min)), Ok(Some(1)), "a hint");
        assert!(said.ends_with(b"\0\0\0\x07\0\0\0\x07\0\0\0\x01x\0\0"));
        let (offered, said) = told(&[GREETED, &blocks, &insists, &export, &blocks, &done]);
        assert_eq!(offered.map(|offer| offer.map(|offer| offer.block_min)), Ok(Some(4096)), "it insisted");
        assert!(said.ends_with(b"\0\0\0\x07\0\0\0\x09\0\0\0\x01x\0\x01\0\x03"));
        let again = told(&[GREETED, &insists, &insists]).0;
        assert!(matches!(again, Err(Unwilling::Refused { code: 0x8000_0008, .. })), "{again:?}");
    }

    /// A regular handshake of a server, randomly damaged or cut.
    #[test]
    fn any_answers_do_no_harm() {
        let good = [
            GREETED,
            ANSWER,
            b"\0\0\0\x03\0\0\0\x0e\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0",
            ANSWER,
            b"\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x10\0\0\x01\x0d",
            ANSWER,
            b"\0\0\0\x01\0\0\0\0",
        ]
        .concat();
        let offer = Offer { size: 1 << 20, flags: 0x10d, block_min: 1 };
        let mut rng = fastrand::Rng::with_seed(5);
        for round in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..round % 4 {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            bytes.truncate(if round % 3 == 0 { rng.usize(..=bytes.len()) } else { bytes.len() });
            let (is_whole, is_start) = (bytes == good, good.starts_with(&bytes));
            let (mut client, mut from, mut out) = (Joining::new("x"), BytesMut::new(), BytesMut::new());
            let mut offered = Ok(None);
            while !bytes.is_empty() && matches!(offered, Ok(None)) {
                let rest = bytes.split_off(rng.usize(1..=bytes.len()));
                from.extend_from_slice(&bytes);
                bytes = rest;
                offered = client.next(&mut from, &mut out);
            }
            match offered {
                _ if is_whole => assert_eq!(offered, Ok(Some(offer))),
                _ if is_start => assert_eq!(offered, Ok(None)),
                // At most GO, then EXPORT_NAME.
                _ => assert!(out.len() < 100),
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (words, why) in [
            (&[&b"SSH-2.0-"[..]][..], Unwilling::Stranger),
            (&[b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0"], Unwilling::Oldstyle),
            (&[b"NBDMAGICIHAVEOPT\0\0"], Unwilling::Oldstyle),
            // Acknowledged without a description of the export.
            (&[GREETED, ANSWER, b"\0\0\0\x01\0\0\0\0"], Unwilling::Answer),
            // More than 64 KiB, information without a kind, an export without flags.
            (&[GREETED, ANSWER, b"\0\0\0\x03\0\x01\0\x01"], Unwilling::Answer),
            (&[GREETED, ANSWER, b"\0\0\0\x03\0\0\0\x01\0"], Unwilling::Answer),
            (&[GREETED, ANSWER, b"\0\0\0\x03\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0"], Unwilling::Answer),
            (&[GREETED, b"\0\x03\xe8\x89\x04\x55\x65\xa8\0\0\0\x07\0\0\0\x01\0\0\0\0"], Unwilling::Answer),
        ] {
            assert_eq!(told(words).0, Err(why), "{words:?}");
        }
        let endless = [ANSWER, b"\0\0\0\x03\0\0\0\x02\0\x07"].concat().repeat(65);
        assert_eq!(told(&[GREETED, &endless]).0, Err(Unwilling::Answer));
    }
}
