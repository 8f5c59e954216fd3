//! The server's side of the fixed newstyle handshake: options until one of them chooses an export.

use az::SaturatingAs as _;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::words::{
    ALLOCATION, ALLOCATION_ID, EXPORT_NAME_ZEROES, FIXED_NEWSTYLE, GREETING, NO_ZEROES, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, info, option, reply,
};
use super::{Broken, Export, NAME_MAX, PAYLOAD_MAX, Style};

/// Maximum bytes of an option's data that are processed; an option with more is skipped and refused.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Maximum bytes of an option's data that are skipped; an option with more ends the connection.
const SKIP_MAX: u32 = 32 << 20;
/// Maximum number of options of one client. A client needs a few, and one for each export that it
/// queries.
const OPTIONS_MAX: u32 = 1 << 16;
/// Bytes of an option before its data: magic, option, length.
const OPTION_HEAD: usize = 16;
/// Block sizes that clients are told.
const BLOCK_MIN: u32 = 1;
const BLOCK_PREFERRED: u32 = 4096;

/// The server's side of a handshake.
///
/// [`greet`](Self::greet) comes first. Then [`next`](Self::next) is fed the client's bytes and writes
/// the bytes to send. If it [asks](Asked) for something, the caller must answer by the named method
/// before it calls `next` again.
#[derive(Debug)]
pub struct Handshake {
    /// No option but STARTTLS and ABORT is served before TLS.
    needs_tls: bool,
    has_tls: bool,
    /// The client's flags, once they have arrived.
    flags: Option<u16>,
    style: Style,
    /// The export for which the allocation context was selected.
    context: Option<String>,
    options: u32,
    /// Bytes of a refused option that are still to be skipped.
    skip: usize,
    waits: Waits,
}

/// A question of the handshake to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// List all exports: [`Handshake::list`].
    List,
    /// Describe an export: [`Handshake::export`].
    Export {
        /// Its name.
        name: String,
        /// The client will use the export if it may.
        chosen: bool,
    },
    /// Tell whether the export exists: [`Handshake::contexts`].
    Exists {
        /// Its name.
        name: String,
    },
    /// Send the written bytes, then begin TLS: [`Handshake::secured`].
    Tls,
    /// Send the written bytes, then close the connection.
    End,
}

/// The result of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The format of requests and replies.
    pub style: Style,
    /// The client may use BLOCK_STATUS.
    pub status: bool,
}

/// Why an export is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No export has this name.
    #[error("there is no such export")]
    Unknown,
    /// It is being removed.
    #[error("the export is being removed")]
    Shutdown,
    /// Its back end has failed for good.
    #[error("the export is lost: 'loligo nbd ls' shows why")]
    Lost,
}

/// The option that awaits the caller's answer.
#[derive(Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    List,
    ExportName,
    Info { option: u32, wants: Vec<u16> },
    Contexts { option: u32, name: String, allocation: bool },
}

impl Handshake {
    /// Creates a handshake with a new client. With `needs_tls`, options are refused until TLS has begun.
    pub fn new(needs_tls: bool) -> Self {
        Self {
            needs_tls,
            has_tls: false,
            flags: None,
            style: Style::Simple,
            context: None,
            options: 0,
            skip: 0,
            waits: Waits::Nothing,
        }
    }

    /// Writes the server's greeting.
    pub fn greet(&self, out: &mut BytesMut) {
        out.put_slice(&GREETING);
        out.put_u16(FIXED_NEWSTYLE | NO_ZEROES);
    }

    /// Processes the bytes that have arrived. Returns `None` if more are needed.
    ///
    /// # Errors
    /// The client has violated the protocol.
    pub fn next(&mut self, from: &mut BytesMut, out: &mut BytesMut) -> Result<Option<Asked>, Broken> {
        assert!(self.waits == Waits::Nothing, "what was asked must be answered first");
        if !self.take_flags(from)? {
            return Ok(None);
        }
        loop {
            let skipped = self.skip.min(from.len());
            from.advance(skipped);
            self.skip -= skipped;
            let Some((option, data)) = self.option(from, out)? else { return Ok(None) };
            if let Some(data) = data
                && let Some(asked) = self.handle(option, data, from, out)?
            {
                return Ok(Some(asked));
            }
        }
    }

    /// Answers [`Asked::List`].
    pub fn list<'a>(&mut self, exports: impl Iterator<Item = (&'a str, &'a str)>, out: &mut BytesMut) {
        self.waits = Waits::Nothing;
        for (name, description) in exports {
            head(option::LIST, reply::SERVER, 4 + name.len() + description.len(), out);
            out.put_u32(name.len().saturating_as::<u32>());
            out.put_slice(name.as_bytes());
            out.put_slice(description.as_bytes());
        }
        head(option::LIST, reply::ACK, 0, out);
    }

    /// Answers [`Asked::Export`]. If it returns `Some`, transmission begins.
    ///
    /// # Errors
    /// The export is not available, and the client used EXPORT_NAME, which has no error reply.
    pub fn export(
        &mut self,
        export: Result<&Export, Refused>,
        out: &mut BytesMut,
    ) -> Result<Option<Chosen>, Broken> {
        match std::mem::replace(&mut self.waits, Waits::Nothing) {
            Waits::ExportName => {
                let export = export.map_err(|_| Broken::NoExport)?;
                out.put_u64(export.size);
                out.put_u16(export.can.flags(self.style));
                if self.flags.unwrap_or_default() & NO_ZEROES == 0 {
                    out.put_bytes(0, EXPORT_NAME_ZEROES);
                }
                Ok(Some(self.chosen(&export.name)))
            }
            Waits::Info { option, wants } => match export {
                Err(refused) => {
                    refuse(option, refused, out);
                    Ok(None)
                }
                Ok(export) => {
                    self.tell(option, export, &wants, out);
                    head(option, reply::ACK, 0, out);
                    Ok((option == option::GO).then(|| self.chosen(&export.name)))
                }
            },
            other => unreachable!("nothing was asked about an export: {other:?}"),
        }
    }

    /// Answers [`Asked::Exists`].
    pub fn contexts(&mut self, exists: Result<(), Refused>, out: &mut BytesMut) {
        let Waits::Contexts { option, name, allocation } = std::mem::replace(&mut self.waits, Waits::Nothing)
        else {
            unreachable!("nothing was asked about contexts");
        };
        if let Err(refused) = exists {
            return refuse(option, refused, out);
        }
        let is_set = option == option::SET_META_CONTEXT;
        if allocation {
            head(option, reply::META_CONTEXT, 4 + ALLOCATION.len(), out);
            out.put_u32(if is_set { ALLOCATION_ID } else { 0 });
            out.put_slice(ALLOCATION);
            if is_set {
                self.context = Some(name);
            }
        }
        head(option, reply::ACK, 0, out);
    }

    /// TLS has begun: everything negotiated before is discarded.
    pub fn secured(&mut self) {
        (self.has_tls, self.style, self.context) = (true, Style::Simple, None);
    }

    fn take_flags(&mut self, from: &mut BytesMut) -> Result<bool, Broken> {
        if self.flags.is_none() {
            if from.len() < 4 {
                return Ok(false);
            }
            let flags = from.get_u32();
            if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return Err(Broken::Flags(flags));
            }
            self.flags = Some(flags.saturating_as::<u16>());
        }
        Ok(true)
    }

    /// Takes the next option, if it has arrived whole. An option with too much data is refused and
    /// returned without data.
    fn option(
        &mut self,
        from: &mut BytesMut,
        out: &mut BytesMut,
    ) -> Result<Option<(u32, Option<Bytes>)>, Broken> {
        let Some(mut start) = from.get(..OPTION_HEAD) else { return Ok(None) };
        let (magic, option, len) = (start.get_u64(), start.get_u32(), start.get_u32());
        if magic != OPTION_MAGIC {
            return Err(Broken::OptionMagic(magic));
        }
        if len > SKIP_MAX || (len > NAME_MAX.saturating_as::<u32>() && option == option::EXPORT_NAME) {
            return Err(Broken::OptionLength(len));
        }
        let is_too_long = len > OPTION_BYTES_MAX;
        if !is_too_long && from.len() < OPTION_HEAD + len as usize {
            return Ok(None);
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(Broken::Options(OPTIONS_MAX));
        }
        from.advance(OPTION_HEAD);
        if is_too_long {
            self.skip = len as usize;
            error(option, reply::ERR_TOO_BIG, "too much data", out);
            return Ok(Some((option, None)));
        }
        Ok(Some((option, Some(from.split_to(len as usize).freeze()))))
    }

    fn handle(
        &mut self,
        option: u32,
        data: Bytes,
        from: &BytesMut,
        out: &mut BytesMut,
    ) -> Result<Option<Asked>, Broken> {
        if self.needs_tls && !self.has_tls && !matches!(option, option::STARTTLS | option::ABORT) {
            if option == option::EXPORT_NAME {
                return Err(Broken::NoExport);
            }
            error(option, reply::ERR_TLS_REQD, "TLS is needed here", out);
            return Ok(None);
        }
        let has_none = matches!(
            option,
            option::LIST | option::STARTTLS | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS
        );
        if has_none && !data.is_empty() {
            error(option, reply::ERR_INVALID, "this option has no data", out);
            return Ok(None);
        }
        match option {
            option::EXPORT_NAME => {
                if self.style == Style::Extended {
                    return Err(Broken::NoExport);
                }
                let name = String::from_utf8(data.into()).map_err(|_| Broken::NoExport)?;
                self.waits = Waits::ExportName;
                return Ok(Some(Asked::Export { name, chosen: true }));
            }
            option::ABORT => {
                head(option, reply::ACK, 0, out);
                return Ok(Some(Asked::End));
            }
            option::LIST => {
                self.waits = Waits::List;
                return Ok(Some(Asked::List));
            }
            option::STARTTLS => return self.start_tls(from, out),
            option::INFO | option::GO => return Ok(self.ask_info(option, data, out)),
            option::STRUCTURED_REPLY if self.style == Style::Extended => {
                error(option, reply::ERR_EXT_HEADER_REQD, "headers are extended", out);
            }
            option::STRUCTURED_REPLY => {
                self.style = Style::Structured;
                head(option, reply::ACK, 0, out);
            }
            option::EXTENDED_HEADERS => {
                self.style = Style::Extended;
                head(option, reply::ACK, 0, out);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                return Ok(self.ask_contexts(option, data, out));
            }
            _ => error(option, reply::ERR_UNSUP, "there is no such option here", out),
        }
        Ok(None)
    }

    fn start_tls(&mut self, from: &BytesMut, out: &mut BytesMut) -> Result<Option<Asked>, Broken> {
        if !self.needs_tls {
            error(option::STARTTLS, reply::ERR_UNSUP, "there is no TLS here", out);
            return Ok(None);
        }
        if self.has_tls {
            error(option::STARTTLS, reply::ERR_INVALID, "TLS has begun already", out);
            return Ok(None);
        }
        // An attacker in between could have appended bytes that would seem to have come over TLS.
        if !from.is_empty() {
            return Err(Broken::PlainText(from.len()));
        }
        head(option::STARTTLS, reply::ACK, 0, out);
        Ok(Some(Asked::Tls))
    }

    fn ask_info(&mut self, option: u32, mut data: Bytes, out: &mut BytesMut) -> Option<Asked> {
        let asked = take_name(&mut data).and_then(|name| {
            let count = usize::from(data.try_get_u16().ok()?);
            // The data must have exactly the announced length.
            if data.len() != 2 * count {
                return None;
            }
            Some((name, (0..count).map(|_| data.get_u16()).collect::<Vec<u16>>()))
        });
        let Some((name, wants)) = asked else {
            error(option, reply::ERR_INVALID, "the request is not well-formed", out);
            return None;
        };
        self.waits = Waits::Info { option, wants };
        Some(Asked::Export { name, chosen: option == option::GO })
    }

    fn ask_contexts(&mut self, option: u32, mut data: Bytes, out: &mut BytesMut) -> Option<Asked> {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            self.context = None;
        }
        if self.style == Style::Simple {
            error(option, reply::ERR_INVALID, "structured replies are needed", out);
            return None;
        }
        let asked = take_name(&mut data).and_then(|name| Some((name, wants_allocation(&mut data, is_set)?)));
        let Some((name, allocation)) = asked else {
            error(option, reply::ERR_INVALID, "the request is not well-formed", out);
            return None;
        };
        self.waits = Waits::Contexts { option, name: name.clone(), allocation };
        Some(Asked::Exists { name })
    }

    fn tell(&self, option: u32, export: &Export, wants: &[u16], out: &mut BytesMut) {
        head(option, reply::INFO, 12, out);
        out.put_u16(info::EXPORT);
        out.put_u64(export.size);
        out.put_u16(export.can.flags(self.style));
        for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
            if wants.contains(&kind) && !(kind == info::DESCRIPTION && text.is_empty()) {
                head(option, reply::INFO, 2 + text.len(), out);
                out.put_u16(kind);
                out.put_slice(text.as_bytes());
            }
        }
        // Clients that did not ask for block sizes accept them as well.
        head(option, reply::INFO, 14, out);
        out.put_u16(info::BLOCK_SIZE);
        for size in [BLOCK_MIN, BLOCK_PREFERRED, PAYLOAD_MAX] {
            out.put_u32(size);
        }
    }

    fn chosen(&self, name: &str) -> Chosen {
        // A context that was selected for another export does not count.
        Chosen { style: self.style, status: self.context.as_deref() == Some(name) }
    }
}

fn take_name(data: &mut Bytes) -> Option<String> {
    let len = data.try_get_u32().ok()? as usize;
    if len > NAME_MAX || len > data.len() {
        return None;
    }
    String::from_utf8(data.split_to(len).into()).ok()
}

/// Returns whether one of the queries selects `base:allocation`; `None` if they are not well-formed. In
/// a LIST, no query at all or the namespace alone selects all contexts.
fn wants_allocation(data: &mut Bytes, is_set: bool) -> Option<bool> {
    let count = data.try_get_u32().ok()?;
    let mut wants = count == 0 && !is_set;
    // Each query takes at least four bytes, so the loop ends with the data.
    for _ in 0..count {
        let len = data.try_get_u32().ok()? as usize;
        if len > NAME_MAX || len > data.len() {
            return None;
        }
        let query = data.split_to(len);
        wants |= &*query == ALLOCATION || (!is_set && &*query == b"base:");
    }
    data.is_empty().then_some(wants)
}

fn head(option: u32, kind: u32, len: usize, out: &mut BytesMut) {
    out.put_u64(OPTION_REPLY_MAGIC);
    out.put_u32(option);
    out.put_u32(kind);
    out.put_u32(len.saturating_as::<u32>());
}

fn error(option: u32, kind: u32, why: &str, out: &mut BytesMut) {
    head(option, kind, why.len(), out);
    out.put_slice(why.as_bytes());
}

fn refuse(option: u32, refused: Refused, out: &mut BytesMut) {
    let kind = match refused {
        Refused::Unknown => reply::ERR_UNKNOWN,
        Refused::Shutdown | Refused::Lost => reply::ERR_SHUTDOWN,
    };
    error(option, kind, &refused.to_string(), out);
}
