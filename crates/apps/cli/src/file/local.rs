//! Local files. A thread of its own reads or writes each of them, some pieces ahead of or behind the
//! network. This includes pipes: a thread that waits for a pipe blocks nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;

use bytes::Bytes;
use loligo_stripe::{Segment, Segments};
use tokio::sync::{mpsc, oneshot};

use super::direct::{self, PIECE_BYTES};
use crate::failure::{Context, Failure};
use crate::say::Stdout;

/// The most pieces between a thread and the network.
const PIECES_MAX: usize = 4;

pub(super) fn is_dash(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// How a local file is read and written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the page cache.
    Cached,
    /// Past it.
    Direct,
}

/// Reads a local file or standard input, piece by piece.
pub(super) struct Source {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    shown: String,
}

impl Source {
    /// Opens a source at an offset; standard input is always read from its beginning.
    pub(super) fn open(file: &Path, offset: u64, way: Way) -> Result<Self, Failure> {
        let what = || format!("open {}", file.display());
        let from: Next = match way {
            _ if is_dash(file) => {
                no_direct_pipe(way, "standard input")?;
                read_through(io::stdin())
            }
            Way::Direct => {
                let mut reader = direct::Reader::open(file, offset).context(what)?;
                Box::new(move || reader.next())
            }
            Way::Cached => {
                let mut opened = File::open(file).context(what)?;
                if offset > 0 {
                    opened.seek(SeekFrom::Start(offset)).context(what)?;
                }
                read_through(opened)
            }
        };
        let (give, pieces) = mpsc::channel(PIECES_MAX);
        thread::Builder::new()
            .name("file-reader".to_owned())
            .spawn(move || read(from, &give))
            .context(what)?;
        Ok(Self { pieces, shown: file.display().to_string() })
    }

    /// Checks that the file can be read this way, before anything is created for it.
    pub(super) fn check(file: &Path, way: Way) -> Result<(), Failure> {
        let what = || format!("open {}", file.display());
        match way {
            _ if is_dash(file) => no_direct_pipe(way, "standard input"),
            Way::Direct => direct::Reader::open(file, 0).map(drop).context(what),
            // A pipe must not be opened twice: its content would be lost.
            Way::Cached if file.is_file() => File::open(file).map(drop).context(what),
            Way::Cached => Ok(()),
        }
    }

    /// Returns the next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        self.pieces.recv().await.transpose().context(|| format!("read {}", self.shown))
    }
}

fn no_direct_pipe(way: Way, pipe: &str) -> Result<(), Failure> {
    match way {
        Way::Cached => Ok(()),
        Way::Direct => {
            Err(Failure::new("--direct", format!("{pipe} is nothing that it is for; name a file")))
        }
    }
}

/// Reads the next piece; returns `None` at the end.
type Next = Box<dyn FnMut() -> io::Result<Option<Bytes>> + Send>;

fn read_through(mut from: impl Read + Send + 'static) -> Next {
    Box::new(move || {
        let mut piece = Vec::with_capacity(PIECE_BYTES as usize);
        let read = from.by_ref().take(PIECE_BYTES).read_to_end(&mut piece)?;
        Ok((read > 0).then(|| piece.into()))
    })
}

/// Reads to the end, or until the receiver is dropped.
fn read(mut from: Next, give: &mpsc::Sender<io::Result<Bytes>>) {
    while let Some(piece) = from().transpose() {
        let failed = piece.is_err();
        if give.blocking_send(piece).is_err() || failed {
            return;
        }
    }
}

/// Writes a local file or standard output, in order. Holes stay holes where the destination supports
/// them.
pub(super) struct Sink {
    parts: mpsc::Sender<Segments>,
    ended: oneshot::Receiver<io::Result<()>>,
    shown: String,
}

impl Sink {
    /// Opens a sink at an offset, and truncates the file there. Standard output is always written from
    /// its current position.
    pub(super) fn open(file: &Path, offset: u64, way: Way) -> Result<Self, Failure> {
        let what = || format!("open {}", file.display());
        let mut to = match way {
            _ if is_dash(file) => {
                no_direct_pipe(way, "standard output")?;
                Out::Pipe(Box::new(Stdout))
            }
            Way::Direct => Out::Direct(Box::new(direct::Writer::open(file, offset).context(what)?)),
            Way::Cached => {
                let mut opened = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(offset == 0)
                    .open(file)
                    .context(what)?;
                if opened.metadata().context(what)?.is_file() {
                    opened.set_len(offset).context(what)?;
                    opened.seek(SeekFrom::Start(offset)).context(what)?;
                    Out::File(opened)
                } else {
                    Out::Pipe(Box::new(opened))
                }
            }
        };
        let (parts, mut wanted) = mpsc::channel::<Segments>(PIECES_MAX);
        let (end, ended) = oneshot::channel();
        let write = move || {
            let write_all = || {
                while let Some(segments) = wanted.blocking_recv() {
                    to.write(&segments)?;
                }
                to.finish()
            };
            // The sink may be dropped already.
            let _ = end.send(write_all());
        };
        thread::Builder::new().name("file-writer".to_owned()).spawn(write).context(what)?;
        Ok(Self { parts, ended, shown: file.display().to_string() })
    }

    /// Queues segments for writing. A write error is returned by this or a later call.
    pub(super) async fn write(&mut self, segments: Segments) -> Result<(), Failure> {
        if self.parts.send(segments).await.is_ok() {
            return Ok(());
        }
        let why = (&mut self.ended).await;
        Err(Failure::new(format!("write {}", self.shown), outcome(why).err().unwrap_or_else(gone)))
    }

    /// Waits until all is written.
    pub(super) async fn finish(self) -> Result<(), Failure> {
        drop(self.parts);
        outcome(self.ended.await).context(|| format!("write {}", self.shown))
    }
}

fn outcome(ended: Result<io::Result<()>, oneshot::error::RecvError>) -> io::Result<()> {
    ended.unwrap_or_else(|_| Err(gone()))
}

fn gone() -> io::Error {
    io::Error::other("the thread that writes has ended")
}

enum Out {
    File(File),
    Direct(Box<direct::Writer>),
    Pipe(Box<dyn Write + Send>),
}

impl Out {
    fn write(&mut self, segments: &Segments) -> io::Result<()> {
        for part in segments.parts() {
            match (&mut *self, part) {
                (Self::Direct(file), part) => file.write(part)?,
                (Self::File(file), Segment::Data(data)) => file.write_all(data)?,
                (Self::Pipe(pipe), Segment::Data(data)) => pipe.write_all(data)?,
                (Self::File(file), Segment::Hole(len)) => {
                    // A hole at the end exists only if the file is extended over it.
                    let at = file.stream_position()? + len;
                    file.set_len(at)?;
                    file.seek(SeekFrom::Start(at))?;
                }
                (Self::Pipe(pipe), Segment::Hole(len)) => {
                    io::copy(&mut io::repeat(0).take(*len), pipe)?;
                }
            }
        }
        Ok(())
    }

    /// Data of a file may still be in the page cache, as with other copying programs.
    fn finish(self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Direct(file) => file.finish(),
            Self::Pipe(mut pipe) => pipe.flush(),
        }
    }
}
