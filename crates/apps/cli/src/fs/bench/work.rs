//! The operations of a measurement, and what they need to be there.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_contend::scramble;
use loligo_fs::{Error, File, FileSystem, OpenOptions};

use super::args::{BenchArgs, BenchMode};
use crate::failure::{Context as _, Failure};

/// The file of reads and writes.
const DATA: &str = "data";
/// Bytes of one write when the file is filled.
const FILL_BYTES: u64 = 8 << 20;
/// Files that are made or removed at a time, where that is not measured.
const AT_ONCE: usize = 64;

/// The directory of a measurement.
pub(super) struct Place {
    /// Its path; nothing else is in it.
    path: String,
    mode: BenchMode,
    block: u64,
    /// The number of blocks in the file.
    blocks: u64,
    files: u64,
    is_direct: bool,
}

/// The measured operations.
pub(super) struct Work {
    fs: FileSystem,
    place: Place,
    file: Option<File>,
    data: Bytes,
}

impl Place {
    pub(super) fn of(args: &BenchArgs) -> Self {
        let above = args.dir.to_string();
        let path = format!("{}/loligo-bench-{}", above.trim_end_matches('/'), std::process::id());
        let block = args.block_size.max(1);
        let blocks = (args.file_size / block).max(1);
        Self { path, mode: args.mode, block, blocks, files: args.files, is_direct: args.direct }
    }

    /// Names what is being done, for messages.
    pub(super) fn named(&self) -> String {
        format!("bench {}", self.path)
    }

    fn file(&self, number: u64) -> String {
        format!("{}/f.{number}", self.path)
    }

    fn data(&self) -> String {
        format!("{}/{DATA}", self.path)
    }

    /// The number of operations after which nothing is left to do.
    pub(super) fn ops_max(&self, is_warm: bool) -> u64 {
        match self.mode {
            BenchMode::Create | BenchMode::Unlink => self.files,
            // The second time would find what the first has learnt.
            BenchMode::Stat if !is_warm => self.files,
            BenchMode::Readdir if !is_warm => 1,
            BenchMode::Read if !is_warm && !self.is_direct => self.blocks,
            _ => u64::MAX,
        }
    }

    /// Makes what the operations need.
    pub(super) async fn prepare(&self, fs: &FileSystem) -> Result<(), Error> {
        fs.create_dir(&self.path, 0o755).await?;
        if self.mode.is_of_data() {
            return self.fill(fs).await;
        }
        if self.mode == BenchMode::Create {
            return Ok(());
        }
        let make = |number| fs.make_node(self.file(number), 0o644, 0);
        stream::iter((0..self.files).map(make)).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Fills the file: what was never written would be read without asking for it.
    async fn fill(&self, fs: &FileSystem) -> Result<(), Error> {
        let file = fs.open(self.data(), OpenOptions::new().write().create_new()).await?;
        let size = self.block * self.blocks;
        let piece = Bytes::from(vec![0x6c; FILL_BYTES.min(size) as usize]);
        let mut at = 0;
        while at < size {
            let part = piece.slice(..(size - at).min(FILL_BYTES) as usize);
            at += part.len() as u64;
            file.write_at(at - part.len() as u64, part).await?;
        }
        file.sync().await?;
        file.close().await
    }

    /// Removes all that was made.
    pub(super) async fn remove(&self, fs: &FileSystem) -> Result<(), Failure> {
        let gone = |done: Result<(), Error>| match done {
            Err(e) if e.is_not_found() => Ok(()),
            other => other,
        };
        let removed = async {
            let entries = match fs.read_dir(&self.path).await {
                Err(e) if e.is_not_found() => return Ok(()),
                entries => entries?.all().await?,
            };
            let paths = entries.iter().map(|entry| [self.path.as_bytes(), b"/", &entry.name].concat());
            let remove = |path| async move { gone(fs.remove_file(path).await) };
            stream::iter(paths.map(remove)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
            gone(fs.remove_dir(&self.path).await)
        };
        removed.await.context(|| format!("bench: remove {}", self.path))
    }
}

impl Work {
    pub(super) fn new(fs: FileSystem, place: Place) -> Self {
        let data = if place.mode.writes() { vec![0x6c; place.block as usize] } else { Vec::new() };
        Self { fs, place, file: None, data: data.into() }
    }

    /// Opens the file, if it is to be read or written.
    pub(super) async fn open(&mut self) -> Result<(), Error> {
        let options = match self.place.mode {
            mode if !mode.is_of_data() => return Ok(()),
            mode if mode.writes() => OpenOptions::new().read().write(),
            _ => OpenOptions::new().read(),
        };
        let options = if self.place.is_direct { options.direct() } else { options };
        self.file = Some(self.fs.open(self.place.data(), options).await?);
        Ok(())
    }

    /// The bytes of an operation.
    pub(super) fn bytes(&self) -> u64 {
        if self.place.mode.is_of_data() { self.place.block } else { 0 }
    }

    /// Carries out the operation of this number. `buf` is the memory of the task that does so.
    pub(super) async fn operate(&self, number: u64, buf: &mut Vec<u8>) -> Result<(), Error> {
        let Self { fs, place, file, data } = self;
        let at = |block: u64| block % place.blocks * place.block;
        match (place.mode, file) {
            (BenchMode::Write, Some(file)) => file.write_at(at(number), data.clone()).await,
            (BenchMode::Randwrite, Some(file)) => file.write_at(at(scramble(number)), data.clone()).await,
            (BenchMode::Read, Some(file)) => self.read(file, at(number), buf).await,
            (BenchMode::Randread, Some(file)) => self.read(file, at(scramble(number)), buf).await,
            (BenchMode::Create, _) => {
                let options = OpenOptions::new().write().create_new();
                fs.open(place.file(number), options).await?.close().await
            }
            (BenchMode::Unlink, _) => fs.remove_file(place.file(number)).await,
            (BenchMode::Stat, _) => fs.lstat(place.file(number % place.files)).await.map(drop),
            _ => {
                let mut entries = fs.read_dir(&place.path).await?;
                while entries.next().await?.is_some() {}
                Ok(())
            }
        }
    }

    /// Reads a block into a buffer, as programs do. A direct read has memory of its own anyway.
    async fn read(&self, file: &File, at: u64, buf: &mut Vec<u8>) -> Result<(), Error> {
        if self.place.is_direct {
            return file.read_at(at, self.place.block).await.map(drop);
        }
        buf.resize(self.place.block as usize, 0);
        file.read_into(at, buf).await.map(drop)
    }

    /// Does everything once, so that the client's memory holds what it may hold.
    pub(super) async fn warm_up(&self) -> Result<(), Error> {
        let ops = match self.place.mode {
            BenchMode::Stat => self.place.files,
            BenchMode::Readdir => 1,
            _ => self.place.blocks,
        };
        let mut buf = Vec::new();
        // In order, not scrambled: each block once.
        for number in 0..ops {
            match &self.file {
                Some(file) => self.read(file, number * self.place.block, &mut buf).await?,
                None => self.operate(number, &mut buf).await?,
            }
        }
        Ok(())
    }

    /// Makes durable what was written.
    pub(super) async fn settle(&self) -> Result<(), Error> {
        match &self.file {
            Some(file) if self.place.mode.writes() => file.sync().await,
            _ => Ok(()),
        }
    }

    /// Closes the file; returns what is left to remove.
    pub(super) async fn end(self) -> (FileSystem, Place) {
        if let Some(file) = self.file {
            // What it could say, `settle` has said.
            let _ = file.close().await;
        }
        (self.fs, self.place)
    }
}
